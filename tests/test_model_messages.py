"""Requests, runs and reports travel as JSON, and hostile JSON is refused in a sentence."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_runner.errors import FormatError
from gpu_runner.models import (
    BenchmarkRun,
    BenchReport,
    BenchRequest,
    BenchRun,
    Comparison,
    Interval,
    Latency,
    Overlap,
)
from gpu_runner.records import (
    Backend,
    Clocks,
    Correctness,
    Device,
    Environment,
    Link,
    Process,
    Round,
    TraceSummary,
    Variant,
    Verdict,
)

SCHEMA = Path(__file__).parent.parent / "docs" / "schema" / "bench.schema.json"


def request(**changes: Any) -> BenchRequest:
    return replace(BenchRequest("owner/name", "a" * 40, "b" * 40), **changes)


def run(**changes: Any) -> BenchRun:
    rounds = tuple(
        Round(
            number,
            (
                Process(Variant.BASE, (1_000_000.0, 1_010_000.5), 4, 9_000_000, Clocks(1410, 1410)),
                Process(Variant.HEAD, (900_000.0, 905_000.0), memory_source="torch"),
            ),
        )
        for number in range(2)
    )
    trace = TraceSummary(
        Variant.HEAD,
        0,
        4558.0,
        202.0,
        4024.0,
        4024.0,
        4558.0,
        202.0,
        4356.0,
        0,
        1,
        2,
        3,
        4.43,
        4.43,
    )
    benchmark = BenchmarkRun(
        "gpu_bench/preproc.py::bench_batch[n=8]",
        "gpu_bench",
        parameters=(("n", "8"),),
        correctness=(
            Correctness(Variant.BASE, True, (1, 2, 3)),
            Correctness(Variant.HEAD, True, (1, 2, 3), largest_absolute=1e-7),
        ),
        rounds=rounds,
        traces=(trace,),
    )
    device = Device("cuda", "NVIDIA H200", "GPU-0", "570.1", 139 << 30, link=Link(52.1, 50.2, 88.0))
    whole = BenchRun(
        request(),
        Backend.CUDA,
        "2026-11-30T12:00:00Z",
        61.5,
        Environment("3.11.7", "Linux 6.18", (("torch", "2.9"),), sandbox="bubblewrap"),
        device,
        benchmarks=(benchmark,),
    )
    return replace(whole, **changes)


def report() -> BenchReport:
    interval = Interval(-0.1, -0.11, -0.09, 10, 0.01, 0.012, 0.0001)
    comparison = Comparison(
        run().benchmarks[0].name,
        Variant.HEAD,
        Variant.BASE,
        Verdict.FASTER,
        "10 % faster",
        interval,
        0.0001,
        (Latency(Variant.BASE, 1e6, 1.1e6, 4), Latency(Variant.HEAD, 9e5, 1e6, 4)),
    )
    overlap = Overlap(run().benchmarks[0].name, Variant.HEAD, "4.4 % of 4.4 %", None, 4.4, 4.4)
    return BenchReport(run(), (comparison,), (overlap,), Verdict.FASTER, summary="1 is faster")


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(request(patch="--- a\n+++ b\n"), id="a request with a patch"),
        pytest.param(run(), id="a run with samples and a trace"),
        pytest.param(run(device=None), id="a run without a device"),
        pytest.param(report(), id="a report"),
    ],
)
def test_a_message_survives_the_way_there_and_back(
    message: BenchRequest | BenchRun | BenchReport,
) -> None:
    assert type(message).from_json(message.to_json()) == message
    jsonschema.validate(json.loads(message.to_json()), type(message).schema())


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        request().head = "c" * 40  # type: ignore[misc]


def _set(path: str, value: Any) -> str:
    """The report's JSON with one place changed; `path` is dotted, numbers are indices."""
    whole = json.loads(report().to_json())
    place = whole
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for part in parents:
        place = place[part]
    place[last] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "top level", id="empty text"),
        pytest.param("[]", "top level", id="a list"),
        pytest.param("{", "Invalid JSON", id="cut short"),
        pytest.param("[" * 100_000, "Invalid JSON", id="nested without end"),
        pytest.param(b"\xff\xfe{}", "Invalid JSON", id="not UTF-8"),
        pytest.param(_set("version", 2), "version", id="a later version"),
        pytest.param(_set("version", True), "version", id="true for one"),
        pytest.param(_set("extra", 1), "extra", id="an unknown key"),
        pytest.param(
            _set("run.request.head", "HEAD; rm -rf"), "head", id="a revision that is no SHA"
        ),
        pytest.param(
            _set("run.request.repository", "\x1b[2Jx"), "control characters", id="a terminal escape"
        ),
        pytest.param(
            _set("summary", "a\u202eb"), "control characters", id="reversed reading order"
        ),
        pytest.param(_set("summary", "a\nb"), "summary", id="a second line in a sentence"),
        pytest.param(_set("summary", "x" * 2_001), "summary", id="an endless sentence"),
        pytest.param(_set("run.seconds", "1"), "seconds", id="a number in quotes"),
        pytest.param(_set("run.seconds", -1), "seconds", id="time running backwards"),
        pytest.param(_set("run.seconds", float("nan")), "seconds", id="not a number"),
        pytest.param(_set("run.seconds", float("inf")), "seconds", id="infinite"),
        pytest.param(_set("run.seconds", 10**400), "seconds", id="a number of 400 digits"),
        pytest.param(_set("headline", "BEST EVER"), "headline", id="a verdict of its own"),
        pytest.param(_set("run.backend", "auto"), "backend", id="auto as a result"),
        pytest.param(
            _set("run.device.kind", "cpu"), "device record", id="a device of another kind"
        ),
        pytest.param(
            _set("run.benchmarks.0.rounds.0.processes.0.samples_ns", [0.0] * 10_001),
            "samples_ns",
            id="too many samples",
        ),
    ],
)
def test_hostile_json_is_refused_in_one_sentence(text: str | bytes, complaint: str) -> None:
    with pytest.raises(FormatError) as refusal:
        BenchReport.from_json(text)
    sentence = str(refusal.value)
    assert complaint in sentence
    assert sentence.isprintable()
    assert len(sentence) < 500


