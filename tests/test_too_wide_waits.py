"""The whole device is waited for where one stream would only have to wait for another."""

from __future__ import annotations

from analyzers.engine import analyze
from analyzers.finding import Confidence

REDUCER = """
import torch

class Reducer:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def backward(self, model, batches):
        for batch in batches:
            model(batch.cuda()).sum().backward()
            self.reduce(model.weight.grad)

    def reduce(self, grad):
        {wait}
        with torch.cuda.stream(self.side):
            grad.div_(8)
"""


def told(wait: str) -> list[tuple[str, Confidence]]:
    analysis = analyze("project/steps.py", REDUCER.format(wait=wait))
    return [(f.rule, f.confidence) for f in analysis.findings if f.rule == "GPU101"]


def test_a_wait_for_the_device_before_side_work_may_be_too_wide() -> None:
    assert told("torch.cuda.synchronize()") == [("GPU101", Confidence.POSSIBLE)]


def test_a_stream_that_waits_for_another_is_right() -> None:
    assert told("self.side.wait_stream(torch.cuda.current_stream())") == []


def test_a_wait_once_in_a_while_is_right() -> None:
    assert told("if self.step % 100 == 0: torch.cuda.synchronize()") == []
