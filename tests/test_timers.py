"""A timer's two methods: what lies between them belongs to whoever uses it."""

from __future__ import annotations

import textwrap

from analyzers.engine import analyze
from analyzers.finding import Confidence

STOPWATCH = """
import time
import torch

class Stopwatch:
    def __init__(self, device):
        self.on_gpu = torch.device(device).type == "cuda"
        self.total = 0.0
{now}
    def __enter__(self):
        self.started = {clock}
        return self

    def __exit__(self, *problem):
        self.total += {clock} - self.started
"""
WAITS = """
    def now(self):
        if self.on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()
"""


def told(now: str, clock: str) -> list[tuple[str, Confidence]]:
    analysis = analyze("project/steps.py", STOPWATCH.format(now=now, clock=clock))
    return [(finding.rule, finding.confidence) for finding in analysis.findings]


def test_a_timer_that_never_waits_may_time_launches() -> None:
    assert told("", "time.perf_counter()") == [("GPU401", Confidence.POSSIBLE)]


def test_a_timer_that_waits_before_it_reads_is_right() -> None:
    assert told(WAITS, "self.now()") == []


def test_a_timer_of_a_file_that_knows_no_gpu_is_left_alone() -> None:
    code = STOPWATCH.format(now="", clock="time.perf_counter()")
    plain = code.replace('torch.device(device).type == "cuda"', "torch.ones(1)")
    assert analyze("project/steps.py", textwrap.dedent(plain)).findings == ()
