"""What the one comment about benchmarks says at each stage, in Markdown.

Names, problems and reports come from machines and from people's comments: all of it is made
harmless here or, for reports, by `bot.reports.bench`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from bot.bench_work import (
    MOST_QUEUED_SECONDS,
    NO_RUNNER_SECONDS,
    BenchState,
    RunnerState,
    Stage,
    Way,
)
from bot.benches import Benches
from bot.neutral import code, prose
from bot.reports.bench import markdown
from bot.reports.words import ended, plural
from gpu_runner.errors import FormatError
from gpu_runner.models import BenchReport

LONGEST = 60_000  # characters of the whole; GitHub takes 65,536
LONGEST_BEFORE = 20_000  # of the result before, while a new one is measured
MOST_BEFORE = 5  # earlier runs that are listed
_ROOM = 6_000  # kept free for all that stands beside a report
_LONGEST_NAME = 100
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:/_-]+\Z")


def body(benches: Benches, state: BenchState, pages: str = "") -> str:
    """The whole comment; `pages` is where this service's pages are, if people can see them."""
    runs = benches.history(state.order.repo, state.order.number, most=MOST_BEFORE + 1)
    before = [run for run in runs if run.id < state.id]
    parts = [
        standing(benches, state, pages),
        _result_before(benches, state, before, pages),
        _before(before, pages),
    ]
    return "\n\n".join(part for part in parts if part)


def standing(benches: Benches, state: BenchState, pages: str = "") -> str:
    """Where this benchmark stands, or what came out of it."""
    if state.stage is Stage.DONE:
        shown = _report(benches, state, page(state, pages), LONGEST - _ROOM)
    else:
        lines = "\n\n".join(_STAGES[state.stage](benches, state))
        shown = f"### GPU benchmark: {lines}"
    return f"{shown.rstrip()}\n\n<sub>{_what(state)}</sub>"


def brief(benches: Benches, state: BenchState, pages: str = "") -> str:
    """The same without the numbers, which stand in the comment about benchmarks."""
    if state.stage is not Stage.DONE:
        return standing(benches, state, pages)
    address = page(state, pages)
    link = f" and on [its page]({address})" if address else ""
    said = f"The latest benchmark is done; its numbers are in the comment about benchmarks{link}."
    return f"{said}\n\n<sub>{_what(state)}</sub>"


def page(state: BenchState, pages: str) -> str:
    """The address of this run's own page; empty when people cannot reach it."""
    return f"{pages.rstrip('/')}/r/{state.token}" if pages else ""


def _what(state: BenchState) -> str:
    order = state.order
    extra = f", and head with {prose(order.suggestion)}" if order.suggestion else ""
    parts = [f"Base {_short(order.base_sha)} against head {_short(order.head_sha)}{extra}"]
    parts += [f"only {', '.join(map(_name, order.targets))}"] if order.targets else []
    parts += [f"{order.rounds} rounds"] if order.rounds else []
    parts += [f"on {_name(order.gpu)}"] if order.gpu else []
    return f"{'; '.join(parts)}; asked for by {_name(order.author)}."


def _short(sha: str) -> str:
    return code(sha[:12])


