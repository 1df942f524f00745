"""`hostside bench list|run|model|history`: what can be measured, measuring it, and what was.

`job`, `gate` and `post` are the steps of the workflows in `deploy/workflows`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path

from bot.cli import bench_history, bench_job, bench_model, bench_steps, ending
from bot.config import RepoConfig, load
from bot.errors import UsageError
from bot.reports import bench as written
from gpu_runner.bench import Progress, Settings, listed, reader, run_bench
from gpu_runner.errors import RunnerError
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.records import Backend, Protocol, Verdict
from gpu_runner.sandbox import Setting, bubblewrap_problem, container_problem
from gpu_runner.tree import Repository

HELP = "compare the speed of two commits, with correctness first"
FORMATS = ("text", "json", "markdown")
SANDBOXES = ("auto", "bubblewrap", "container", "none")
IMAGE = "HOSTSIDE_SANDBOX_IMAGE"
BAD = (Verdict.SLOWER, Verdict.WRONG_RESULT, Verdict.SUSPICIOUS)
LARGEST_PATCH = 1 << 20
LONGEST = 10  # times the asked-for seconds that a process may take on a busy machine


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    commands = parser.add_subparsers(dest="what", required=True, metavar="list|run|model|history")
    listing = commands.add_parser("list", help="the benchmarks of a commit; nothing is run")
    listing.add_argument("--repo", type=Path, default=Path(), metavar="DIR")
    listing.add_argument("--head", default="HEAD", metavar="REV", help="the commit (HEAD)")
    listing.add_argument("--format", choices=("text", "json"), default="text")
    _configure_run(commands.add_parser("run", help="measure base against head in the sandbox"))
    bench_model.configure(commands.add_parser("model", help=bench_model.HELP))
    bench_history.configure(commands.add_parser("history", help=bench_history.HELP))
    bench_job.configure(commands.add_parser("job", help=bench_job.HELP))
    commands.add_parser("gate", help=bench_steps.GATE_HELP)
    commands.add_parser("post", help=bench_steps.POST_HELP)


def _configure_run(parser: argparse.ArgumentParser) -> None:
    default = Protocol()
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="file, function, or FILE::FUNCTION; may be a glob",
    )
    parser.add_argument("--repo", type=Path, default=Path(), metavar="DIR")
    parser.add_argument("--base", required=True, metavar="REV", help="compared with (merge base)")
    parser.add_argument("--head", default="HEAD", metavar="REV", help="the change (HEAD)")
    parser.add_argument("--patch", type=Path, metavar="FILE", help="a suggestion on top of head")
    parser.add_argument("--backend", choices=[each.value for each in Backend], default="auto")
    parser.add_argument("--gpu", metavar="NAME", help="index, UUID or part of the name")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help=f"exactly this many (from {default.rounds})"
    )
    parser.add_argument("--seconds", type=float, default=default.seconds, help="per process, timed")
    parser.add_argument(
        "--relevant", type=float, default=default.relevant_effect * 100, metavar="PERCENT"
    )
    parser.add_argument("--benchmarks-from", choices=("head", "base"), default="head")
    parser.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        default=os.environ.get("HOSTSIDE_SANDBOX"),
        help="none only for a repository whose every author you trust",
    )
    parser.add_argument("--python", type=Path, metavar="FILE", help="interpreter of the benchmarks")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead")


def run(arguments: argparse.Namespace) -> int:
    """0: nothing slower or wrong; 1: slower, wrong or suspicious; 2: nothing could be measured."""
    try:
        match arguments.what:
            case "model":
                return bench_model.run(arguments)
            case "list":
                return _list(arguments)
            case "history":
                return bench_history.run(arguments)
            case "job":
                return bench_job.run(arguments)
            case "gate" | "post":
                return bench_steps.run(arguments.what)
            case _:
                return _run(arguments)
    except RunnerError as problem:
        raise UsageError(str(problem)) from problem


def _list(arguments: argparse.Namespace) -> int:
    repository = Repository.around(arguments.repo)
    head = repository.resolve(arguments.head)
    found = listed(repository, head, own=load(reader(repository, head)).bench_paths)
    if arguments.format == "json":
        rows = [{"kind": e.kind, "path": e.path, "name": e.name, "target": e.target} for e in found]
        print(json.dumps({"version": 1, "benchmarks": rows}, indent=1))
        return 0
    for each in found:
        target = f"  measures {each.target}" if each.target else ""
        print(f"{each.kind:17s} {each.label}{target}")
    if not found:
        print("There is no benchmark in this commit; `hostside bench run` offers a file to add.")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    _check_output(arguments.output)
    request = _request(arguments)
    settings = Settings(arguments.python, os.environ.get(IMAGE))
    with ending.by_signal(), _shown() as listen:
        report = run_bench(request, settings, listen)
    _write(_formatted(report, arguments.format), arguments.output)
    if report.headline in BAD or report.suggestion_headline in BAD:
        return 1
    unbuilt = [f"{each.variant}: {each.problem}" for each in report.run.builds if each.problem]
    problem = report.run.problem or next(iter(unbuilt), None)
    if problem:
        print(f"hostside: {problem}", file=sys.stderr)
    return 2 if problem else 0


def _request(arguments: argparse.Namespace) -> BenchRequest:
    if arguments.sandbox not in (None, *SANDBOXES):  # argparse does not check the environment
        raise UsageError(f"HOSTSIDE_SANDBOX must be one of {', '.join(SANDBOXES)}")
    protocol, patch = _protocol(arguments), _patch(arguments.patch)
    repository = Repository.around(arguments.repo)
    head = repository.resolve(arguments.head)
    base = repository.merge_base(repository.resolve(arguments.base), head)
    config = load(reader(repository, base))  # never the head's: a change does not choose its box
    return BenchRequest(
        str(arguments.repo.resolve()),
        base,
        head,
        tuple(arguments.targets),
        patch,
        Backend(arguments.backend),
        arguments.benchmarks_from,
        arguments.sandbox or _sandbox(config),
        protocol,
        gpu=arguments.gpu,
        paths=config.bench_paths,
    )


def _sandbox(config: RepoConfig) -> Setting:
    """What the repository asks for; its `none` counts only where no sandbox works."""
    if config.bench_sandbox != "none":
        return config.bench_sandbox
    boxed = bubblewrap_problem() is None or container_problem(os.environ.get(IMAGE)) is None
    return "auto" if boxed else "none"


def _protocol(arguments: argparse.Namespace) -> Protocol:
    default = Protocol()
    rounds = default.rounds if arguments.rounds is None else arguments.rounds
    if not 2 <= rounds <= 60:
        raise UsageError(f"--rounds must be from 2 to 60; got {rounds}")
    if not 0.01 <= arguments.seconds <= 60:
        raise UsageError(f"--seconds must be from 0.01 to 60; got {arguments.seconds:g}")
    if not 0 <= arguments.relevant <= 100:
        raise UsageError(f"--relevant must be a percentage; got {arguments.relevant:g}")
    return Protocol(
        rounds=rounds,
        most_rounds=max(rounds, default.most_rounds) if arguments.rounds is None else rounds,
        seconds=arguments.seconds,
        longest_seconds=max(1.0, arguments.seconds * LONGEST),
        warm_up_seconds=min(default.warm_up_seconds, arguments.seconds),
        relevant_effect=arguments.relevant / 100,
    )


def _patch(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_PATCH + 1)
        text = content.decode()
    except OSError as problem:
        raise UsageError(f"the patch {path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise UsageError(f"the patch {path} is not UTF-8 text") from problem
    if len(content) > LARGEST_PATCH or not text.strip():
        raise UsageError(f"the patch {path} is empty or larger than {LARGEST_PATCH >> 20} MiB")
    return text


def _formatted(report: BenchReport, how: str) -> str:
    if how == "json":
        return report.to_json() + "\n"
    return written.markdown(report) if how == "markdown" else written.text(report)


def _check_output(path: Path | None) -> None:
    """Minutes of measuring should not end with a report that cannot be written."""
    if path is None:
        return
    try:
        fits = path.absolute().parent.is_dir() and not path.is_dir()
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror}") from problem
    if not fits:
        raise UsageError(f"{path} cannot be written: it is a folder or in none that exists")


def _write(text: str, path: Path | None) -> None:
    if path is None:
        print(text, end="")
        return
    try:
        path.write_text(text)
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror}") from problem


@contextlib.contextmanager
def _shown() -> Generator[Callable[[Progress], None]]:
    """A bar with the remaining time on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    words = TextColumn("{task.description}", markup=False)
    with Bar(BarColumn(20), TimeRemainingColumn(), words, console=console, transient=True) as bar:
        task = bar.add_task("preparing", total=None)

        def listen(progress: Progress) -> None:
            bar.update(
                task, total=progress.total, completed=progress.done, description=progress.doing
            )

        yield listen
