"""The pages of benchmark runs: complete, self-contained, harmless, and found only by their link."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from test_bench_report import made

from bot.bench_pages import add_pages, badge_path, run_path
from bot.bench_work import BenchState, Order
from bot.benches import Benches
from bot.cli import main
from bot.store import Store
from gpu_runner.models import BenchReport

SECRET, NEWER = b"a secret of the webhook", b"the secret that follows it"
ORDER = Order("ada/glue", 7, 3, "b" * 40, "a" * 40, "ada", suggestion="all 2 suggestions")


@pytest.fixture
def benches(tmp_path: Path) -> Generator[Benches]:
    store = Store(f"sqlite:///{tmp_path / 'hostside.db'}")
    yield Benches(store)
    store.close()


class Browser:
    """Gets what the application answers, without a network."""

    def __init__(self, app: FastAPI) -> None:
        self._transport = httpx.ASGITransport(app)

    def get(self, address: str) -> httpx.Response:
        return asyncio.run(self._get(address))

    async def _get(self, address: str) -> httpx.Response:
        base = "https://hostside.example"
        async with httpx.AsyncClient(transport=self._transport, base_url=base) as client:
            return await client.get(address)


@pytest.fixture
def browser(benches: Benches) -> Browser:
    app = FastAPI(openapi_url=None)
    add_pages(app, benches, (NEWER, SECRET), "https://hostside.example")
    return Browser(app)


def done(benches: Benches, report: BenchReport, key: str = "k") -> BenchState:
    order = benches.order(replace(ORDER, number=len(benches.history()) + 1), key)
    assert isinstance(order, BenchState)
    leased = benches.take(order.id, "box", 60)
    assert leased is not None
    traces = {"head-0.json.gz": b"\x1f\x8btrace", "../evil": b"no"}
    assert benches.deliver(order.id, leased.lease, report.to_json(), traces)
    return benches.get(order.id)


def test_a_run_has_a_page_with_its_numbers_pictures_and_downloads(
    benches: Benches, browser: Browser
) -> None:
    bench = done(benches, made())
    answer = browser.get(run_path(bench))
    page = answer.text
    assert answer.status_code == 200
    assert "GPU benchmark: SLOWER (measured); suggestion FASTER" in page
    assert "all 2 suggestions" in page
    assert page.count("<svg") == 3
    assert page.count("<circle cx=") >= 30  # ten rounds of three processes
    assert "4.4 % of a possible 4.4 %" in page
    assert f'href="{bench.token}/head-0.json.gz"' in page  # of any path before /r/
    assert "https://ui.perfetto.dev/#!/?url=https%3A%2F%2Fhostside.example%2Fr%2F" in page
    assert f"![gpu-bench](https://hostside.example{badge_path(NEWER, 'ada/glue')})" in page
    assert "evil" not in page
    assert "<script" not in page
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_its_files_can_be_fetched_by_their_link_and_by_nothing_else(
    benches: Benches, browser: Browser
) -> None:
    bench = done(benches, made())
    here = run_path(bench)
    trace = browser.get(f"{here}/head-0.json.gz")
    assert trace.content == b"\x1f\x8btrace"
    assert trace.headers["access-control-allow-origin"] == "https://ui.perfetto.dev"
    assert json.loads(browser.get(f"{here}.json").text)["headline"] == "SLOWER"
    assert browser.get(f"{here}.svg").text.startswith("<svg")
    for wrong in (
        f"{here}/..%2Fevil",
        f"{here}/nothing.json.gz",
        "/r/" + "0" * 32,
        "/r/1",
        "/r/%27",
    ):
        assert browser.get(wrong).status_code == 404


def test_a_run_that_has_not_ended_says_where_it_stands_and_looks_again(
    benches: Benches, browser: Browser
) -> None:
    bench = benches.order(ORDER, "k")
    assert isinstance(bench, BenchState)
    answer = browser.get(run_path(bench))
    assert "GPU benchmark: queued" in answer.text
    assert answer.headers["refresh"] == "15"
    assert browser.get(f"{run_path(bench)}.json").status_code == 404
    benches.fail(bench.id, "no machine <b>took</b> it")
    failed = browser.get(run_path(bench))
    assert "no machine &lt;b&gt;took&lt;/b&gt; it" in failed.text
    assert "refresh" not in failed.headers


def test_a_strangers_words_are_text_on_the_page(benches: Benches, browser: Browser) -> None:
    evil = "</style><script>alert(1)</script><img src=x onerror=a>\u202e"
    report = made((evil,), name=evil)
    benchmarks = tuple(replace(each, log=evil, problem=evil) for each in report.run.benchmarks)
    report = replace(report, run=replace(report.run, benchmarks=benchmarks, notes=(evil,)))
    page = browser.get(run_path(done(benches, report))).text
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page


def test_a_badge_shows_the_latest_verdict_to_whoever_has_its_address(
    benches: Benches, browser: Browser
) -> None:
    address = badge_path(SECRET, "ada/glue")
    assert "no run yet" in browser.get(address).text
    done(benches, made())
    badge = browser.get(address)
    assert "gpu-bench: slower" in badge.text
    assert badge.headers["content-type"].startswith("image/svg+xml")
    guessed = re.sub(r"/badge/[0-9a-f]+/", "/badge/" + "0" * 32 + "/", address)
    assert browser.get(guessed).status_code == 404
    assert browser.get(badge_path(SECRET, "ada/glue").replace("glue", "other")).status_code == 404


def test_the_history_lists_runs_and_saves_what_they_left(
    benches: Benches,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = done(benches, made())
    monkeypatch.setenv("HOSTSIDE_DATA_DIR", str(tmp_path))
    assert main(["bench", "history"]) == 0
    listed = capsys.readouterr().out
    assert "ada/glue#1" in listed
    assert "SLOWER (measured); suggestion FASTER" in listed
    assert main(["bench", "history", "--repository", "ada/other"]) == 0
    assert "Nothing was measured yet" in capsys.readouterr().out
    assert main(["bench", "history", "--format", "json", "--pull", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["id"], row["stage"]) == (bench.id, "done")
    target = tmp_path / "kept"
    assert main(["bench", "history", "--save", str(bench.id), "-o", str(target)]) == 0
    assert sorted(path.name for path in target.iterdir()) == [
        "evil", "head-0.json.gz", "report.json",
    ]  # fmt: skip
    assert main(["bench", "history", "--save", "99"]) == 2
    assert "there is no run 99" in capsys.readouterr().err


def test_without_a_database_the_history_says_which_setting_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOSTSIDE_DATA_DIR", str(tmp_path / "nowhere"))
    assert main(["bench", "history"]) == 2
    assert "HOSTSIDE_DATA_DIR" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