def _name(text: str) -> str:
    return code(text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…")


# --- stages


def _queued(benches: Benches, state: BenchState) -> Iterator[str]:
    ahead = benches.ahead(state)
    yield f"queued, position {ahead + 1}"
    usual = benches.usual_seconds(state.order.repo)
    if ahead and usual:
        yield f"It starts in {duration(ahead * usual)}; a run here takes {duration(usual)}."
    elif usual:
        yield f"A run here takes {duration(usual)}."
    if state.attempts:
        yield "The machine that had it went away; it waits for another one."
    if state.order.way is Way.RUNNER and (missing := _missing(benches, state.order.gpu)):
        yield missing


def _missing(benches: Benches, label: str) -> str:
    """What to do when no machine that could take it is there; empty when there is one."""
    there = benches.runners(since=time.time() - NO_RUNNER_SECONDS)
    if any(not label or label in runner.labels for runner in there):
        return ""
    with_label = f" with the label {_name(label)}" if label else ""
    others = f" ({_labels(there)})" if there else ""
    start = f"hostside gpu-runner --label {label}" if label else "hostside gpu-runner"
    wait = duration(MOST_QUEUED_SECONDS).removeprefix("about ")
    return (
        f"No GPU runner{with_label} is connected at present{others}: it waits for {wait}, "
        f"and {code(start)} on a machine with a GPU takes it."
    )


def _labels(runners: tuple[RunnerState, ...]) -> str:
    known = sorted({label for runner in runners for label in runner.labels})[:20]
    return f"connected are {', '.join(map(_name, known))}" if known else "none of them has a label"


def _preparing(_: Benches, state: BenchState) -> Iterator[str]:
    yield f"preparing on {_machine(state)}"
    yield "The commits are fetched and the benchmarks looked for."


def _running(_: Benches, state: BenchState) -> Iterator[str]:
    now = state.progress
    yield f"running on {_machine(state)}"
    said = [f"{now.done} of at most {now.total} processes have run"] if now.total else []
    if now.total and now.done >= now.total:  # some were needed that nobody had counted on
        said = [plural(now.done, "process", "es") + " have run"]
    if now.seconds_left > 0:
        said.append(f"{duration(now.seconds_left)} left")
    if said:
        yield f"{'; '.join(said)}."
    if now.doing:
        yield f"{ended(prose(now.doing[:300]))}"


def _failed(_: Benches, state: BenchState) -> Iterator[str]:
    yield "failed"
    yield ended(_capital(prose(state.problem[:2_000])))


def _cancelled(_: Benches, state: BenchState) -> Iterator[str]:
    yield "cancelled"
    yield ended(_capital(prose(state.problem[:2_000])))


_STAGES: dict[Stage, Callable[[Benches, BenchState], Iterator[str]]] = {
    Stage.QUEUED: _queued,
    Stage.PREPARING: _preparing,
    Stage.RUNNING: _running,
    Stage.FAILED: _failed,
    Stage.CANCELLED: _cancelled,
}


def _machine(state: BenchState) -> str:
    if state.order.way is Way.WORKFLOW and _ADDRESS.match(state.runner):
        return f"[an Actions runner]({state.runner})"
    return _name(state.runner or "a machine")


# --- results


def _report(benches: Benches, state: BenchState, address: str, most: int) -> str:
    try:
        report = BenchReport.from_json(benches.report(state.id))
    except FormatError as problem:
        return f"### GPU benchmark: its report cannot be read\n\n{ended(prose(str(problem)))}"
    return markdown(report, address, most)


def _result_before(
    benches: Benches, state: BenchState, before: list[BenchState], pages: str
) -> str:
    """The latest result, folded, for as long as the present run has none."""
    last = next((run for run in before if run.stage is Stage.DONE), None)
    if state.stage is Stage.DONE or last is None:
        return ""
    text = _report(benches, last, page(last, pages), LONGEST_BEFORE)
    title = f"The result before, of head <code>{last.order.head_sha[:12]}</code>"
    return f"<details><summary>{title}</summary>\n\n{text.strip()}\n\n</details>"


def _before(runs: list[BenchState], pages: str) -> str:
    if not runs:
        return ""
    lines = "\n".join(f"- {_run_before(run, page(run, pages))}" for run in runs)
    return f"<details><summary>Earlier runs ({len(runs)})</summary>\n\n{lines}\n\n</details>"


def _run_before(run: BenchState, address: str) -> str:
    why = f": {prose(run.problem[:200])}" if run.problem else ""
    link = f" ([page]({address}))" if address and run.has_report else ""
    return f"{_short(run.order.head_sha)} {run.stage}{why}{link}"


def duration(seconds: float) -> str:
    """A time that is only known roughly."""
    if seconds < 45:
        return "less than a minute"
    minutes = max(round(seconds / 60), 1)
    return f"about {minutes} min"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
