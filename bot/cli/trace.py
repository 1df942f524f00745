"""`hostside trace FILE [FILE2]`: what the GPU did, and how much of the copying was hidden."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bot.errors import UsageError
from gpu_runner.errors import RunnerError
from gpu_runner.trace.events import Trace
from gpu_runner.trace.metrics import DeviceMetrics, device_metrics
from gpu_runner.trace.read import read_trace
from gpu_runner.trace.report import Json, device_json, trace_json

HELP = "measure copy/compute overlap, idle time and waits in a GPU trace"
FORMATS = ("text", "json", "markdown", "html")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="Kineto .json/.json.gz or Nsight Systems .sqlite"
    )
    parser.add_argument(
        "head",
        type=Path,
        nargs="?",
        metavar="FILE2",
        help="compare: FILE is the base, this the head",
    )
    parser.add_argument("--device", type=int, metavar="N", help="only this device")
    parser.add_argument(
        "--region",
        metavar="NAME",
        help="only inside the ranges of this name (`*` matches anything)",
    )
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument(
        "--mermaid", action="store_true", help="add a mermaid chart to text or markdown"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead")


def run(arguments: argparse.Namespace) -> int:
    """Print the report; 0 also for a partial one, which says so itself."""
    paths = [path for path in (arguments.file, arguments.head) if path is not None]
    output: Path | None = arguments.output
    if output is not None and any(_same(output, path) for path in paths):
        raise UsageError(f"{output} is the trace itself; write the report somewhere else")
    try:
        measured = [_measured(path, arguments) for path in paths]
    except RunnerError as problem:
        raise UsageError(str(problem)) from problem
    _write(_formatted(measured, arguments), output)
    return 0


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # not there, or not ours to look at: the reading and writing will say
        return False


def _measured(path: Path, arguments: argparse.Namespace) -> tuple[Trace, Sequence[DeviceMetrics]]:
    trace = read_trace(path, arguments.region)
    return trace, device_metrics(trace, arguments.device, arguments.region)


def _formatted(files: list[tuple[Trace, Sequence[DeviceMetrics]]], how: argparse.Namespace) -> str:
    numbers = [trace_json(trace, devices, how.region) for trace, devices in files]
    if how.format == "json":
        return json.dumps(_json(numbers), ensure_ascii=False, indent=1) + "\n"
    # Only the formats for people need the pictures: a script's call starts faster without.
    from bot.reports.trace import Measured, markdown_report, text_report
    from bot.reports.trace_rows import device_title
    from gpu_runner.timeline import track_of

    measured = [
        Measured(told, tuple(track_of(each, device_title(device_json(each))) for each in devices))
        for told, (_, devices) in zip(numbers, files, strict=True)
    ]
    if how.format == "markdown":
        return markdown_report(measured, how.mermaid)
    if how.format == "html":
        from bot.reports.trace_html import html_report

        return html_report(measured)
    return text_report(measured, how.mermaid)


def _json(files: list[Json]) -> Json:
    if len(files) == 1:
        return files[0]
    from bot.reports.trace_rows import differences

    base, head = files
    return {
        "version": base["version"],
        "base": base,
        "head": head,
        "differences": differences(base, head),
    }


def _write(report: str, output: Path | None) -> None:
    if output is None:
        # A terminal without Unicode gets question marks instead of a traceback.
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(report.encode(encoding, "replace").decode(encoding), end="")
        return
    try:
        output.write_text(report, encoding="utf-8")
    except OSError as problem:
        reason = problem.strerror or problem
        raise UsageError(f"{output} cannot be written: {reason}") from problem
