"""Work in child processes: a bad file costs one result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.pool import Task, run, run_here


def work(job: str) -> str:
    match job:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(60)
        case "memory":
            return str(len(bytearray(1 << 40)))
        case "deep":
            return work_deeper(0)
        case "error":
            raise ValueError("no")
        case "slow":
            time.sleep(0.05)
        case _:
            pass
    return f"done {job}"


def work_deeper(level: int) -> str:
    return work_deeper(level + 1)


def failed(job: str, reason: str) -> str:
    return f"{job}: {reason}"


TASK: Task[str, str] = Task(work, failed, time_limit=2.0, workers=2)

QUICK: Task[str, str] = Task(work, failed, time_limit=0.5, workers=2)


def results(jobs: list[str], task: Task[str, str] = TASK) -> list[str]:
    pairs = list(run(task, jobs))
    assert sorted(number for number, _ in pairs) == list(range(len(jobs)))
    return [result for _, result in sorted(pairs)]


def test_every_job_has_its_result() -> None:
    jobs = [str(n) for n in range(500)]
    assert results(jobs) == [f"done {job}" for job in jobs]


def test_no_jobs_start_no_children() -> None:
    assert results([]) == []


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        pytest.param("crash", "Its analysis crashed.", id="a crash"),
        pytest.param("exit", "Its analysis crashed.", id="an exit"),
        pytest.param("hang", "Its analysis took longer than 2 seconds.", id="an endless loop"),
        pytest.param("memory", "Its analysis needs more memory", id="too much memory"),
        pytest.param("deep", "It is nested too deeply.", id="endless recursion"),
        pytest.param("error", "Internal error (ValueError: no).", id="an exception"),
    ],
)
def test_one_bad_job_costs_one_result(job: str, reason: str) -> None:
    jobs = [*(str(n) for n in range(60)), job, *(str(n) for n in range(60, 120))]
    found = results(jobs)
    assert reason in found[60]
    assert [text for n, text in enumerate(found) if n != 60] == [f"done {n}" for n in range(120)]


def test_many_bad_jobs_cost_their_own_results() -> None:
    jobs = ["crash", "a", "crash", "exit", "b"] * 4
    found = results(jobs)
    assert [text for text in found if "crashed" not in text] == ["done a", "done b"] * 4


def test_slow_jobs_are_not_mistaken_for_hanging_ones() -> None:
    task = Task(work, failed, time_limit=0.5, workers=2)
    assert results(["slow"] * 40, task) == ["done slow"] * 40


def test_large_jobs_and_results_pass() -> None:
    jobs = ["x" * 1_000_000 for _ in range(8)]
    assert [len(text) for text in results(jobs)] == [1_000_005] * 8


def children() -> set[str]:
    """The processes that this one has started and that still are there."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(listed.read_text().split()) if listed.is_file() else set()


def test_stopping_early_leaves_no_child_behind() -> None:
    list(run(TASK, ["a"]))  # what multiprocessing itself starts, once, is there from now on
    before = children()
    running = run(TASK, ["a", "hang", "hang"])
    next(running)
    running.close()
    assert children() <= before


def test_in_this_process_the_results_are_the_same() -> None:
    assert list(run_here(TASK, ["a", "error"])) == [
        (0, "done a"),
        (1, "error: Internal error (ValueError: no)."),
    ]


def test_a_process_with_threads_starts_fresh_interpreters() -> None:
    program = (
        "import threading, time\n"
        "from tests.test_pool import TASK, run\n"
        "if __name__ == '__main__':\n"
        "    stop = threading.Event()\n"
        "    threading.Thread(target=stop.wait).start()\n"
        "    print(sorted(run(TASK, ['a', 'crash', 'b'])))\n"
        "    stop.set()\n"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=root, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert "(1, 'crash: Its analysis crashed.')" in done.stdout


def test_children_die_with_their_parent(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from tests.test_pool import QUICK, run\n"
        "running = run(QUICK, ['a', 'hang'])\n"
        "next(running)\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    if not Path(f"/proc/self/task/{os.getpid()}/children").is_file():
        pytest.skip("this kernel does not list children")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    children = [int(word) for word in done.stdout.split()]
    assert len(children) == 2
    deadline = time.monotonic() + 20
    while any(alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(alive(child) for child in children)


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_warm_process_reads_no_module_of_the_analysis_any_more() -> None:
    program = (
        "import sys, bot.warm\n"
        "from analyzers.analysis import AnalysisConfig\n"
        "from bot.examine import Job, examine\n"
        "known = set(sys.modules)\n"
        "text = b'import torch\\n\\ndef f(n):\\n    return torch.ones(n).cuda()\\n'\n"
        "(item,) = examine(Job('a.py', AnalysisConfig(), text)).items\n"
        "print(item.suggestion is not None, sorted(set(sys.modules) - known))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "True []\n", done.stderr
