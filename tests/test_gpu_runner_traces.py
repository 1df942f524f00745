"""Raw traces are kept where a folder is named, within limits, under names that are only names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bot.bench_files import check_name
from bot.bench_result import MOST_FILES
from gpu_runner import founding
from gpu_runner.raw_traces import LARGEST, RawTraces
from gpu_runner.records import Variant
from gpu_runner.trace.read import read_trace

NAME = "gpu_bench/copies.py::model_ring[n=1]"


def test_a_modelled_run_is_kept_as_a_trace_that_can_be_opened(tmp_path: Path) -> None:
    RawTraces(tmp_path / "new").keep_modelled(NAME, Variant.HEAD, founding.run("ring").recording)
    (path,) = (tmp_path / "new").iterdir()
    assert path.name == "gpu_bench-copies-model_ring-n-1.head.1.json.gz"
    assert read_trace(path).modelled
    assert json.loads(gzip.decompress(path.read_bytes()))["traceName"] == "modelled, not measured"


@pytest.mark.parametrize(
    "benchmark",
    [NAME, "../../etc/passwd", "é" * 300, "x" * 300, "a.json.gz\n", "-", "_"],
    ids=["usual", "upwards", "no ascii", "long", "a line end", "a dash", "an underscore"],
)
def test_whatever_a_benchmark_is_called_the_service_takes_its_file(
    tmp_path: Path, benchmark: str
) -> None:
    RawTraces(tmp_path).keep(benchmark, Variant.SUGGESTION, 1, b"x")
    (path,) = tmp_path.iterdir()
    assert path.parent == tmp_path
    check_name(path.name)


def test_benchmarks_whose_names_look_alike_do_not_overwrite_each_other(tmp_path: Path) -> None:
    for content in (b"1", b"2", b"3"):
        RawTraces(tmp_path).keep("a::b", Variant.BASE, 0, content)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {
        "a-b.base.1.json.gz": b"1",
        "a-b-2.base.1.json.gz": b"2",
        "a-b-3.base.1.json.gz": b"3",
    }


def test_too_many_and_too_large_ones_are_left_out(tmp_path: Path) -> None:
    kept = RawTraces(tmp_path)
    kept.keep("large", Variant.BASE, 0, bytes(LARGEST + 1))
    for number in range(MOST_FILES + 3):
        kept.keep("small", Variant.BASE, number, b"x")
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == MOST_FILES
    assert not any(name.startswith("large") for name in names)


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    RawTraces().keep(NAME, Variant.HEAD, 0, b"x")
    RawTraces().keep_modelled(NAME, Variant.HEAD, founding.run("ring").recording)
    assert list(tmp_path.iterdir()) == []
