"""What a benchmark report says in its folds: the machine, the way to repeat it, bare numbers."""

from __future__ import annotations

import json
import shlex

from bot.neutral import fenced, prose
from bot.reports.bench_rows import machine
from gpu_runner.models import BenchReport


def environment(report: BenchReport) -> str:
    """Everything around the code, and the command that measures it again, as Markdown."""
    listed = "\n".join(f"- {prose(line)}" for line in around(report))
    return f"{listed}\n\n{fenced(repeat(report), 'sh')}"


def around(report: BenchReport) -> list[str]:
    """The machine, its state while it measured, the libraries and the variables that were set."""
    software, device = report.run.environment, report.run.device
    lines = [*machine(report)]
    if device:
        facts = {
            "driver": device.driver,
            "memory": f"{device.memory_bytes / (1 << 30):.0f} GiB" if device.memory_bytes else None,
            "locked clocks": _yes(device.locked_clocks),
            "persistence mode": _yes(device.persistence),
            "ECC": _yes(device.ecc),
            "MIG": _yes(device.mig),
        }
        lines += [f"{name}: {value}" for name, value in facts.items() if value]
    lines += _clocks(report)
    lines += ["; ".join(f"{name} {version}" for name, version in software.packages)]
    lines += [f"{name}={value}" for name, value in software.variables]
    return [line for line in lines if line]


def repeat(report: BenchReport) -> str:
    """The command that measures the same on another machine."""
    request = report.run.request
    words = ["hostside", "bench", "run", *map(shlex.quote, request.targets)]
    words += ["--base", request.base, "--head", request.head, "--backend", report.run.backend]
    if request.protocol.rounds == request.protocol.most_rounds:  # exactly that many
        words += ["--rounds", str(request.protocol.rounds)]
    words += ["--patch", "SUGGESTION.diff"] if request.patch is not None else []
    return " ".join(words)


def _yes(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"


def _clocks(report: BenchReport) -> list[str]:
    """The range of clocks and temperatures, and how many rounds were discarded for them."""
    rounds = [turn for each in report.run.benchmarks for turn in each.rounds]
    seen = [each.clocks for turn in rounds for each in turn.processes if each.clocks]
    lines: list[str] = []
    for name, unit, values in (
        ("SM clock", "MHz", [each.sm_mhz for each in seen]),
        ("temperature", "°C", [each.temperature for each in seen]),
    ):
        known = [value for value in values if value is not None]
        if known:
            lines.append(f"{name} {min(known):.0f} to {max(known):.0f} {unit}")
    if spoilt := sum(turn.discarded is not None for turn in rounds):
        lines.append(f"{spoilt} of {len(rounds)} rounds were discarded, by throttling or a failure")
    return lines


def numbers(report: BenchReport) -> str:
    """What was concluded, without the samples; the run's page and `--format json` have all."""
    whole = json.loads(report.to_json())
    short = {
        "basis": report.basis,
        "headline": whole["headline"],
        "comparisons": whole["comparisons"],
        "overlaps": whole["overlaps"],
        "traces": {
            each["name"]: [
                {k: v for k, v in trace.items() if k not in ("timeline", "lanes", "sites")}
                for trace in each["traces"]
            ]
            for each in whole["run"]["benchmarks"]
        },
    }
    return json.dumps(short, indent=1, ensure_ascii=True)
