"""Changes that try to look faster than they are, each a small program of our own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from bench_project import BENCH, GLUE, LIMITS, Project, head, needs_bubblewrap, started

from gpu_runner.records import Variant, Verdict
from gpu_runner.select import discover
from gpu_runner.tree import Repository

pytestmark = [pytest.mark.sandbox, needs_bubblewrap]

SLOW = """
def total(values):
    for value in values * 10:
        value * value
    found = 0.0
    for value in values:
        found += value * value
    return found
"""
CONSTANT = """
from pkg.glue import total

VALUES = [index / 7 for index in range(400_000)]

def bench_total():
    return total(VALUES)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return started(tmp_path / "project")


@pytest.mark.parametrize(
    "trick",
    [
        pytest.param(
            "import time\n"
            "for name in ('perf_counter', 'monotonic', 'time', 'process_time'):\n"
            "    setattr(time, name, lambda: 0.0)\n"
            "    setattr(time, name + '_ns', lambda: 0)\n",
            id="timers",
        ),
        pytest.param(
            "import statistics, math\n"
            "statistics.median = statistics.fmean = lambda *_: 1e-9\n"
            "math.log = math.exp = lambda *_: -10.0\n",
            id="statistics",
        ),
        pytest.param(
            "import sys\n"
            "harness = sys.modules['gpu_runner.harness']\n"
            "harness.Harness._run_before = harness.Harness._run\n"
            "harness.time_ns = lambda: 0\n",
            id="the harness's own module",
        ),
    ],
)
def test_replacing_the_clock_or_the_arithmetic_gains_nothing(project: Project, trick: str) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=trick + SLOW)
    found = head(project.bench(base, changed))
    assert found.verdict is not Verdict.FASTER
    times = {each.variant: each.p50_ns for each in found.latencies}
    assert times[Variant.HEAD] > times[Variant.BASE]


FORGE = """
import json, os, struct
def forge(text):
    head = json.dumps(text).encode()
    frame = struct.pack(">4sIQ", b"HSF1", len(head), 0) + head
    for fd in range(100, 120):
        try:
            os.write(fd, frame)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        pytest.param(FORGE, 'forge({"token": "0000"})', id="a forged answer"),
        pytest.param("import os", 'os.write(101, b"FASTER")', id="words"),
        pytest.param(
            FORGE,
            "import sys\n"
            "    frame = sys._getframe()\n"
            "    while 'command' not in frame.f_locals: frame = frame.f_back\n"
            "    forge({'token': frame.f_locals['command']['token']})",
            id="an answer with the stolen token",
        ),
    ],
)
def test_writing_to_the_result_pipe_ends_the_run(project: Project, setup: str, line: str) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(
        pkg__glue=setup + "\n" + GLUE.replace("    found = 0.0", f"    {line}\n    found = 0.0")
    )
    found = head(project.bench(base, changed))
    assert found.verdict is Verdict.WRONG_RESULT
    assert "result pipe" in found.because
    assert found.latencies == ()


def test_an_answer_before_the_work_is_done_is_a_wrong_result(project: Project) -> None:
    lazy = """
    import threading, time
    def total(values):
        found = [0.0]
        def work():
            time.sleep(0.05)
            found[0] = sum(value * value for value in values)
        threading.Thread(target=work).start()
        return found
    """
    eager = "def total(values):\n    return [sum(value * value for value in values)]\n"
    base = project.commit(pkg__glue=eager, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=lazy)
    found = head(project.bench(base, changed))
    assert found.verdict is Verdict.WRONG_RESULT
    assert "the output[0]" in found.because


def test_threads_left_running_are_suspicious(project: Project) -> None:
    busy = GLUE.replace(
        "    return found",
        "    import threading, time\n"
        "    if threading.active_count() < 4:\n"
        "        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
        "    return found",
    )
    slow = GLUE.replace(
        "    for value in values:",
        "    for value in values * 40:\n        pass\n    for value in values:",
    )
    base = project.commit(pkg__glue=slow, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=busy)
    found = head(project.bench(base, changed))
    assert found.verdict is Verdict.SUSPICIOUS
    assert "more threads running" in found.because


def test_work_put_off_until_nobody_times_it_is_suspicious(project: Project) -> None:
    """The output computes itself when the harness reads it; only its reading takes long."""
    putting_off = """
    import sys, time
    encode = sys.modules["gpu_runner.encode"]
    honest = encode.encode
    def patched(value):
        if callable(value):
            value = value()
        return honest(value)
    encode.encode = patched
    def total(values):
        def later():
            found = 0.0
            for _ in range(40):
                found = 0.0
                for value in values:
                    found += value * value
            return found
        return later
    """
    slow = GLUE.replace(
        "    found = 0.0", "    for _ in range(40):\n        found = sum(values)\n    found = 0.0"
    )
    base = project.commit(pkg__glue=slow, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=putting_off)
    found = head(project.bench(base, changed))
    assert found.verdict is Verdict.SUSPICIOUS
    assert "outside" in found.because or "hard to believe" in found.because


CACHED = """
import functools
@functools.lru_cache(maxsize=None)
def _total(values):
    found = 0.0
    for value in values:
        found += value * value
    return found
