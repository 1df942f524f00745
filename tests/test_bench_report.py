"""A benchmark report on a pull request: one table, one scale, harmless, and never too long."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from bench_project import Project, needs_bubblewrap
from markdown_it import MarkdownIt

from bot.reports.bench import markdown
from gpu_runner.founding import run as founding
from gpu_runner.models import BenchmarkRun, BenchReport, BenchRequest, BenchRun
from gpu_runner.records import (
    Backend,
    Correctness,
    Device,
    Environment,
    LaneSpans,
    Link,
    Process,
    Round,
    Variant,
)
from gpu_runner.timeline import text_timeline
from gpu_runner.tracks import track_from
from gpu_runner.verdict import report as drawn

SHA = "0123456789abcdef0123456789abcdef01234567"
TIMES = {Variant.BASE: 25e6, Variant.HEAD: 38e6, Variant.SUGGESTION: 4.6e6}
PROGRAMS = {
    Variant.BASE: "per-image",
    Variant.HEAD: "rewrite",
    Variant.SUGGESTION: "ring",
}


def made(names: tuple[str, ...] = ("gpu_bench/a.py::ring",), **device: object) -> BenchReport:
    """A report whose traces are the founding example's and whose samples are made up."""
    variants = tuple(TIMES)
    rounds = tuple(
        Round(
            number,
            tuple(
                Process(v, (TIMES[v] * (1 + number / 1000),), peak_memory_bytes=3 << 29)
                for v in variants
            ),
        )
        for number in range(10)
    )
    traces = tuple(replace(founding(name).summary, variant=v) for v, name in PROGRAMS.items())
    one = BenchmarkRun(
        "x",
        "gpu_bench",
        variants=variants,
        correctness=tuple(Correctness(v, passed=True, seeds=(1, 2, 3)) for v in variants),
        rounds=rounds,
        traces=traces,
    )
    board = Device("cuda", "Test Board", driver="999.1", link=Link(25.5, 26.0))
    run = BenchRun(
        BenchRequest("here", SHA, SHA[::-1], patch="+x\n"),
        Backend.CUDA,
        "2026-01-01T00:00:00",
        12.0,
        Environment("3.11", "Linux", packages=(("torch", "2.13"),), sandbox="bubblewrap"),
        replace(board, **device),  # pyright: ignore[reportArgumentType]
        benchmarks=tuple(replace(one, name=name) for name in names),
    )
    return drawn(run)


