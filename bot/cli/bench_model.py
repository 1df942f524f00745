"""`hostside bench model [TRACE]`: the founding example on the stream model, or a what-if.

Everything printed here is modelled, and says so.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bot.errors import UsageError
from gpu_runner import founding
from gpu_runner.errors import RunnerError
from gpu_runner.model_trace import kineto
from gpu_runner.recording import Hardware
from gpu_runner.trace.read import read_trace
from gpu_runner.what_if import describe, pinned_instead

HELP = "show the founding example, or what pinning would change in a trace (modelled)"
_LARGEST = 1_000_000.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options: the modelled machine, the batch, and where results go."""
    machine, images = Hardware(), founding.Images()
    parser.add_argument(
        "trace",
        nargs="?",
        type=Path,
        metavar="TRACE",
        help="replay this trace with its pageable copies pinned, instead of the example",
    )
    parser.add_argument("--device", type=int, metavar="N", help="the trace's device")
    rates = parser.add_argument_group("the modelled machine, in GB/s")
    for option, value, text in (
        ("--pinned", machine.pinned_gb_per_s, "bus rate for pinned memory, each way"),
        ("--pageable", machine.pageable_gb_per_s, "bus rate for pageable memory"),
        ("--device-memory", machine.memory_gb_per_s, "rate of the device's own memory"),
    ):
        rates.add_argument(option, type=float, default=value, metavar="RATE", help=text)
    parser.add_argument("--images", type=int, default=images.count, help="images in the batch")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--traces", type=Path, metavar="DIR", help="write each program's trace for hostside trace"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison; exit code 0."""
    for option in ("pinned", "pageable", "device_memory"):
        if not 0 < getattr(arguments, option) <= _LARGEST:  # false for NaN as well
            name = option.replace("_", "-")
            raise UsageError(f"--{name} must be a rate above 0 GB/s and at most {_LARGEST:g}")
    if not 1 <= arguments.images <= 1_000:
        raise UsageError(f"--images must be 1 to 1000; got {arguments.images}")
    if arguments.trace is not None:
        print(_what_if(arguments.trace, arguments.pinned, arguments.device))
        return 0
    hardware = Hardware(
        pinned_gb_per_s=arguments.pinned,
        pageable_gb_per_s=arguments.pageable,
        memory_gb_per_s=arguments.device_memory,
    )
    setting = founding.Setting(hardware, founding.Images(arguments.images))
    if arguments.traces is not None:
        _write_traces(arguments.traces, setting)
    if arguments.format == "json":
        print(json.dumps(founding.as_json(setting), indent=1))
    else:
        print(founding.text(setting), end="")
    return 0


def _what_if(path: Path, rate: float, device: int | None) -> str:
    try:
        return describe(pinned_instead(read_trace(path), rate, device))
    except RunnerError as problem:
        raise UsageError(str(problem)) from problem


def _write_traces(directory: Path, setting: founding.Setting) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in founding.PROGRAMS:
            trace = kineto(founding.run(name, setting).recording)
            (directory / f"{name}.json").write_text(json.dumps(trace) + "\n")
    except OSError as problem:
        raise UsageError(f"cannot write traces to {directory}: {problem.strerror}") from problem
