"""What a runner may do at the service, and every way in which it is refused."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from httpx import Response
from runner_scene import OLDER, Caller, Scene, a_report, scene

from bot.app import House, make_app
from bot.bench_files import keep
from bot.bench_result import LARGEST_RESULT, MOST_FILES
from bot.bench_source import sources
from bot.bench_work import BenchState, Stage
from bot.github_errors import GoneError, LimitedError
from bot.github_git import Origin
from bot.intake import Intake
from bot.runner_api import Desk, router
from bot.runner_source import unpack
from bot.runner_wire import LEASE, PROTOCOL
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.records import Process, Round, Variant, Verdict

FILES = ({"a.py": "base = 1\n"}, {"a.py": "head = 1\n"})
CLAIM = {"name": "box-1", "labels": ["a100"], "device": "an A100", "protocol": PROTOCOL}


@pytest.fixture
def here(tmp_path: Path) -> Generator[Scene]:
    with scene(tmp_path, FILES) as made:
        yield made


def claim(here: Scene, **changed: Any) -> Response:
    return here.client.post("/runner/claim", json=CLAIM | changed)


def lent(here: Scene, **order: Any) -> tuple[BenchState, dict[str, str], str]:
    """A benchmark in a runner's hands, the header with its lease, and its address."""
    made = here.order(**order)
    said = claim(here).json()
    return made, {LEASE: said["lease"]}, f"/runner/benches/{made.id}"


def refused(answer: Response, status: int) -> str:
    """The one sentence of a refusal."""
    assert answer.status_code == status, answer.text
    (reason,) = answer.json().values()
    assert "\n" not in reason
    return reason


# --- signing in


def test_a_desk_without_a_token_lets_nobody_in(here: Scene) -> None:
    desk = replace(here.desk, tokens=())
    here.app.router.routes.clear()
    here.app.include_router(router(desk))
    for token in ("", "Bearer ", "Bearer x"):
        answer = here.client.post("/runner/claim", json=CLAIM, headers={"Authorization": token})
        assert answer.status_code == 401


def test_both_tokens_count_while_one_replaces_the_other(here: Scene) -> None:
    older = here.client.post(
        "/runner/claim", json=CLAIM, headers={"Authorization": f"Bearer {OLDER}"}
    )
    assert (claim(here).status_code, older.status_code) == (204, 204)


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer nonsense", f"Basic {OLDER}", OLDER, "Bearer \u00e9".encode("latin-1")],
    ids=["none", "no token", "another", "another kind", "no kind", "odd bytes"],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/runner/claim"), ("GET", "/runner/benches/1/source"),
        ("POST", "/runner/benches/1/beat"), ("PUT", "/runner/benches/1/files/a.json.gz"),
        ("POST", "/runner/benches/1/result"), ("POST", "/runner/benches/1/problem"),
    ],
)  # fmt: skip
def test_nothing_is_done_without_the_token(
    here: Scene, method: str, path: str, given: str | bytes
) -> None:
    answer = here.client.request(method, path, headers={"Authorization": given}, content=b"{}")
    assert "HOSTSIDE_RUNNER_TOKEN" in refused(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert here.benches.runners() == ()


@pytest.mark.parametrize(("with_desk", "status"), [(False, 404), (True, 204)])
def test_only_a_service_with_a_runners_token_has_these_addresses(
    here: Scene, with_desk: bool, status: int
) -> None:
    intake = Intake(here.benches.store, lambda _: None)
    try:
        desk = here.desk if with_desk else None
        app = make_app(House(here.benches.store, intake, (b"secret",), desk=desk))
        assert Caller(app).post("/runner/claim", json=CLAIM).status_code == status
    finally:
        intake.close()


# --- asking for work


def test_an_idle_runner_is_known_to_be_there(here: Scene) -> None:
    before = time.time()
    assert claim(here).status_code == 204
    (runner,) = here.benches.runners()
    assert (runner.name, runner.labels, runner.device) == ("box-1", ("a100",), "an A100")
    assert runner.seen >= before


def test_a_runner_gets_what_was_asked_and_no_more(here: Scene) -> None:
    made = here.order(targets=("gpu_bench/x.py::bench_x",), rounds=4, patch="+x\n", gpu="a100")
    said = claim(here).json()
    assert set(said) == {"bench", "lease", "seconds", "request"}
    request = BenchRequest.from_json(json.dumps(said["request"]))
    assert (said["bench"], request.identifier) == (made.id, made.token)
    assert (request.base, request.head, request.patch) == (here.base, here.head, "+x\n")
    assert (request.repository, request.targets) == ("ada/glue", ("gpu_bench/x.py::bench_x",))
    assert (request.protocol.rounds, request.protocol.most_rounds) == (4, 4)
    assert (request.sandbox, request.gpu) == ("auto", None)
    assert here.benches.get(made.id).runner == "box-1"


def test_an_order_for_another_kind_of_machine_waits(here: Scene) -> None:
    here.order(gpu="h100")
    assert claim(here).status_code == 204
    assert claim(here, labels=["h100"]).status_code == 200


def test_a_runner_that_only_greets_gets_nothing(here: Scene) -> None:
    here.order()
    assert claim(here, wants=False).status_code == 204
    assert len(here.benches.runners()) == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"protocol": PROTOCOL - 1}, "this runner is older", id="an older runner"),
        pytest.param({"protocol": PROTOCOL + 1}, "the service is older", id="a newer runner"),
    ],
)
def test_a_runner_of_another_version_is_told_what_to_do(
    here: Scene, changed: dict[str, Any], words: str
) -> None:
    here.order()
    reason = refused(claim(here, **changed), 426)
    assert reason.startswith(words)
    assert "install the same version" in reason
    assert here.benches.history()[0].stage is Stage.QUEUED