def total(values):
    return _total(tuple(values))
"""


def test_a_cache_gains_nothing_on_fresh_inputs(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=CACHED)
    assert head(project.bench(base, changed)).verdict is not Verdict.FASTER


def test_a_cache_is_suspicious_where_inputs_never_change(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__constant=CONSTANT)
    changed = project.commit(
        pkg__glue=CACHED.replace("tuple(values)", "VALUES(values)")
        .replace(
            "def total", "VALUES = functools.lru_cache(maxsize=None)(lambda key: key)\ndef total"
        )
        .replace("return _total(VALUES(values))", "return _by_id(id(values), values)")
        .replace(
            "def total",
            "KNOWN = {}\n"
            "def _by_id(key, values):\n"
            "    if key not in KNOWN:\n"
            "        KNOWN[key] = _total(tuple(values))\n"
            "    return KNOWN[key]\n"
            "def total",
        )
    )
    found = head(project.bench(base, changed))
    assert found.verdict is Verdict.SUSPICIOUS
    assert "results may be cached" in found.because


def test_the_first_result_for_ever_is_a_wrong_result(project: Project) -> None:
    stuck = GLUE.replace(
        "def total(values):", "KNOWN = []\ndef total(values):\n    if KNOWN: return KNOWN[0]"
    )
    stuck = stuck.replace("    return found", "    KNOWN.append(found)\n    return found")
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    found = head(project.bench(base, project.commit(pkg__glue=stuck)))
    assert found.verdict is Verdict.WRONG_RESULT


def test_an_input_that_is_changed_is_named(project: Project) -> None:
    spoiling = GLUE.replace("    return found", "    values[:] = []\n    return found")
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    found = head(project.bench(base, project.commit(pkg__glue=spoiling)))
    assert found.verdict is Verdict.WRONG_RESULT
    assert "changes its input 'values'" in found.because


def test_inputs_made_easier_by_the_change_are_refused(project: Project) -> None:
    bench = BENCH.replace("range(20_000)", "range(SIZE)").replace(
        "import total", "import SIZE, total"
    )
    base = project.commit(pkg__glue="SIZE = 20_000\n" + GLUE, gpu_bench__bench_total=bench)
    found = head(project.bench(base, project.commit(pkg__glue="SIZE = 10\n" + GLUE)))
    assert found.verdict is Verdict.WRONG_RESULT
    assert "inputs differ from the base's" in found.because


def test_an_easier_benchmark_counts_for_both_sides(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    easier = BENCH.replace("20_000", "100")
    changed = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=easier)
    assert head(project.bench(base, changed)).verdict is not Verdict.FASTER
    trusted = project.bench(base, changed, benchmarks_from="base")
    assert trusted.run.problem is not None or head(trusted).verdict is not Verdict.FASTER


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("import os; os._exit(0)", "it went away", id="leaves"),
        pytest.param("while True: pass", "took longer than 3 s", id="never ends"),
        pytest.param("raise SystemExit(0)", "SystemExit", id="exits politely"),
        pytest.param("import os; os.kill(os.getpid(), 9)", "it", id="kills itself"),
        pytest.param(
            "raise ValueError('\\x1b[2J\\x1b]0;x\\x07bad')", "ValueError: bad", id="escapes"
        ),
        pytest.param("print('x' * (1 << 30))", "", id="a gigabyte of output"),
    ],
)
def test_a_change_that_misbehaves_gets_one_clean_sentence(
    project: Project, line: str, said: str
) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(
        pkg__glue=GLUE.replace("    found = 0.0", f"    {line}\n    found = 0.0")
    )
    started_at = time.monotonic()
    limits = LIMITS.__class__(process_seconds=3.0, memory_bytes=LIMITS.memory_bytes)
    found = head(project.bench(base, changed, limits=limits))
    assert found.verdict is Verdict.WRONG_RESULT
    assert said in found.because
    assert "\x1b" not in found.because
    assert found.latencies == ()
    assert time.monotonic() - started_at < 30


def test_a_benchmark_that_is_a_link_is_not_followed(project: Project) -> None:
    folder = project.folder / "gpu_bench"
    folder.mkdir()
    (folder / "bench_shadow.py").symlink_to("/etc/passwd")
    (folder / "up.py").symlink_to("../../../../etc/hostname")
    changed = project.commit(pkg__glue=GLUE)
    repository = Repository(project.folder)
    assert repository.files(changed) == ("pkg/glue.py",)
    assert repository.read(changed, "gpu_bench/bench_shadow.py") is None
    assert discover(repository.files(changed), lambda _: "def bench_x(): pass") == ()


def test_hooks_and_filters_of_the_repository_do_not_run(project: Project, tmp_path: Path) -> None:
    mark = tmp_path / "hook-ran"
    hook = project.folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    assert project.bench(base, changed).run.benchmarks[0].correct
    assert not mark.exists()
