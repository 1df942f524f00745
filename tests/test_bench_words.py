"""The one comment about benchmarks: right at each stage, harmless, and never too long."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from test_bench_report import made

from bot.bench_words import LONGEST, body, duration, page
from bot.bench_work import BenchState, Leased, Order, Progress, RunnerState, Stage, Way
from bot.benches import Benches
from bot.store import Store
from gpu_runner.models import BenchReport

HOSTILE = "@everyone <script>x</script> ``` | #1 \u202egnp [x](https://evil.example) -->"
ORDER = Order(
    repo="ada/glue", number=7, installation=3, base_sha="b" * 40, head_sha="a" * 40, author="ada",
    comment=11, suggestion="all 2 one-click suggestions", patch="+x\n",
)  # fmt: skip


@pytest.fixture
def benches(tmp_path: Path) -> Generator[Benches]:
    store = Store(f"sqlite:///{tmp_path / 'hostside.db'}")
    yield Benches(store)
    store.close()


def ordered(benches: Benches, order: Order = ORDER) -> BenchState:
    state = benches.order(order, f"k{len(benches.history())}")
    assert isinstance(state, BenchState)
    return state


def claimed(benches: Benches, name: str = "box") -> Leased:
    leased = benches.claim(name)
    assert leased is not None
    return leased


def measured(benches: Benches, report: BenchReport, order: Order = ORDER) -> BenchState:
    ordered(benches, order)
    leased = claimed(benches)
    assert benches.deliver(leased.bench.id, leased.lease, report.to_json())
    return benches.get(leased.bench.id)


def shown(text: str) -> str:
    """The page that GitHub would make of it."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_every_word_from_a_machine_or_a_comment_is_harmless(benches: Benches) -> None:
    odd = replace(ORDER, author=HOSTILE, targets=(HOSTILE,), gpu="", suggestion=HOSTILE)
    ordered(benches, odd)
    leased = claimed(benches, HOSTILE)
    said = [body(benches, leased.bench)]
    benches.beat(leased.bench.id, leased.lease, Progress(1, 2, HOSTILE, 5.0))
    said.append(body(benches, benches.get(leased.bench.id)))
    benches.fail(leased.bench.id, f"{HOSTILE} it broke")
    said.append(body(benches, benches.get(leased.bench.id)))
    benches.seen(RunnerState("x", (HOSTILE.replace(",", ""),), "y", 9e9))
    said.append(body(benches, ordered(benches, replace(odd, gpu="a100"))))
    for text in said:
        html = shown(text)
        assert "<script" not in html
        assert 'href="https://evil' not in html
        assert "\u202e" not in text
        for plain in re.split(r"(`+)(?:(?!\1).)+\1", text):
            assert "@everyone" not in plain


def test_a_result_stands_for_itself_and_runs_before_it_are_one_line_each(benches: Benches) -> None:
    first = ordered(benches)
    benches.cancel(first.id, "it was cancelled by ada")
    state = measured(benches, made())
    text = body(benches, state, "https://hostside.example/")
    assert text.startswith("### GPU benchmark: ")
    assert page(state, "https://hostside.example/") in text
    assert "with all 2 one-click suggestions; asked for by `ada`." in text
    assert "Earlier runs (1)" in text
    assert "- `aaaaaaaaaaaa` cancelled: it was cancelled by ada" in text


def test_the_result_before_stays_to_be_read_while_a_new_one_is_measured(benches: Benches) -> None:
    measured(benches, made())
    again = ordered(benches, replace(ORDER, head_sha="c" * 40))
    text = body(benches, again)
    assert text.startswith("### GPU benchmark: queued, position 1")
    assert (
        "<details><summary>The result before, of head <code>aaaaaaaaaaaa</code></summary>" in text
    )
    assert "gpu_bench/a.py::ring" in text


@pytest.mark.parametrize("count", [1, 40, 400])
def test_it_is_never_too_long_and_nothing_is_cut_in_the_middle(
    benches: Benches, count: int
) -> None:
    names = tuple(f"gpu_bench/{'x' * 60}_{n}.py::ring" for n in range(count))
    state = measured(benches, made(names))
    for text in (body(benches, state), body(benches, ordered(benches))):
        assert len(text) < LONGEST
        assert text.count("<details>") == text.count("</details>")
        fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
        assert len(fences) % 2 == 0


def test_a_report_of_another_version_is_a_sentence(benches: Benches) -> None:
    ordered(benches)
    leased = claimed(benches)
    assert benches.deliver(leased.bench.id, leased.lease, '{"version": 9}')
    text = body(benches, benches.get(leased.bench.id))
    assert text.startswith("### GPU benchmark: its report cannot be read\n\nBenchReport is not")


def test_a_workflow_run_is_linked_and_asks_for_no_runner(benches: Benches) -> None:
    state = ordered(benches, replace(ORDER, way=Way.WORKFLOW, workflow="gpu-bench.yml"))
    assert "No GPU runner" not in body(benches, state)
    address = "https://github.example/ada/glue/actions/runs/5"
    assert benches.take(state.id, address, 60, external=5) is not None
    assert f"preparing on [an Actions runner]({address})" in body(benches, benches.get(state.id))


def test_what_went_back_into_the_queue_says_why(benches: Benches) -> None:
    ordered(benches)
    leased = benches.claim("box", seconds=-1)
    assert leased is not None
    benches.upkeep()
    state = benches.get(leased.bench.id)
    assert state.stage is Stage.QUEUED
    assert "The machine that had it went away; it waits for another one." in body(benches, state)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "less than a minute"), (44, "less than a minute"), (46, "about 1 min"),
     (89, "about 1 min"), (91, "about 2 min"), (3600, "about 60 min")],
)  # fmt: skip
def test_times_are_said_as_roughly_as_they_are_known(seconds: float, words: str) -> None:
    assert duration(seconds) == words