@pytest.mark.parametrize(
    "changed",
    [{"name": ""}, {"name": "a b"}, {"name": "x" * 64}, {"labels": ["ok", "../x"]},
     {"labels": ["x"] * 21}, {"device": "a\x1b[2J"}, {"protocol": "one"}],
    ids=["no name", "a space", "long", "a path", "many labels", "an escape", "no number"],
)  # fmt: skip
def test_a_claim_that_makes_no_sense_is_refused(here: Scene, changed: dict[str, Any]) -> None:
    assert "was not understood" in refused(claim(here, **changed), 422)


def test_a_claim_may_not_be_endless(here: Scene) -> None:
    assert "16 KiB" in refused(claim(here, device="x" * 20_000), 413)


# --- the lease


def test_a_beat_keeps_the_benchmark_and_tells_how_far_it_is(here: Scene) -> None:
    made, headers, one = lent(here)
    assert here.client.post(f"{one}/beat", json={}, headers=headers).json()["go_on"] is True
    assert here.benches.get(made.id).stage is Stage.PREPARING
    progress = {"running": True, "done": 3, "total": 9, "doing": "timing", "seconds_left": 12.5}
    here.client.post(f"{one}/beat", json=progress, headers=headers)
    now = here.benches.get(made.id)
    assert (now.stage, now.progress.done, now.progress.total) == (Stage.RUNNING, 3, 9)
    assert (now.progress.doing, now.progress.seconds_left) == ("timing", 12.5)


@pytest.mark.parametrize(
    "body",
    [{"done": -1}, {"total": 10**9}, {"seconds_left": "inf"}, {"doing": "x\ny"}, [], "x"],
    ids=["negative", "endless", "infinite", "two lines", "a list", "a word"],
)
def test_a_beat_that_makes_no_sense_is_refused(here: Scene, body: Any) -> None:
    _, headers, one = lent(here)
    answer = here.client.post(f"{one}/beat", json=body, headers=headers)
    assert "was not understood" in refused(answer, 422)


def test_a_cancelled_benchmark_is_told_at_the_next_beat(here: Scene) -> None:
    made, headers, one = lent(here)
    here.benches.cancel(made.id, "ada cancelled it")
    said = here.client.post(f"{one}/beat", json={}, headers=headers).json()
    assert said == {"go_on": False, "why": "ada cancelled it"}


