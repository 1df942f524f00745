"""The founding example on the model: what the loop costs, what the rewrite costs, what helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.founding import (
    PROGRAMS,
    PROMISED,
    Images,
    Setting,
    bound_percent,
    run,
    text,
)
from gpu_runner.recording import Hardware


@pytest.mark.parametrize(
    ("name", "wall_ms", "overlap", "ceiling", "duplex"),
    [
        pytest.param("per-image", 25.49, 0.0, 0.80, 0.0, id="one image at a time"),
        pytest.param("rewrite", 37.84, 0.43, 0.53, 0.0, id="the rewrite is slower"),
        pytest.param("ring", 4.56, 4.42, 4.42, 86.9, id="the ring reaches its ceiling"),
    ],
)
def test_the_founding_programs_have_their_known_numbers(
    name: str, wall_ms: float, overlap: float, ceiling: float, duplex: float
) -> None:
    found = run(name).summary
    assert found.region_us / 1000 == pytest.approx(wall_ms, abs=0.005)
    assert found.overlap_percent == pytest.approx(overlap, abs=0.005)
    assert found.overlap_ceiling_percent == pytest.approx(ceiling, abs=0.005)
    assert found.duplex_percent == pytest.approx(duplex, abs=0.05)


def test_the_host_of_the_loop_does_nothing_but_wait() -> None:
    assert run("per-image").summary.host_sync_us / 1000 == pytest.approx(25.4, abs=0.1)


def test_copying_results_out_of_pinned_memory_has_its_price() -> None:
    ring, copied, loop = (run(name).summary for name in ("ring", "ring-copied-out", "per-image"))
    assert ring.region_us < copied.region_us < loop.region_us


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("images", [1, 2, 3, 8, 40])
def test_no_program_passes_its_ceiling_or_the_bound(name: str, images: int) -> None:
    setting = Setting(images=Images(images))
    found = run(name, setting).summary
    assert found.overlap_percent is not None
    assert found.overlap_ceiling_percent is not None
    assert found.overlap_percent <= found.overlap_ceiling_percent
    assert found.overlap_percent <= bound_percent(setting) + 1e-9


@pytest.mark.parametrize("bus", [8.0, 12.0, 25.0, 55.0])
def test_the_promise_cannot_be_kept_on_any_bus_of_today(bus: float) -> None:
    setting = Setting(replace(Hardware(), pinned_gb_per_s=bus))
    assert bound_percent(setting) < 12
    assert (run("ring", setting).summary.overlap_percent or 0) < PROMISED
    assert "Why 68 % overlap is impossible here" in text(setting)


def test_on_a_bus_as_fast_as_the_memory_the_sentence_turns() -> None:
    setting = Setting(replace(Hardware(), pinned_gb_per_s=1000.0))
    assert bound_percent(setting) == 100
    assert "possible here" in text(setting)
    assert "impossible" not in text(setting)


def test_everything_printed_is_labelled_as_modelled() -> None:
    printed = text()
    assert printed.startswith("Modelled, not measured: 8 images of 12.6 MB")
    assert "measured" not in printed.replace("not measured", "")
    assert "modelled program" in printed
    assert all(title in printed for title, _ in PROGRAMS.values())
    assert max(map(len, printed.splitlines())) <= 100
