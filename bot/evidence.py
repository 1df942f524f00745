"""What benchmarks of a head measured about its findings, joined by path and line.

Only measurements on a GPU count. A finding that nobody was sure of is confirmed by a wait at its
line, and refuted only where its line ran, surely with all of it, and the host did not wait there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analyzers.finding import Confidence
from bot.always_runs import always_runs
from bot.bench_words import page
from bot.bench_work import BenchState, Stage
from bot.benches import Benches
from bot.comments import ReviewComment
from bot.diff import ChangedFile
from bot.lines import decode
from bot.neutral import code
from bot.pulls import PullRef
from bot.reports.bench_rows import change, duration
from bot.reports.words import plural
from bot.review import Review
from bot.store import Store
from gpu_runner.errors import FormatError
from gpu_runner.models import BenchReport, Comparison
from gpu_runner.records import Site, Variant

MOST_LOOKED_AT = 20  # benchmarks of a pull request, the latest
MOST_RUNS = 5  # of them, benchmarks of one head
MOST_EFFECTS = 3  # benchmarks that are named in a line
WAITS = "GPU1"  # the rules about waits, by the beginning of their codes


@dataclass(frozen=True)
class Evidence:
    """What is known of one head."""

    effects: Mapping[str, str] = field(default_factory=dict[str, str])  # fingerprint -> Markdown
    sites: Mapping[tuple[str, int], Site] = field(default_factory=dict[tuple[str, int], Site])


def of_head(store: Store, ref: PullRef, pages: str = "") -> Evidence:
    """What the benchmarks of this head measured; the latest word about each suggestion."""
    benches = Benches(store)
    effects: dict[str, str] = {}
    sites: dict[tuple[str, int], Site] = {}
    done = [
        run
        for run in benches.history(ref.full_name, ref.number, most=MOST_LOOKED_AT)
        if run.stage is Stage.DONE and run.order.head_sha == ref.head_sha
    ]
    for run in reversed(done[:MOST_RUNS]):
        report = read(benches, run)
        if report is None:
            continue
        effects |= dict.fromkeys(run.order.fingerprints, _effect(run, report, pages))
        for site in _sites(report):
            sites[site.path, site.line] = _together(sites.get((site.path, site.line)), site)
    return Evidence({name: text for name, text in effects.items() if text}, sites)


def read(benches: Benches, run: BenchState) -> BenchReport | None:
    """The run's report, if it was measured on a GPU."""
    try:
        report = BenchReport.from_json(benches.report(run.id))
    except FormatError:
        return None
    return report if report.basis == "measured" and report.run.overlap_measured else None


def _sites(report: BenchReport) -> Iterator[Site]:
    for benchmark in report.run.benchmarks:
        for trace in benchmark.traces:
            if trace.variant is Variant.HEAD and trace.complete:
                yield from trace.sites


def _together(known: Site | None, more: Site) -> Site:
    if known is None:
        return more
    return replace(
        known,
        runs=known.runs + more.runs,
        waits=known.waits + more.waits,
        wait_us=known.wait_us + more.wait_us,
    )


# --- the effect of a suggestion


def _effect(run: BenchState, report: BenchReport, pages: str) -> str:
    """One line for the comment of each finding whose suggestion was measured."""
    found = [
        each
        for each in report.comparisons
        if (each.variant, each.baseline) == (Variant.SUGGESTION, Variant.HEAD)
    ]
    if not found or report.run.device is None:
        return ""
    said = "; ".join(_of_benchmark(each) for each in found[:MOST_EFFECTS])
    more = f"; and {len(found) - MOST_EFFECTS} more" if len(found) > MOST_EFFECTS else ""
    others = len(run.order.fingerprints) - 1
    together = f", together with {plural(others, 'other suggestion')}" if others else ""
    link = f" ([the run]({page(run, pages)}))" if pages else ""
    where = f"at {code(run.order.head_sha[:12])} on {code(report.run.device.name)}{together}"
    return f"**Measured** {where}: {said}{more}{link}."


def _of_benchmark(found: Comparison) -> str:
    text = change(found).replace("-", "\N{MINUS SIGN}")
    return f"{text} in {code(found.benchmark)}"


# --- confirmed and refuted


def weighed(review: Review, files: Sequence[ChangedFile], evidence: Evidence) -> Review:
    """The review, with what was measured about the findings that nobody was sure of."""
    if not evidence.sites:
        return review
    texts = {file.path: file.text for file in files if file.text is not None}
    confirmed: list[tuple[str, str]] = []
    kept: list[ReviewComment] = []
    gone: list[str] = []
    for comment in review.comments:
        doubted = comment.finding.confidence is Confidence.POSSIBLE
        about_waits = comment.finding.rule.startswith(WAITS)
        sites = _at(comment, evidence.sites) if doubted and about_waits else ()
        if any(site.waits for site in sites):
            confirmed.append((comment.fingerprint, _wait(sites)))
        elif _refuted(comment, sites, texts.get(comment.path, b"")):
            gone.append(comment.fingerprint)
            continue
        kept.append(comment)
    return replace(
        review,
        comments=tuple(kept),
        confirmed=tuple(confirmed),
        refuted=tuple(gone),
    )


def _at(comment: ReviewComment, sites: Mapping[tuple[str, int], Site]) -> tuple[Site, ...]:
    span = comment.finding.span
    lines = range(span.line, max(span.line, span.end_line) + 1)
    return tuple(sites[comment.path, n] for n in lines if (comment.path, n) in sites)


def _wait(sites: Iterable[Site]) -> str:
    waits, length = sum(s.waits for s in sites), sum(s.wait_us for s in sites)
    return (
        f"measured: the host waited here {plural(waits, 'time')}, {duration(length * 1000)} in all"
    )


def _refuted(comment: ReviewComment, sites: Sequence[Site], text: bytes) -> bool:
    span = comment.finding.span
    every = max(span.line, span.end_line) - span.line + 1
    if len(sites) < every or not all(site.runs for site in sites):
        return False
    return always_runs(decode(text)[0], span)
