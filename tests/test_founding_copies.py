"""The loop of the founding article, and the rewrite that only looks faster, are seen through."""

from __future__ import annotations

import textwrap

from analyzers.engine import analyze

KERNEL = """
import math
import numpy as np
from numba import cuda

@cuda.jit
def scaled(values, mean, width, offset, length):
    i = cuda.grid(1)
    if i < length:
        values[offset + i] = (values[offset + i] - mean) / width
"""

PER_ITEM = """
def process(images):
    results = []
    for image in images:
        flat = image.reshape(-1).astype(np.float32)
        device = cuda.to_device(flat)  # GPU205
        scaled[math.ceil(flat.size / 256), 256](device, 128.0, 64.0, 0, flat.size)
        result = device.copy_to_host()  # GPU205
        results.append(result.reshape(image.shape))
    return results
"""

TEMPTING = """
def process(images):
    total = sum(image.size for image in images)
    batch = cuda.to_device(np.empty(total, dtype=np.float32))  # GPU215
    batch.copy_to_device(np.concatenate([image.astype(np.float32).ravel() for image in images]))
    results, start = [], 0
    for image in images:
        stream = cuda.stream()
        scaled[math.ceil(image.size / 256), 256, stream](batch, 128.0, 64.0, start, image.size)
        host = np.empty(image.size, dtype=np.float32)
        batch[start : start + image.size].copy_to_host(host, stream=stream)  # GPU216
        stream.synchronize()
        results.append(host.reshape(image.shape))
        start += image.size
    return results
"""

MENDED = """
def process(images):
    host = np.concatenate([image.astype(np.float32).ravel() for image in images])
    batch = cuda.to_device(host)
    scaled[math.ceil(host.size / 256), 256](batch, 128.0, 64.0, 0, host.size)
    return batch.copy_to_host()
"""


def copies_found(code: str) -> set[tuple[int, str]]:
    text = KERNEL + textwrap.dedent(code)
    findings = analyze("project/images.py", text).findings
    return {(f.span.line, f.rule) for f in findings if f.rule.startswith("GPU2")}


def marked(code: str) -> set[tuple[int, str]]:
    lines = (KERNEL + textwrap.dedent(code)).splitlines()
    return {(n, line.split("# ")[1]) for n, line in enumerate(lines, 1) if "# GPU" in line}


def test_each_image_makes_its_own_trip() -> None:
    assert copies_found(PER_ITEM) == marked(PER_ITEM)


def test_the_tempting_rewrite_uploads_nothing_and_overlaps_nothing() -> None:
    assert copies_found(TEMPTING) == marked(TEMPTING)


def test_one_copy_each_way_is_met_with_silence() -> None:
    assert copies_found(MENDED) == set()
