"""`hostside bench job`: the measuring step of the shipped workflow, on the self-hosted machine.

What to measure stands in environment variables, never in a command line. It always leaves a file:
a report with its traces, or one sentence that says why there is none. Nobody believes either.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from bot.cli import ending
from bot.errors import BotError, UsageError
from gpu_runner.bench import Settings, run_bench
from gpu_runner.errors import RunnerError
from gpu_runner.models import BenchRequest
from gpu_runner.records import Backend
from gpu_runner.sandbox import Setting

HELP = "measure what a workflow's inputs ask for (a step of deploy/workflows/gpu-bench.yml)"
PREFIX = "HOSTSIDE_BENCH_"  # and the input's name
SANDBOXES = ("auto", "bubblewrap", "container")  # strangers' code never runs without one
LONGEST_PROBLEM = 2_000
OK, FAILED = 0, 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--repo", type=Path, default=Path(), metavar="DIR", help="the checkout")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="where the result goes"
    )


def run(arguments: argparse.Namespace) -> int:
    """0: there is a report; 1: the folder holds the reason why there is none."""
    from bot.bench_artifact import PROBLEM

    folder: Path = arguments.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ending.by_signal():
            _measure(arguments.repo, folder, os.environ)
    except (BotError, RunnerError) as problem:
        (folder / PROBLEM).write_text(json.dumps({"problem": str(problem)[:LONGEST_PROBLEM]}))
        print(f"hostside: {problem}", file=sys.stderr)
        return FAILED
    except OSError as problem:
        raise UsageError(f"{folder} cannot be written: {problem.strerror}") from problem
    return OK


def _measure(checkout: Path, folder: Path, environment: Mapping[str, str]) -> None:
    from bot.bench_artifact import REPORT
    from bot.bench_inputs import NAMES, order_of, request_of_order

    inputs = {name: environment.get(PREFIX + name.upper(), "") for name in NAMES}
    order = order_of(inputs, environment.get("GITHUB_REPOSITORY", ""))
    asked = request_of_order(order, inputs["bench"])
    report = run_bench(_here(asked, checkout, environment), _settings(folder, environment))
    # The folder's name is this machine's business.
    run = replace(report.run, request=replace(report.run.request, repository=asked.repository))
    (folder / REPORT).write_text(replace(report, run=run).to_json())
    print(f"hostside: {report.headline}; {report.summary}")


def _here(asked: BenchRequest, checkout: Path, environment: Mapping[str, str]) -> BenchRequest:
    """The request with what this machine's operator decides, by its environment."""
    sandbox = environment.get("HOSTSIDE_SANDBOX", "auto")
    backend = environment.get(PREFIX + "BACKEND", Backend.AUTO)
    if sandbox not in SANDBOXES:
        raise UsageError(f"HOSTSIDE_SANDBOX must be one of {', '.join(SANDBOXES)} here")
    if backend not in tuple(Backend):
        raise UsageError(f"{PREFIX}BACKEND must be one of {', '.join(Backend)}")
    return replace(
        asked,
        repository=str(checkout.resolve()),
        sandbox=cast(Setting, sandbox),
        backend=Backend(backend),
        gpu=environment.get(PREFIX + "DEVICE") or None,
    )


def _settings(folder: Path, environment: Mapping[str, str]) -> Settings:
    # Not our own Python, which has no library that a benchmark would use.
    python = environment.get(PREFIX + "PYTHON") or _python_here()
    image = environment.get("HOSTSIDE_SANDBOX_IMAGE")
    return Settings(Path(python) if python else None, image, folder)


def _python_here() -> str:
    """The Python of this machine; what PATH leads to may be a script that only starts it."""
    asked = ("python3", "-c", "import sys; print(sys.executable)")
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