def test_json_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(FormatError, match="64 MiB"):
        BenchReport.from_json(" " * (64 * 1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("whole", "word"),
    [
        pytest.param(run(), "measured", id="on a device"),
        pytest.param(run(device=None), "unattested", id="no device record"),
        pytest.param(
            run(backend=Backend.MODEL, device=Device("model", "A100 model")),
            "modelled",
            id="a model",
        ),
    ],
)
def test_only_a_run_with_a_device_record_is_called_measured(whole: BenchRun, word: str) -> None:
    assert whole.basis == word


def test_overlap_is_spoken_of_only_where_a_gpu_ran() -> None:
    on_cpu = run(backend=Backend.CPU, device=Device("cpu", "some CPU", cores=2))
    assert on_cpu.basis == "measured"
    assert not on_cpu.overlap_measured
    assert run().overlap_measured


def test_a_variant_nobody_checked_is_not_correct() -> None:
    benchmark = run().benchmarks[0]
    assert benchmark.correct
    assert not replace(benchmark, correctness=benchmark.correctness[:1]).correct


def test_the_suggestion_is_a_third_variant_only_with_a_patch() -> None:
    assert request().variants == (Variant.BASE, Variant.HEAD)
    assert request(patch="diff").variants == (Variant.BASE, Variant.HEAD, Variant.SUGGESTION)


def test_the_published_schema_is_the_one_in_force() -> None:
    published = json.loads(SCHEMA.read_text())
    assert published == BenchReport.schema(), (
        "docs/schema/bench.schema.json is stale; run `python -m gpu_runner.models`"
    )
    jsonschema.Draft202012Validator.check_schema(published)
