"""Options that `review`, `check` and `demo` share, and what they do to the configuration."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from analyzers.finding import Confidence, Objective, Severity
from bot.baseline import Baseline
from bot.config import NEVER, Reader, RepoConfig, codes, known_gpu
from bot.errors import UsageError
from bot.reports import FORMATS, render
from bot.review import Review

OK, FINDINGS, USAGE = 0, 1, 2
_SEVERITIES = [severity.value for severity in Severity]


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to print (text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of printing")
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")
    parser.add_argument(
        "--explain", action="store_true", help="with text: the pages of the reported rules too"
    )
    parser.add_argument(
        "--baseline", metavar="FILE", help="leave out the findings that this file lists"
    )
    parser.add_argument(
        "--fail-on",
        choices=[*_SEVERITIES, NEVER],
        help="exit 1 from this severity on (warning)",
    )
    parser.add_argument(
        "--confidence",
        choices=[confidence.value for confidence in Confidence],
        help="the least to show in full (likely)",
    )
    settings(parser)


def settings(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say what is looked for at all."""
    objectives = [objective.value for objective in Objective]
    parser.add_argument(
        "--objective", action="append", choices=objectives, help="report only these; repeatable"
    )
    parser.add_argument("--gpu", metavar="NAME", help="the target GPU, such as A100")
    parser.add_argument("--select", action="append", metavar="RULES", help="codes, names, prefixes")
    parser.add_argument("--ignore", action="append", metavar="RULES", help="codes, names, prefixes")
    parser.add_argument("--severity", choices=_SEVERITIES, help="the least to report (info)")
    parser.add_argument("--no-config", action="store_true", help="read no configuration file")


def merge(config: RepoConfig, arguments: argparse.Namespace) -> RepoConfig:
    """The configuration with what the command line says instead, in every folder."""
    given: dict[str, object] = {}
    if "fail_on" in arguments and arguments.fail_on:
        given["fail_on"] = arguments.fail_on
    if arguments.objective:
        given["objectives"] = frozenset(Objective(text) for text in arguments.objective)
    if arguments.gpu:
        given["gpu"] = known_gpu(arguments.gpu, "--gpu")
    if arguments.select:
        given["select"] = codes(arguments.select, "--select")
    if arguments.severity:
        given["severity"] = Severity(arguments.severity)
    if "confidence" in arguments and arguments.confidence:
        given["confidence"] = Confidence(arguments.confidence)
    if arguments.ignore:
        config = config.ignoring(codes(arguments.ignore, "--ignore"))
    return config.with_everywhere(lambda each: replace(each, **given))  # type: ignore[arg-type]


def baseline(arguments: argparse.Namespace, config: RepoConfig, read: Reader) -> Baseline:
    """What is left out: by the file that the command line names, else by the configured one."""
    from bot import baseline as baselines

    if not arguments.baseline:
        return baselines.load(config, read)
    try:
        text = Path(arguments.baseline).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", "") or "not UTF-8 text"
        raise UsageError(f"{arguments.baseline} cannot be read as a baseline ({why})") from problem
    return baselines.parse(arguments.baseline, text)


def finish(review: Review, arguments: argparse.Namespace) -> int:
    """Print or write the review; the command's exit code."""
    report(review, arguments)
    return code(review, arguments)


def report(review: Review, arguments: argparse.Namespace) -> None:
    """Print or write the review."""
    if arguments.output:
        write(arguments.output, render(review, arguments.format))
    elif arguments.format == "text":
        from bot.reports.text import show

        show(review)
        if arguments.explain:
            emit(_pages(review))
    else:
        emit(render(review, arguments.format))


def _pages(review: Review) -> str:
    from analyzers.pages import rule_page
    from analyzers.rule import all_rules

    reported = {comment.finding.rule for comment in review.comments}
    return "".join(f"\n{rule_page(rule)}" for rule in all_rules() if rule.code in reported)


def code(review: Review, arguments: argparse.Namespace) -> int:
    """The exit code that the findings call for."""
    if arguments.exit_zero:
        return OK
    if review.failing:
        return FINDINGS
    return OK if review.fail_on == NEVER else _unknown(review)


def _unknown(review: Review) -> int:
    """Exit code where nothing fails: what nobody could judge is no success."""
    count = len(review.unjudged)
    if not count:
        return OK
    files, them = ("1 file was", "it") if count == 1 else (f"{count:,} files were", "them")
    print(
        f"hostside: {files} not judged, so nothing is known of what is in there; mend or exclude "
        f"{them}, or pass --fail-on never",
        file=sys.stderr,
    )
    return USAGE


def emit(text: str) -> None:
    """Print text that may hold names no encoding knows."""
    emit_bytes(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def emit_bytes(data: bytes) -> None:
    """Print bytes as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write(file: str, text: str) -> None:
    """Write a report; a file that cannot be written is the user's to mend."""
    try:
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as problem:
        raise UsageError(f"{file} cannot be written ({problem.strerror})") from problem
