"""`hostside bench` and `hostside doctor` as a user meets them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from bench_project import BENCH, GLUE, Project, needs_bubblewrap, started

from bot.cli import main
from bot.reports.bench import markdown, text
from bot.reports.bench_rows import duration
from gpu_runner.models import BenchmarkRun, BenchReport, BenchRequest, BenchRun
from gpu_runner.records import (
    Backend,
    Correctness,
    Device,
    Environment,
    Process,
    Round,
    TraceSummary,
    Variant,
)
from gpu_runner.verdict import report as drawn

SHA = "0123456789abcdef0123456789abcdef01234567"
SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "bench.schema.json"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return started(tmp_path / "project")


def rounds(ratio: float) -> tuple[Round, ...]:
    """Ten quiet rounds in which the head takes `ratio` times as long."""
    return tuple(
        Round(
            number,
            (
                Process(Variant.BASE, (1e6 + number,)),
                Process(Variant.HEAD, (ratio * (1e6 + number),)),
            ),
        )
        for number in range(20)
    )


def made(name: str, ratio: float, backend: Backend = Backend.CPU, **more: object) -> BenchReport:
    """A report on one benchmark of made-up samples."""
    checks = tuple(
        Correctness(v, passed=True, seeds=(1, 2, 3)) for v in (Variant.BASE, Variant.HEAD)
    )
    benchmark = BenchmarkRun(name, "gpu_bench", correctness=checks, rounds=rounds(ratio))
    benchmark = replace(benchmark, **more)  # pyright: ignore[reportArgumentType]
    run = BenchRun(
        BenchRequest("here", SHA, SHA[::-1]),
        backend,  # pyright: ignore[reportArgumentType]
        "2026-01-01T00:00:00",
        12.0,
        Environment("3.11", "Linux", sandbox="bubblewrap"),
        Device(backend.value, "Test Board"),  # pyright: ignore[reportArgumentType]
        benchmarks=(benchmark,),
    )
    return drawn(run)


def test_the_text_says_what_was_measured_where_and_how_sure_it_is() -> None:
    said = text(made("gpu_bench/a.py::bench_a", 1.1))
    assert "Hostside benchmark, measured: base 0123456789, head 76543210fe" in said
    assert "Test Board; Python 3.11; sandbox bubblewrap" in said
    assert "  SLOWER                   head against base\n    time per call +10.0 %" in said
    assert "base 1 ms (p90 1 ms); head 1.1 ms (p90 1.1 ms)" in said
    assert "outputs equal on 3 secret inputs" in said


def test_without_a_device_record_nothing_is_called_measured() -> None:
    made_up = made("gpu_bench/a.py::bench_a", 1.1)
    bare = replace(made_up, run=replace(made_up.run, device=None))
    for said in (text(bare), markdown(bare)):
        assert "unattested" in said
        assert "measured:" not in said
        assert "(measured)" not in said


def test_a_wrong_result_shows_no_time_at_all() -> None:
    wrong = Correctness(Variant.HEAD, passed=False, reason="the output is 1 where the base's is 2")
    report = made("a", 0.5, correctness=(Correctness(Variant.BASE, passed=True), wrong))
    for said in (text(report), markdown(report)):
        assert "WRONG RESULT" in said
        assert "the output is 1 where" in said
        assert " ms" not in said
        assert "50" not in said


def test_overlap_is_shown_with_what_is_possible() -> None:
    trace = TraceSummary(
        Variant.HEAD, 0, *([100.0] * 11), overlap_percent=4.4, overlap_ceiling_percent=4.42,
        timeline="head\nkernels |██|",
    )  # fmt: skip
    said = markdown(made("a", 0.9, Backend.CUDA, traces=(trace,)))
    assert "4.4 % of a possible 4.4 %" in said
    assert "kernels |██|" in said


def test_names_from_the_project_cannot_write_markdown() -> None:
    report = made("gpu_bench/x.py::b[v=<img src=x>|`@team` **loud**]", 1.0)
    (benchmark,) = report.run.benchmarks
    others = tuple(replace(benchmark, name=f"other {number}") for number in range(5))
    said = markdown(drawn(replace(report.run, benchmarks=(*others, benchmark))))
    assert "<img" not in said.replace("`<img", "").replace("v=<img", "")
    assert "@team" not in said.replace("`@team`", "")
    row = next(line for line in said.splitlines() if line.startswith("| `` gpu") or "x.py" in line)
    assert row.replace("\\|", "").count("|") == 7


@pytest.mark.parametrize(
    ("nanoseconds", "said"),
    [(0.5, "0.5 ns"), (1500, "1.5 µs"), (2_345_678, "2.35 ms"), (3.2e9, "3.2 s")],
)
def test_durations_have_three_digits(nanoseconds: float, said: str) -> None:
    assert duration(nanoseconds) == said


def test_the_json_follows_the_published_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(json.loads(made("a", 1.1).to_json()), schema)


def test_the_list_is_read_without_running_anything(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.commit(gpu_bench__a="raise SystemExit('never run')\ndef bench_a(): ...\n")
    assert main(["bench", "list", "--repo", str(project.folder)]) == 0
    assert capsys.readouterr().out == "gpu_bench         gpu_bench/a.py::bench_a\n"
    assert main(["bench", "list", "--repo", str(project.folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmarks"][0]["name"] == "bench_a"


@pytest.mark.sandbox
@needs_bubblewrap
def test_a_run_prints_its_report_and_a_wrong_result_is_exit_code_1(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    project.commit(pkg__glue=GLUE.replace("0.0", "1.0"))
    command = [
        "bench",
        "run",
        "--repo",
        str(project.folder),
        "--base",
        "HEAD~1",
        "--backend",
        "cpu",
    ]
    assert main([*command, "--rounds", "2", "--seconds", "0.05"]) == 1
    said = capsys.readouterr().out
    assert "WRONG RESULT             head against base" in said
    assert "overlap was not measured" in said


@pytest.mark.sandbox
@needs_bubblewrap
def test_a_repository_without_benchmarks_is_exit_code_2_and_an_offer(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.commit(pkg__glue=GLUE)
    project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    assert main(["bench", "run", "--repo", str(project.folder), "--base", "HEAD~1"]) == 2
    printed = capsys.readouterr()
    assert "def bench_total(values):" in printed.out
    assert "the repository has no benchmark" in printed.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--base", "nowhere"], "'nowhere' is not a commit of", id="a revision"),
        pytest.param(["--base", "--help-me"], "", id="a revision that looks like an option"),
        pytest.param(
            ["--base", "HEAD", "--rounds", "1"], "--rounds must be from 2 to 60", id="rounds"
        ),
        pytest.param(
            ["--base", "HEAD", "--patch", "none.diff"], "none.diff cannot be read", id="patch"
        ),
        pytest.param(
            ["--base", "HEAD", "--backend", "cuda", "--gpu", "Imaginary"],
            "no CUDA device",
            id="gpu",
        ),
        pytest.param(
            ["--base", "HEAD", "--python", "/nonexistent/python"],
            "name one with --python",
            id="python",
        ),
        pytest.param(
            ["--base", "HEAD", "--sandbox", "container"], "no sandbox works", id="sandbox"
        ),
    ],
)
def test_mistakes_end_with_one_sentence_and_exit_code_2(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    project.commit(pkg__glue=GLUE)
    try:
        code = main(["bench", "run", "--repo", str(project.folder), *arguments])
    except SystemExit as stop:  # argparse's own way
        code = stop.code
    assert code == 2
    problem = capsys.readouterr().err
    assert said in problem
    assert "Traceback" not in problem


def test_a_sandbox_that_the_environment_misspells_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.commit(pkg__glue=GLUE)
    monkeypatch.setenv("HOSTSIDE_SANDBOX", "non")
    assert main(["bench", "run", "--repo", str(project.folder), "--base", "HEAD"]) == 2
    assert "HOSTSIDE_SANDBOX must be one of auto, bubblewrap" in capsys.readouterr().err


def test_the_doctor_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--format", "json"])
    checks = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert {"git", "bubblewrap", "user namespaces", "container", "control groups"} <= set(checks)
    assert all(each["finding"] for each in checks.values())
    if checks["driver"]["state"] == "missing":
        assert "no overlap" in checks["driver"]["finding"]
    main(["doctor"])
    assert "git: found" in capsys.readouterr().out