def test_after_its_lease_another_machine_has_it(here: Scene) -> None:
    made, headers, one = lent(here)
    here.benches.beat(made.id, headers[LEASE], seconds=-1)
    here.benches.upkeep()
    second = claim(here, name="box-2").json()
    assert second["bench"] == made.id
    said = here.client.post(f"{one}/beat", json={}, headers=headers).json()
    assert said["go_on"] is False
    assert "another machine" in said["why"]
    for path, kind in (("result", {}), ("problem", {"problem": "x"})):
        assert "another machine" in refused(
            here.client.post(f"{one}/{path}", json=kind, headers=headers), 409
        )
    assert "another machine" in refused(here.client.get(f"{one}/source", headers=headers), 409)


@pytest.mark.parametrize(
    "headers",
    [{}, {LEASE: ""}, {LEASE: "0" * 32}, {LEASE: "x'; --"}, {LEASE: "a" * 1000}],
    ids=["none", "empty", "wrong", "odd", "long"],
)
@pytest.mark.parametrize("bench", ["1", "2", "-1", "x", str(2**62), "9" * 5000])
def test_a_wrong_lease_opens_nothing(here: Scene, bench: str, headers: dict[str, str]) -> None:
    made, _, _ = lent(here)
    one = f"/runner/benches/{bench}"
    packed = gzip.compress(b"{}")
    for method, path, content in (
        ("GET", "source", b""), ("POST", "result", b"{}"), ("PUT", "files/a.json.gz", packed),
        ("POST", "problem", b'{"problem": "x"}'),
    ):  # fmt: skip
        answer = here.client.request(method, f"{one}/{path}", headers=headers, content=content)
        assert "another machine" in refused(answer, 409)
    assert here.benches.get(made.id).stage is Stage.PREPARING


def test_a_restarted_service_gives_every_machine_time_to_report(here: Scene) -> None:
    made, headers, one = lent(here)
    here.benches.beat(made.id, headers[LEASE], seconds=-1)  # the lease ran out meanwhile
    here.benches.extend()
    here.benches.upkeep()
    assert here.client.post(f"{one}/beat", json={}, headers=headers).json()["go_on"] is True


# --- the source


def test_the_source_is_exactly_the_two_commits(here: Scene, tmp_path: Path) -> None:
    _, headers, one = lent(here)
    answer = here.client.get(f"{one}/source", headers=headers)
    assert answer.status_code == 200
    assert len(answer.content) == int(answer.headers["content-length"])
    unpack([answer.content], tmp_path / "there.git", (here.base, here.head))


def with_origin(here: Scene, problem: Exception) -> None:
    def refuse(_: object) -> Origin:
        raise problem

    here.app.router.routes.clear()
    made = sources(refuse, 1)
    here.app.include_router(router(Desk(here.benches, made, here.desk.tokens)))


def test_a_repository_that_is_gone_ends_the_benchmark_with_that_sentence(here: Scene) -> None:
    made, headers, one = lent(here)
    with_origin(here, GoneError("the App is no longer installed there"))
    reason = refused(here.client.get(f"{one}/source", headers=headers), 410)
    now = here.benches.get(made.id)
    assert (now.stage, now.problem) == (Stage.FAILED, reason)
    assert "install the App there again and ask again" in reason


def test_a_github_that_is_slow_costs_patience_and_no_benchmark(here: Scene) -> None:
    made, headers, one = lent(here)
    with_origin(here, LimitedError("GitHub asks for a pause"))
    reason = refused(here.client.get(f"{one}/source", headers=headers), 503)
    assert reason == "GitHub asks for a pause"
    assert here.benches.get(made.id).stage is Stage.PREPARING


# --- the result


def post(here: Scene, one: str, headers: dict[str, str], text: str | bytes) -> Response:
    return here.client.post(f"{one}/result", content=text, headers=headers)


