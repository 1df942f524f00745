"""`hostside bench model` prints labelled numbers, and its traces are what `trace` can read."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bot.cli import bench_model
from bot.errors import UsageError
from gpu_runner.founding import PROGRAMS
from gpu_runner.trace.metrics import device_metrics
from gpu_runner.trace.read import read_trace


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    bench_model.configure(parser)
    return bench_model.run(parser.parse_args(arguments))


def test_text_says_modelled_and_why_68_percent_cannot_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call() == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Modelled, not measured:")
    assert "Why 68 % overlap is impossible here" in printed


def test_json_carries_its_basis_and_its_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--format", "json", "--pinned", "50", "--images", "4") == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["version"], whole["basis"]) == (1, "modelled")
    assert whole["hardware"]["pinned_gb_per_s"] == 50
    assert whole["images"]["count"] == 4
    assert [each["name"] for each in whole["programs"]] == list(PROGRAMS)
    ring = whole["programs"][2]["metrics"]
    assert ring["overlap_percent"] <= whole["overlap_bound_percent"]


def test_traces_are_written_for_the_trace_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--traces", str(tmp_path / "new" / "folder")) == 0
    capsys.readouterr()
    written = sorted(path.stem for path in (tmp_path / "new" / "folder").iterdir())
    assert written == sorted(PROGRAMS)
    trace = read_trace(tmp_path / "new" / "folder" / "ring.json")
    (device,) = device_metrics(trace)
    assert device.kernels == 8
    assert trace.modelled


def test_a_trace_is_replayed_with_pinned_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--traces", str(tmp_path)) == 0
    capsys.readouterr()
    assert call(str(tmp_path / "per-image.json"), "--pinned", "50") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("What if, modelled and not measured:")
    assert "pinned at 50 GB/s" in printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(("--pinned", "0"), "--pinned must be a rate above 0", id="no bus"),
        pytest.param(("--pageable", "nan"), "--pageable must be a rate", id="not a number"),
        pytest.param(("--device-memory", "-1"), "--device-memory must be", id="negative"),
        pytest.param(("--images", "0"), "--images must be 1 to 1000; got 0", id="no image"),
        pytest.param(("--images", "100000"), "--images must be", id="too many"),
        pytest.param(("missing.json",), "missing.json cannot be opened", id="no such trace"),
        pytest.param(("--traces", "/dev/null/x"), "cannot write traces to", id="no such place"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        call(*arguments)
