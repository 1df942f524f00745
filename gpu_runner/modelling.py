"""The model backend: `model_*` programs of each commit on the stream model, labelled as modelled.

The programs run in the sandbox like any code of a pull request; only a recording comes out.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gpu_runner.building import Trees, extract
from gpu_runner.conversation import CaseFacts
from gpu_runner.errors import FormatError, RunnerError
from gpu_runner.model_trace import summary
from gpu_runner.models import BenchmarkRun, BenchRequest
from gpu_runner.plain import one_line
from gpu_runner.raw_traces import RawTraces
from gpu_runner.recording import Recording
from gpu_runner.records import Process, Variant
from gpu_runner.rounds import take_rounds
from gpu_runner.select import Benchmark
from gpu_runner.tree import Repository
from gpu_runner.workshop import Workshop

NOTE = "Every number is modelled, not measured: virtual time of a deterministic stream model."


def modelled(
    request: BenchRequest,
    workshop: Workshop,
    trees: Trees,
    repository: Repository,
    one: Benchmark,
    traces: RawTraces,
) -> tuple[BenchmarkRun, ...]:
    """All cases of one `model_*` function, each variant's own version of it."""
    blank = BenchmarkRun(one.label[:300], "model", variants=trees.variants)
    try:
        found = {
            each: _recordings(workshop, trees, repository, each, one) for each in trees.variants
        }
    except RunnerError as problem:
        return (replace(blank, problem=one_line(str(problem), 2000)),)
    runs: list[BenchmarkRun] = []
    for name in found[Variant.HEAD]:
        recordings = {each: found[each][name] for each in trees.variants if name in found[each]}
        if Variant.BASE in recordings:
            for variant, recording in recordings.items():
                traces.keep_modelled(name, variant, recording)
            runs.append(_run(request, replace(blank, name=name[:300]), recordings))
        else:
            runs.append(replace(blank, name=name[:300], problem="the base has no such program"))
    return tuple(runs)


def _recordings(
    workshop: Workshop, trees: Trees, repository: Repository, variant: Variant, one: Benchmark
) -> dict[str, Recording]:
    """Name of each case and what happened on the model, for one variant."""
    sha = next(each.commit for each in trees.builds if each.variant is variant)
    found: dict[str, Recording] = {}
    with tempfile.TemporaryDirectory(prefix="hostside-benches-") as area:
        extract(repository, sha, [one], Path(area))
        if not (Path(area) / one.path).exists():
            return {}
        with workshop.process(trees.sources[variant], Path(area)) as talk:
            for index, facts in enumerate(talk.cases(one, modelled=True)):
                if facts.name == one.name:
                    found[_name(one, facts)] = _read(talk.model(one, index))
    return found


def _name(one: Benchmark, facts: CaseFacts) -> str:
    values = ", ".join(f"{key}={value}" for key, value in facts.parameters)
    return f"{one.label}[{values}]" if values else one.label


def _read(data: bytes) -> Recording:
    try:
        return TypeAdapter(Recording).validate_json(data)
    except ValidationError:
        raise FormatError("the program's recording makes no sense; it was not made here") from None


def _run(
    request: BenchRequest, blank: BenchmarkRun, recordings: dict[Variant, Recording]
) -> BenchmarkRun:
    variants = tuple(recordings)

    def process(variant: Variant, _: int) -> Process:
        return Process(variant, (float(recordings[variant].wall_ns),))

    timing = take_rounds(request.protocol, variants, process)
    traces = tuple(summary(recordings[variant], variant) for variant in variants)
    return replace(
        blank, variants=variants, rounds=timing.rounds, traces=traces, stopped=timing.stopped
    )
