"""A benchmark from request to report without a GPU: the model's clock, noise and throttling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.founding import Images, per_image, rewrite, ring
from gpu_runner.model import ModelGpu
from gpu_runner.model_run import Conditions, Program, run_on_model
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.recording import Hardware
from gpu_runner.records import Protocol, Variant, Verdict
from gpu_runner.verdict import report

BASE, HEAD, SUGGESTION = Variant.BASE, Variant.HEAD, Variant.SUGGESTION
NOISY = Conditions(spread=0.01, scatter=0.02, drift=0.001, seed=3)


def request(protocol: Protocol | None = None) -> BenchRequest:
    return BenchRequest("owner/name", "a" * 40, "b" * 40, protocol=protocol or Protocol())


def founding_programs() -> dict[Variant, Program]:
    images = Images()
    return {
        BASE: lambda gpu: per_image(gpu, images),
        HEAD: lambda gpu: rewrite(gpu, images),
        SUGGESTION: lambda gpu: ring(gpu, images),
    }


def kernel_of(nanoseconds: int) -> Program:
    def program(gpu: ModelGpu) -> None:
        gpu.launch("k", nanoseconds)
        gpu.synchronize()

    return program


def modelled(
    base: int, head: int, conditions: Conditions = NOISY, protocol: Protocol | None = None
) -> BenchReport:
    programs = {BASE: kernel_of(base), HEAD: kernel_of(head)}
    return report(run_on_model(request(protocol), {"bench_kernel": programs}, conditions))


def test_the_founding_example_goes_from_request_to_report() -> None:
    whole = report(run_on_model(request(), {"bench_batch": founding_programs()}, NOISY))
    found = {(each.variant, each.baseline): each.verdict for each in whole.comparisons}
    assert found == {
        (HEAD, BASE): Verdict.SLOWER,
        (SUGGESTION, BASE): Verdict.FASTER,
        (SUGGESTION, HEAD): Verdict.FASTER,
    }
    assert whole.headline == Verdict.SLOWER
    assert whole.suggestion_headline == Verdict.FASTER
    said = {each.variant: each.because for each in whole.overlaps}
    assert said == {
        BASE: "overlap 0.0 % of a possible 0.8 %",
        HEAD: "overlap 0.4 % of a possible 0.5 %",
        SUGGESTION: "overlap 4.4 % of a possible 4.4 %",
    }


def test_everything_the_model_says_is_labelled() -> None:
    whole = modelled(1_000_000, 1_100_000)
    assert whole.basis == "modelled"
    assert whole.summary.startswith("modelled;")
    assert all(each.because.startswith("modelled: ") for each in whole.comparisons)
    assert whole.run.device is not None
    assert "modelled, not measured" in whole.run.device.name
    assert not whole.run.overlap_measured
    assert '"measured' not in whole.to_json()


@pytest.mark.parametrize(
    ("head", "conditions", "expected"),
    [
        pytest.param(1_100_000, NOISY, Verdict.SLOWER, id="10 % slower in noise"),
        pytest.param(900_000, NOISY, Verdict.FASTER, id="10 % faster in noise"),
        pytest.param(
            1_000_000, Conditions(), Verdict.NO_MEASURABLE_DIFFERENCE, id="the same, undisturbed"
        ),
        pytest.param(
            1_020_000,
            Conditions(spread=0.15, seed=5),
            Verdict.INCONCLUSIVE,
            id="2 % on a machine with 15 % spread",
        ),
        pytest.param(20_000, NOISY, Verdict.SUSPICIOUS, id="forty times faster"),
    ],
)
def test_a_true_change_is_found_as_far_as_the_noise_allows(
    head: int, conditions: Conditions, expected: Verdict
) -> None:
    assert modelled(1_000_000, head, conditions).headline == expected


def test_throttled_processes_do_not_reach_the_result() -> None:
    undisturbed = modelled(1_000_000, 1_000_000, Conditions())
    throttled = modelled(1_000_000, 1_000_000, Conditions(throttled=frozenset({1, 6})))
    assert throttled.headline == undisturbed.headline == Verdict.NO_MEASURABLE_DIFFERENCE
    discarded = [each for each in throttled.run.benchmarks[0].rounds if each.discarded]
    assert len(discarded) == 2
    assert throttled.comparisons[0].latencies == undisturbed.comparisons[0].latencies


def test_the_same_seed_gives_the_same_report_and_it_survives_json() -> None:
    first, second = modelled(1_000_000, 1_030_000), modelled(1_000_000, 1_030_000)
    assert first == second == BenchReport.from_json(first.to_json())
    other = modelled(1_000_000, 1_030_000, replace(NOISY, seed=4))
    assert other.comparisons[0].interval != first.comparisons[0].interval


def test_the_clock_is_virtual() -> None:
    whole = modelled(3_600_000_000_000, 3_600_000_000_000, Conditions())  # an hour per call
    assert whole.run.seconds > 24 * 3_600


def test_a_faster_bus_helps_the_ring_and_not_the_kernel() -> None:
    slow = Conditions(Hardware(pinned_gb_per_s=12.0))
    fast = Conditions(Hardware(pinned_gb_per_s=50.0))
    walls = [
        report(run_on_model(request(), {"bench": founding_programs()}, each))
        .run.benchmarks[0]
        .traces[-1]
        .region_us
        for each in (slow, fast)
    ]
    assert walls[1] < walls[0] / 3
