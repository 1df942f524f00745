"""What is said of a project's tests: only what makes their results wrong."""

from __future__ import annotations

import textwrap

import pytest

from analyzers.engine import analyze, timeline_of
from analyzers.source import Source, read_source

SLOW = """
import torch

def test_training(model, loader, criterion):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        weight = torch.zeros(8, requires_grad=True).cuda()
        assert loss.item() < weight.sum().item()
"""
RACE = """
import torch

def test_copies(batch, model):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        ready = batch.cuda(non_blocking=True)
    return model(ready)
"""
KERNEL = """
import numpy as np
from numba import cuda

@cuda.jit
def double_kernel(x):
    i = cuda.grid(1)
    x[i] *= 2

def launch(n):
    x = cuda.to_device(np.zeros(n))
    double_kernel[(n + 127) // 128, 128](x)
"""


def rules(path: str, code: str) -> set[str]:
    return {finding.rule for finding in analyze(path, code).findings}


@pytest.mark.parametrize("path", ["tests/test_steps.py", "pkg/testing/steps.py", "conftest.py"])
def test_no_word_is_said_about_their_speed(path: str) -> None:
    assert rules("pkg/steps.py", SLOW)
    assert not rules(path, SLOW)
    source = read_source(path, SLOW)
    assert isinstance(source, Source)
    assert timeline_of(source).events == ()  # nor is any time spent on it


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        pytest.param(RACE, "GPU302", id="a race between streams"),
        pytest.param(KERNEL, "GPU904", id="a kernel that writes past the end"),
    ],
)
def test_what_makes_their_results_wrong_is_said(code: str, rule: str) -> None:
    assert rule in rules("pkg/steps.py", code)
    assert rule in rules("tests/steps.py", code)


def test_a_race_is_found_among_other_tests() -> None:
    both = SLOW + textwrap.dedent(RACE).replace("import torch\n", "")
    assert rules("tests/test_steps.py", both) == rules("tests/test_steps.py", RACE)


def test_what_is_no_python_is_told_of_tests_as_well() -> None:
    assert analyze("tests/test_steps.py", SLOW + "def broken(:\n").status == "failed"