def test_a_result_is_taken_once_and_may_be_sent_again(here: Scene) -> None:
    made, headers, one = lent(here)
    text = a_report(made).to_json()
    assert post(here, one, headers, text).status_code == 200
    version = here.benches.get(made.id).version
    assert post(here, one, headers, text).status_code == 200  # its answer had been lost
    now = here.benches.get(made.id)
    assert (now.stage, now.version, now.has_report) == (Stage.DONE, version, True)
    assert BenchReport.from_json(here.benches.report(made.id)).headline is Verdict.FASTER


def test_a_machine_cannot_word_its_own_verdict(here: Scene) -> None:
    made, headers, one = lent(here)
    honest = a_report(made, base_ns=20_000, head_ns=40_000)
    forged = replace(
        honest, headline=Verdict.FASTER, summary="@everyone twice as fast", comparisons=()
    )
    assert post(here, one, headers, forged.to_json()).status_code == 200
    kept = BenchReport.from_json(here.benches.report(made.id))
    assert (kept.headline, kept.comparisons) == (Verdict.SLOWER, honest.comparisons)
    assert "@everyone" not in kept.summary


def changed(report: BenchReport, **request: Any) -> BenchReport:
    return replace(report, run=replace(report.run, request=replace(report.run.request, **request)))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        pytest.param({"head": "1" * 40}, "another head", id="another commit"),
        pytest.param({"identifier": "x"}, "another identifier", id="another benchmark"),
        pytest.param({"identifier": None}, "another identifier", id="no identifier"),
        pytest.param({"patch": "+y\n"}, "another patch", id="another suggestion"),
        pytest.param({"targets": ("x",)}, "another targets", id="another target"),
        pytest.param({"repository": "/srv/x"}, "another repository", id="its own folder"),
    ],
)
def test_an_answer_to_another_question_is_not_taken(
    here: Scene, request_: dict[str, Any], words: str
) -> None:
    made, headers, one = lent(here)
    reason = refused(post(here, one, headers, changed(a_report(made), **request_).to_json()), 422)
    assert words in reason
    now = here.benches.get(made.id)
    assert (now.stage, reason in now.problem, "box-1" in now.problem) == (Stage.FAILED, True, True)


def test_fewer_rounds_than_asked_for_are_another_question(here: Scene) -> None:
    made, headers, one = lent(here)
    told = a_report(made)
    less = replace(told.run.request.protocol, rounds=2)
    reason = refused(post(here, one, headers, changed(told, protocol=less).to_json()), 422)
    assert "another protocol" in reason


def test_where_it_ran_is_for_the_machine_to_say(here: Scene) -> None:
    made, headers, one = lent(here)
    told = a_report(made)
    limits = replace(told.run.request.limits, memory_bytes=1 << 30)
    own = changed(told, gpu="0", sandbox="bubblewrap", limits=limits)
    assert post(here, one, headers, own.to_json()).status_code == 200


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"run": 1}', b'{"version": 99}'],
    ids=["nothing", "half", "a list", "no text", "a number", "a later version"],
)
def test_a_malformed_result_ends_the_benchmark_with_a_sentence(here: Scene, text: bytes) -> None:
    made, headers, one = lent(here)
    reason = refused(post(here, one, headers, text), 422)
    assert reason.startswith("the result is malformed (BenchReport is not valid at ")
    now = here.benches.get(made.id)
    assert now.stage is Stage.FAILED
    assert now.problem == f"the result of box-1 was not taken: {reason}"


def test_a_result_with_control_characters_is_malformed(here: Scene) -> None:
    made, headers, one = lent(here)
    said = json.loads(a_report(made).to_json())
    said["run"]["benchmarks"][0]["name"] = "x\x1b]0;owned\x07"
    assert "control characters" in refused(post(here, one, headers, json.dumps(said)), 422)


def test_figures_that_mean_nothing_together_end_the_benchmark_with_a_sentence(here: Scene) -> None:
    made, headers, one = lent(here)
    told = a_report(made)
    pair = (Process(Variant.BASE, (1e-300,)), Process(Variant.HEAD, (1e18,)))
    odd = replace(told.run.benchmarks[0], rounds=tuple(Round(number, pair) for number in range(6)))
    text = replace(told, run=replace(told.run, benchmarks=(odd,))).to_json()
    reason = refused(post(here, one, headers, text), 422)
    assert "make no sense together" in reason
    assert reason in here.benches.get(made.id).problem


