"""What a machine is asked to measure, and what of its answer is believed.

The answer comes from a machine that ran a stranger's code. Its samples are taken, its words are
not: every verdict is drawn again from the samples here.
"""

from __future__ import annotations

from dataclasses import replace

from bot.bench_work import BenchState, Order
from bot.errors import BotError
from gpu_runner.errors import FormatError
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.records import Protocol
from gpu_runner.verdict import report

LARGEST_RESULT = 16 << 20  # bytes of JSON
LARGEST_FILE = 64 << 20
MOST_FILES = 40
MOST_FILE_BYTES = 256 << 20  # of all files of one benchmark together
FILE_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\.json\.gz"  # raw traces
LONGEST_NAME = 150


class ResultError(BotError):
    """A machine's answer cannot be taken; the sentence may be shown to whoever asked for it."""


def request_of(bench: BenchState) -> BenchRequest:
    """What the machine is to measure; where the source lies there is for it to fill in."""
    return request_for(bench.order, bench.token)


def request_for(order: Order, token: str) -> BenchRequest:
    """The same for an order that is in no table."""
    protocol = Protocol()
    if order.rounds:
        protocol = replace(protocol, rounds=order.rounds, most_rounds=order.rounds)
    return BenchRequest(
        repository=order.repo,
        base=order.base_sha,
        head=order.head_sha,
        targets=order.targets,
        patch=order.patch or None,
        protocol=protocol,
        identifier=token,
        paths=order.paths,
    )


def accepted(bench: BenchState, text: str | bytes) -> str:
    """The report to keep, as JSON, with verdicts of our own; a ResultError says what is wrong."""
    return checked(request_of(bench), text).to_json()


def checked(asked: BenchRequest, text: str | bytes) -> BenchReport:
    """The answer to this request, with verdicts of our own; a ResultError says what is wrong."""
    if len(text) > LARGEST_RESULT:
        raise ResultError(
            f"the result is larger than {LARGEST_RESULT >> 20} MiB; name fewer benchmarks: "
            "`/gpu-bench FILE::FUNCTION`"
        )
    try:
        run = BenchReport.from_json(text).run
    except FormatError as problem:
        raise ResultError(f"the result is malformed ({problem})") from None
    said = run.request
    # Where and how it ran is for the machine to choose, and shown; what was measured is not.
    chosen = replace(
        asked, backend=said.backend, sandbox=said.sandbox, gpu=said.gpu, limits=said.limits
    )
    if said != chosen:
        raise ResultError(f"the result answers another question ({_difference(said, chosen)})")
    if run.environment.sandbox == "none" and run.benchmarks:
        raise ResultError("the benchmarks ran without a sandbox, whose results are not taken")
    try:
        return report(run)
    except Exception as problem:  # figures that every field allows, and that together mean nothing
        kind = type(problem).__name__
        raise ResultError(f"the result's figures make no sense together ({kind})") from problem


def _difference(said: BenchRequest, asked: BenchRequest) -> str:
    """The first field that differs, by its name alone: the values are a stranger's."""
    names = [name for name in vars(asked) if getattr(said, name) != getattr(asked, name)]
    return f"another {names[0]} than was asked for"
