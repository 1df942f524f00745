"""The runner on its own machine: settings, patience, refusals, and what it makes of answers."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot.cli import gpu_runner as command
from bot.errors import ConfigError, UsageError
from bot.runner import Machine, Runner
from bot.runner_link import AwayError, Link, RefusedError, StoppedError, patiently
from bot.runner_settings import load_runner_settings, usual_name
from bot.runner_wire import PROTOCOL, Beat, Lent
from gpu_runner.models import BenchRequest
from gpu_runner.records import Backend

GOOD = {
    "HOSTSIDE_SERVER_URL": "https://bench.example/base/",
    "HOSTSIDE_RUNNER_TOKEN": "hush-hush",
}
LENT = Lent(bench=1, lease="0" * 32, request={})
ROOT = Path(__file__).parents[1]


def environment(monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    for name in os.environ:
        if name.startswith("HOSTSIDE_"):
            monkeypatch.delenv(name)
    for name, value in (GOOD | {f"HOSTSIDE_{k}": v for k, v in changed.items()}).items():
        monkeypatch.setenv(name, value)


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(given)


def link(answer: Callable[[httpx.Request], httpx.Response]) -> Link:
    return Link("http://service", "secret", httpx.MockTransport(answer))


# --- settings


def test_two_variables_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch)
    settings = load_runner_settings(None)
    assert settings.server_url == "https://bench.example/base"
    assert (settings.broker, settings.exposed) == ("", False)
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"SERVER_URL": ""}, "HOSTSIDE_SERVER_URL should be", id="no address"),
        pytest.param({"SERVER_URL": "ftp://x"}, "starts with https://", id="another kind"),
        pytest.param({"RUNNER_TOKEN": ""}, "HOSTSIDE_RUNNER_TOKEN", id="no token"),
        pytest.param({"LOG_LEVEL": "loud"}, "DEBUG, INFO", id="level"),
        pytest.param({"BROKER_URL": "sqla+x://"}, "redis://, amqp://", id="another broker"),
    ],
)
def test_a_broken_setting_is_named_and_no_secret_shown(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], words: str
) -> None:
    environment(monkeypatch, **changed)
    with pytest.raises(ConfigError) as caught:
        load_runner_settings(None)
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "exposed"),
    [("http://10.0.0.1", True), ("http://localhost:8000", False), ("https://x.example", False)],
)
def test_a_secret_on_an_open_wire_is_noticed(
    monkeypatch: pytest.MonkeyPatch, url: str, exposed: bool
) -> None:
    environment(monkeypatch, SERVER_URL=url)
    assert load_runner_settings(None).exposed is exposed


def test_a_host_name_is_always_a_name() -> None:
    assert command._NAME.fullmatch(usual_name())


# --- options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(("--name", "a b"), "'a b' is no name", id="a name with a space"),
        pytest.param(("--label", "../x"), "'../x' is no name", id="a label that is a path"),
        pytest.param(("--every", "0"), "--every must be above 0", id="no pause"),
        pytest.param(("--every", "nan"), "--every must be above 0", id="no number"),
        pytest.param(("--backend", "cpu", "--device", "0"), "uses no GPU", id="a CPU's GPU"),
        pytest.param(
            ("--backend", "model", "--python", "/nowhere/python"), "not a Python", id="no Python"
        ),
    ],
)
def test_an_option_that_makes_no_sense_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], words: str
) -> None:
    environment(monkeypatch)
    monkeypatch.setattr("gpu_runner.sandbox.bubblewrap_problem", lambda: None)
    with pytest.raises(UsageError, match=words):
        command.run(arguments(*given))


def test_a_machine_without_a_sandbox_does_not_even_start(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOSTSIDE_")}
    line = [sys.executable, "-m", "bot", "gpu-runner", "--backend", "cpu"]
    done = subprocess.run(
        line, cwd=ROOT, env=environment | GOOD | {"PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "hostside: no sandbox works on this machine (bubblewrap is not installed), and a runner "
        "measures in nothing less; install bubblewrap (apt-get install bubblewrap), or name a "
        "container image by --image\n"
    )


def test_what_is_asked_is_measured_here_and_never_without_a_sandbox(tmp_path: Path) -> None:
    asked = BenchRequest("ada/glue", "a" * 40, "b" * 40, sandbox="none", patch="+x\n")
    machine = Machine("box", backend=Backend.CUDA, gpu="1")
    ours = machine.request(asked, tmp_path)
    assert (ours.repository, ours.sandbox) == (str(tmp_path), "auto")
    assert (ours.backend, ours.gpu, ours.patch) == (Backend.CUDA, "1", "+x\n")


# --- the link


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        pytest.param(httpx.Response(401, json={"error": "no"}), RefusedError, "no", id="refused"),
        pytest.param(httpx.Response(404), RefusedError, "RUNNER_TOKEN set on it", id="404"),
        pytest.param(httpx.Response(418, text="x"), RefusedError, "answers 418", id="odd"),
        pytest.param(httpx.Response(302), RefusedError, "answers 302", id="sent elsewhere"),
        pytest.param(httpx.Response(503, json={"error": "soon"}), AwayError, "soon", id="busy"),
        pytest.param(httpx.Response(429), AwayError, "answers 429", id="too often"),
        pytest.param(httpx.Response(502, text="<html>"), AwayError, "answers 502", id="a proxy"),
        pytest.param(httpx.Response(200, text="<html>"), AwayError, "no sense", id="a page"),
        pytest.param(httpx.Response(200, json={"bench": -1}), AwayError, "no sense", id="nonsense"),
    ],
)  # fmt: skip
def test_every_answer_is_told_as_worth_repeating_or_not(
    answer: httpx.Response, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        link(lambda _: answer).claim(Machine("box").claim)


def test_a_service_that_lent_something_is_only_away_when_a_proxy_does_not_find_it() -> None:
    with pytest.raises(AwayError, match="no service for runners"):
        link(lambda _: httpx.Response(404)).result(LENT, b"{}")


def test_a_broken_connection_is_worth_repeating() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(AwayError, match="cannot be reached"):
        link(fail).beat(LENT, Beat())
    with pytest.raises(AwayError, match="cannot be reached"), link(fail).source(LENT):
        pass


def test_a_refused_source_is_told_in_the_service_s_words() -> None:
    gone = httpx.Response(410, json={"error": "GitHub no longer has it"})
    with pytest.raises(RefusedError, match="no longer has it"), link(lambda _: gone).source(LENT):
        pass


def test_the_token_goes_to_the_service_and_the_lease_with_each_report() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    link(answer).result(LENT, b"{}")
    (request,) = seen
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["hostside-lease"] == LENT.lease
    assert str(request.url) == "http://service/runner/benches/1/result"


class Clock:
    """Stands for an event: waiting moves time, and takes none."""

    def __init__(self, stop_after: int = 1000) -> None:
        self.waited: list[float] = []
        self.stop_after = stop_after

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return len(self.waited) >= self.stop_after


def failing(times: int) -> Callable[[], str]:
    left = [times]

    def action() -> str:
        if left[0]:
            left[0] -= 1
            raise AwayError("away")
        return "done"

    return action


def test_a_service_that_comes_back_gets_its_result_after_growing_pauses() -> None:
    clock: Any = Clock()
    assert patiently(failing(8), clock, patience=1e9) == "done"
    assert clock.waited == [1, 2, 4, 8, 16, 32, 60, 60]


def test_patience_has_an_end() -> None:
    clock: Any = Clock()
    with pytest.raises(AwayError):
        patiently(failing(8), clock, patience=0.5)
    assert clock.waited == []


def test_a_runner_that_is_to_end_waits_for_nobody() -> None:
    clock: Any = Clock(stop_after=2)
    with pytest.raises(StoppedError):
        patiently(failing(8), clock, patience=1e9)


# --- the runner


def service(claims: list[dict[str, Any]], told: list[tuple[str, Any]]) -> Link:
    """Lends each of these once; notes what is said about them; has no source."""

    def answer(request: httpx.Request) -> httpx.Response:
        what = request.url.path.rpartition("/")[2]
        if what == "claim":
            return httpx.Response(200, json=claims.pop(0)) if claims else httpx.Response(204)
        if what == "source":
            return httpx.Response(200, content=b"<html>a proxy's page</html>")
        if request.content:
            told.append((what, json.loads(request.content)))
        return httpx.Response(200, json={"go_on": True})

    return link(answer)


def a_claim(**request: Any) -> dict[str, Any]:
    asked = json.loads(BenchRequest("ada/glue", "a" * 40, "b" * 40).to_json())
    return {"bench": 1, "lease": "0" * 32, "seconds": 600.0, "request": asked | request}


def test_a_request_from_a_later_version_is_given_up_with_a_sentence() -> None:
    told: list[tuple[str, Any]] = []
    assert Runner(service([a_claim(novelty=1)], told), Machine("box")).ask() == 1
    ((what, said),) = told
    assert what == "problem"
    assert said["problem"].startswith("the runner does not understand what is asked: BenchRequest")


def test_a_source_that_is_none_is_given_up_with_a_sentence() -> None:
    told: list[tuple[str, Any]] = []
    Runner(service([a_claim()], told), Machine("box")).ask()
    ((what, said),) = told
    assert (what, "no sound git pack" in said["problem"]) == ("problem", True)


def test_a_runner_goes_on_until_nothing_waits() -> None:
    told: list[tuple[str, Any]] = []
    runner = Runner(service([a_claim(), a_claim(), a_claim()], told), Machine("box"))
    assert runner.ask() == 3
    assert len(told) == 3
    assert runner.ask() == 0


def test_a_stopped_runner_asks_for_nothing() -> None:
    claims = [a_claim()]
    runner = Runner(service(claims, []), Machine("box"))
    runner.stop()
    assert runner.ask() == 0
    assert len(claims) == 1


def test_a_busy_runner_is_not_asked_twice() -> None:
    inside, go = threading.Event(), threading.Event()
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        inside.set()
        go.wait(30)
        return httpx.Response(204)

    runner = Runner(link(answer), Machine("box"))
    thread = threading.Thread(target=runner.ask)
    thread.start()
    assert inside.wait(30)
    assert runner.ask_if_idle() == 0
    go.set()
    thread.join()
    assert asked == ["/runner/claim"]


def test_a_greeting_asks_for_no_work() -> None:
    said: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        said.append(json.loads(request.content))
        return httpx.Response(204)

    Runner(link(answer), Machine("box", ("a100",), "an A100", version="1")).greet()
    assert said == [
        {"name": "box", "labels": ["a100"], "device": "an A100", "wants": False,
         "protocol": PROTOCOL, "version": "1"}
    ]  # fmt: skip


def test_a_refused_runner_ends_with_the_service_s_sentence() -> None:
    old = httpx.Response(426, json={"error": "this runner is older than the service"})
    runner = Runner(link(lambda _: old), Machine("box"))
    with pytest.raises(ConfigError, match="refuses this runner: this runner is older"):
        command._greet(runner)