def test_a_result_that_is_too_large_ends_the_benchmark_with_the_way_out(here: Scene) -> None:
    made, headers, one = lent(here)
    reason = refused(post(here, one, headers, bytes(LARGEST_RESULT + 1)), 413)
    assert "16 MiB; name fewer benchmarks" in reason
    assert here.benches.get(made.id).problem == f"the result of box-1 was not taken: {reason}"


def test_a_cancelled_benchmark_takes_no_result(here: Scene) -> None:
    made, headers, one = lent(here)
    here.benches.cancel(made.id, "a newer push")
    refused(post(here, one, headers, a_report(made).to_json()), 409)
    assert here.benches.get(made.id).stage is Stage.CANCELLED


def test_results_without_a_sandbox_are_not_taken(here: Scene) -> None:
    made, headers, one = lent(here)
    told = a_report(made)
    bare = replace(told.run, environment=replace(told.run.environment, sandbox="none"))
    reason = refused(post(here, one, headers, replace(told, run=bare).to_json()), 422)
    assert "without a sandbox" in reason


def test_a_runner_gives_a_benchmark_up_in_one_sentence(here: Scene) -> None:
    made, headers, one = lent(here)
    answer = here.client.post(
        f"{one}/problem", json={"problem": "no room left\u2028; make some"}, headers=headers
    )
    assert answer.status_code == 200
    now = here.benches.get(made.id)
    assert (now.stage, now.problem) == (Stage.FAILED, "no room left; make some")


# --- files


def test_traces_are_kept_with_the_result(here: Scene) -> None:
    made, headers, one = lent(here)
    packed = gzip.compress(b'{"traceEvents": []}')
    for content in (gzip.compress(b"first try"), packed):
        answer = here.client.put(f"{one}/files/x.head.1.json.gz", content=content, headers=headers)
        assert answer.status_code == 200
    post(here, one, headers, a_report(made).to_json())
    assert here.benches.files(made.id) == ("x.head.1.json.gz",)
    assert here.benches.file(made.id, "x.head.1.json.gz") == packed


def test_the_next_machine_starts_without_the_files_of_the_lost_one(here: Scene) -> None:
    made, headers, one = lent(here)
    here.client.put(f"{one}/files/a.json.gz", content=gzip.compress(b"x"), headers=headers)
    here.benches.beat(made.id, headers[LEASE], seconds=-1)
    here.benches.upkeep()
    assert claim(here, name="box-2").json()["bench"] == made.id
    assert here.benches.files(made.id) == ()


@pytest.mark.parametrize(
    "name",
    ["x.html", ".json.gz", "x.json.gz.exe", "x%0A.json.gz", "%2e%2e.json.gz",
     "x" * 200 + ".json.gz", "%3Cscript%3E.json.gz"],
    ids=["a page", "no name", "a program", "a line end", "dots", "long", "markup"],
)  # fmt: skip
def test_files_are_traces_by_name(here: Scene, name: str) -> None:
    made, headers, one = lent(here)
    packed = gzip.compress(b"x")
    answer = here.client.put(f"{one}/files/{name}", content=packed, headers=headers)
    assert "called what no trace is called" in refused(answer, 422)
    assert here.benches.files(made.id) == ()


def test_files_are_traces_by_content(here: Scene) -> None:
    _, headers, one = lent(here)
    answer = here.client.put(f"{one}/files/a.json.gz", content=b"<html>", headers=headers)
    assert "no gzip file" in refused(answer, 422)


def test_files_have_an_end(here: Scene) -> None:
    made, headers, one = lent(here)
    packed = gzip.compress(b"x")
    for number in range(MOST_FILES):
        assert keep(here.benches.store, made.id, headers[LEASE], f"{number}.json.gz", packed)
    answer = here.client.put(f"{one}/files/one-more.json.gz", content=packed, headers=headers)
    assert "more files than 40" in refused(answer, 422)
    assert len(here.benches.files(made.id)) == MOST_FILES