def row(said: str, name: str) -> list[str]:
    line = next(line for line in said.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_the_verdict_comes_first_and_the_variants_stand_side_by_side() -> None:
    said = markdown(made())
    first, _, rest = said.partition("\n\n")
    assert first == "### GPU benchmark: SLOWER (measured); suggestion FASTER"
    assert rest.startswith("**SLOWER**, head against base: time per call +52.0 %")
    assert row(said, "latency, p50")[0].endswith(" ms")
    assert row(said, "against base")[1].startswith(
        "▲" if "-" in row(said, "against base")[1] else "▼"
    )
    assert row(said, "against head")[2].startswith("▲ -87")
    assert row(said, "copy/compute overlap")[2] == "4.4 % of a possible 4.4 %"
    assert row(said, "H2D bandwidth") == ["8.0 GB/s of a measured 25.5"] * 2 + [
        "25.0 GB/s of a measured 25.5"
    ]
    assert row(said, "pinned copies") == ["0 %", "0 %", "100 %"]
    assert row(said, "peak memory") == ["1.50 GiB"] * 3
    assert "driver: 999.1" in said.replace("\\", "")
    assert f"--base {SHA}" in said


def test_the_timelines_are_on_one_scale() -> None:
    said = markdown(made())
    block = said.partition("```\nbase\n")[2].partition("```")[0]
    widths = [len(line) for line in block.splitlines() if line.startswith("kernels")]
    assert widths[0] > 5 * widths[2] - 60
    assert widths[1] > widths[0] > widths[2]
    assert block.count("ms") == 1


@pytest.mark.parametrize("most", [2_000, 6_000, 20_000, 60_000])
def test_a_long_report_is_cut_by_whole_parts(most: int) -> None:
    names = tuple(f"gpu_bench/file_{number}.py::bench_{'x' * 100}" for number in range(40))
    said = markdown(made(names), most=most)
    assert len(said) <= most
    assert said.startswith("### GPU benchmark: SLOWER")
    assert said.count("```") % 2 == 0
    assert said.count("<details>") == said.count("</details>")
    assert "does not fit a comment" in said
    assert said.count("does not fit a comment") == 1


def test_a_strangers_words_are_text_and_call_nobody() -> None:
    evil = "x`|<img src=x onerror=a> @team [a](https://evil.example) </details> \u202egnp"
    report = made((evil, *(f"{evil}{number}" for number in range(5))), name=evil)
    benchmarks = tuple(replace(each, log=evil, problem=evil) for each in report.run.benchmarks)
    report = replace(report, run=replace(report.run, benchmarks=benchmarks, notes=(evil,)))
    page = MarkdownIt("gfm-like", {"linkify": False}).render(markdown(report))
    shown = re.sub(r"<code[^>]*>.*?</code>", "", page, flags=re.DOTALL)
    assert "<img" not in page
    assert "href" not in shown
    assert "@team" not in shown
    assert "\u202e" not in page
    assert page.count("<details>") == page.count("</details>")


def test_an_address_leads_to_the_runs_own_page() -> None:
    assert "(https://host.example/r/abc)" in markdown(made(), "https://host.example/r/abc")


def test_a_modelled_report_says_so_in_its_first_line() -> None:
    report = made()
    run = replace(report.run, backend=Backend.MODEL, device=Device("model", "modelled GPU"))
    assert "(modelled)" in markdown(drawn(run)).partition("\n")[0]


def test_what_ran_on_a_cpu_says_so_in_its_first_line() -> None:
    report = made()
    run = replace(report.run, backend=Backend.CPU, device=Device("cpu", "A processor"))
    assert "SLOWER (measured on a CPU); suggestion" in markdown(drawn(run)).partition("\n")[0]


def test_why_a_benchmark_has_no_numbers_is_said_once() -> None:
    report = made()
    broken = replace(report.run.benchmarks[0], problem="it does not run on the base: no module x")
    said = markdown(drawn(replace(report.run, benchmarks=(broken,))))
    assert said.partition("<details>")[0].count("no module x") == 3  # one for each pair
    assert "\n- it does not run" not in said


def test_of_very_many_benchmarks_those_that_found_something_are_shown() -> None:
    report = made(tuple(f"gpu_bench/a.py::same_{n}" for n in range(200)))
    same, *others = report.run.benchmarks
    alike = tuple(replace(p, samples_ns=(25e6,)) for p in same.rounds[0].processes)
    even = tuple(replace(turn, processes=alike) for turn in same.rounds)
    calm = tuple(replace(each, rounds=even) for each in (same, *others))
    slow = replace(others[0], name="gpu_bench/a.py::the_slow_one")
    said = markdown(drawn(replace(report.run, benchmarks=(*calm, slow))))
    table, _, rest = said.partition("503 more rows are left out here.")
    assert len(said) < 60_000
    assert "the_slow_one" in table.splitlines()[6]
    assert rest


def test_an_overlap_that_is_not_given_has_its_reason_in_the_thread() -> None:
    report = made()
    one = report.run.benchmarks[0]
    short = tuple(replace(each, complete=False, coverage=0.9) for each in one.traces)
    said = markdown(drawn(replace(report.run, benchmarks=(replace(one, traces=short),))))
    assert row(said, "copy/compute overlap") == ["INCOMPLETE TRACE"] * 3
    assert "- head: 10.0% of the launches have no GPU event in the trace" in said


def test_the_command_that_repeats_it_asks_for_as_many_rounds() -> None:
    report = made()
    protocol = replace(report.run.request.protocol, rounds=7, most_rounds=7)
    request = replace(report.run.request, protocol=protocol)
    assert "--rounds 7" in markdown(replace(report, run=replace(report.run, request=request)))
    assert "--rounds" not in markdown(report)


def test_lanes_of_a_lying_machine_cannot_leave_their_track() -> None:
    lanes = (LaneSpans("kernels", ((50, 20), (90, 10**15), (0, 10))),)
    lying = replace(founding("ring").summary, length_ns=100, lanes=lanes)
    track = track_from(lying, "head")
    assert track.lanes[0].busy == ((0, 10), (90, 100))
    assert len(text_timeline([track], 10).splitlines()[0]) == len("kernels |") + 11


@needs_bubblewrap
@pytest.mark.sandbox
@pytest.mark.slow
def test_the_report_kept_in_the_docs_is_what_the_example_gives(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    shutil.copytree(root / "examples" / "bench-repo", tmp_path / "bench-repo")
    example = Project(tmp_path / "bench-repo")
    example.git("init", "-q", "-b", "main")
    base = example.commit()
    example.git("apply", "changes/streams.patch")
    patch = (example.folder / "changes" / "ring.patch").read_text()
    made = example.bench(base, example.commit(), patch=patch, backend=Backend.MODEL)
    kept = (root / "docs" / "gpu-bench.md").read_text()
    drawn_here = [line for line in markdown(made).splitlines() if "|" in line]
    assert len(drawn_here) > 20
    assert [line for line in kept.splitlines() if "|" in line] == drawn_here
    assert "modelled, not measured" in kept
