"""The tables of a benchmark report: one row for each comparison, or one column for each variant."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from bot.neutral import code
from bot.reports.bench_rows import MARKS, change, comparisons, duration, overlaps, share
from gpu_runner.models import BenchmarkRun, BenchReport
from gpu_runner.records import Device, TraceSummary, Variant, Verdict

MOST_ROWS = 100  # of the overview
ROWS = (
    *("latency, p50", "latency, p90", "against base", "against head", "copy/compute overlap"),
    *("exposed copy", "GPU idle", "host waits", "H2D bandwidth", "D2H bandwidth"),
    *("pinned copies", "peak memory"),
)


def overview(report: BenchReport) -> str:
    """The comparisons of all benchmarks; of very many those that found something come first."""
    rows: list[tuple[Verdict, str]] = []
    for benchmark in report.run.benchmarks:
        shares = {each.variant: share(each) for each in overlaps(report, benchmark)}
        for found in comparisons(report, benchmark):
            times = {each.variant: duration(each.p50_ns) for each in found.latencies}
            cells = (
                _cell(code(benchmark.name)),
                f"{found.variant} / {found.baseline}",
                times.get(found.baseline, "–"),
                times.get(found.variant, "–"),
                f"{MARKS.get(found.verdict, '')} {change(found)}".strip(),
                shares.get(found.variant, "–"),
            )
            rows.append((found.verdict, "| " + " | ".join(cells) + " |"))
    head = "| benchmark | variant | before | after | change | overlap |\n|---|---|--:|--:|--:|--:|"
    if len(rows) > MOST_ROWS:
        rows.sort(key=lambda row: row[0] not in MARKS)
    shown = "\n".join([head, *(row for _, row in rows[:MOST_ROWS])])
    left = len(rows) - MOST_ROWS
    return f"{shown}\n\n{left} more rows are left out here." if left > 0 else shown


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def table(report: BenchReport, benchmark: BenchmarkRun) -> str:
    """One column for each variant; rows in which nothing is known are left out."""
    rows = cells(report, benchmark)
    if not rows:
        return ""
    lines = [
        "| | " + " | ".join(each.value for each in benchmark.variants) + " |",
        "|---|" + "--:|" * len(benchmark.variants),
    ]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(each)} |" for name, each in rows)])


def cells(report: BenchReport, benchmark: BenchmarkRun) -> list[tuple[str, tuple[str, ...]]]:
    """Each row's name, and its cell for each of the benchmark's variants."""
    columns = [_column(report, benchmark, each) for each in benchmark.variants]
    return [
        (name, tuple(column.get(name, "–") for column in columns))
        for name in ROWS
        if any(name in column for column in columns)
    ]


def _column(report: BenchReport, benchmark: BenchmarkRun, variant: Variant) -> dict[str, str]:
    cells: dict[str, str] = {}
    for found in comparisons(report, benchmark):
        for each in found.latencies:
            if each.variant is variant:
                cells["latency, p50"] = duration(each.p50_ns)
                cells["latency, p90"] = duration(each.p90_ns)
    for found in comparisons(report, benchmark):
        if found.variant is variant:
            mark = MARKS.get(found.verdict, "")
            cells[f"against {found.baseline}"] = f"{mark} {change(found)}".strip()
    for found in overlaps(report, benchmark):
        if found.variant is variant:
            cells["copy/compute overlap"] = share(found)
    traces = [each for each in benchmark.traces if each.variant is variant]
    cells |= _traced(traces, report.run.device)
    if cells and (peak := _peak(benchmark, variant)):
        cells["peak memory"] = peak
    return cells


def _traced(traces: Sequence[TraceSummary], device: Device | None) -> dict[str, str]:
    """What the device did, in the middle of the traced passes."""
    if not traces:
        return {}

    def middle(value: Callable[[TraceSummary], float | None]) -> float | None:
        known = [found for each in traces if (found := value(each)) is not None]
        return statistics.median(known) if known else None

    region = middle(lambda each: each.region_us) or 0.0

    def time(name: str) -> str:
        taken = middle(lambda each: getattr(each, name)) or 0.0
        part = f" ({100 * taken / region:.0f} %)" if region else ""
        return f"{duration(taken * 1000)}{part}" if taken else "0"

    cells = {
        "exposed copy": time("exposed_copy_us"),
        "GPU idle": time("gpu_idle_us"),
        "host waits": time("host_sync_us"),
    }
    link = device.link if device else None
    limits = (link.h2d_gb_per_s, link.d2h_gb_per_s) if link else (None, None)
    rates = (middle(lambda each: each.h2d_gb_per_s), middle(lambda each: each.d2h_gb_per_s))
    for name, rate, limit in zip(("H2D bandwidth", "D2H bandwidth"), rates, limits, strict=True):
        if rate:
            cells[name] = f"{rate:.1f} GB/s" + (f" of a measured {limit:.1f}" if limit else "")
    pinned = middle(lambda each: each.pinned_share)
    if pinned is not None:
        cells["pinned copies"] = f"{100 * pinned:.0f} %"
    return cells


def _peak(benchmark: BenchmarkRun, variant: Variant) -> str:
    found = [
        each.peak_memory_bytes
        for turn in benchmark.kept_rounds
        for each in turn.processes
        if each.variant is variant and each.peak_memory_bytes
    ]
    if not found:
        return ""
    size = statistics.median(found)
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"
