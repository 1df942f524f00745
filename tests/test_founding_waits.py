"""The founding example's waits: the redundant one, and the one for each image."""

from __future__ import annotations

from analyzers.engine import analyze
from analyzers.finding import Confidence, Safety

SCRIPT = """\
import torch

x = torch.randn(1024, 1024).cuda()
z = torch.zeros(1024, 1024).cuda()
custom_matmul_kernel(x, z)
torch.cuda.synchronize()
result = z.cpu().numpy()
"""

REWRITE = """\
import numpy as np
from numba import cuda

def fetch(batch, images, offsets):
    streams = [cuda.stream() for _ in images]
    d_batch = cuda.to_device(batch)
    results = []
    for i, (img, stream) in enumerate(zip(images, streams)):
        h_result = np.empty(img.size, dtype=np.float32)
        d_batch[offsets[i] : offsets[i] + img.size].copy_to_host(h_result, stream=stream)
        stream.synchronize()
        results.append(h_result)
    return results
"""


def test_a_wait_before_a_blocking_copy_goes_where_the_kernel_s_stream_is_known_to_the_author() -> (
    None
):
    found = [f for f in analyze("script.py", SCRIPT).findings if f.rule == "GPU102"]
    assert [f.span.line for f in found] == [6]
    fix = found[0].fix
    assert fix is not None
    assert fix.safety is Safety.UNSAFE  # nobody sees which stream the custom kernel uses
    assert "current stream" in fix.condition
    assert all("non_blocking" not in edit.text for edit in fix.edits)


def test_a_wait_for_each_image_s_copy_is_found() -> None:
    found = [f for f in analyze("rewrite.py", REWRITE).findings if f.rule == "GPU101"]
    assert [(f.span.line, f.confidence) for f in found] == [(11, Confidence.LIKELY)]
