"""The kernels of the examples give the right values without a GPU, where a simulator is there.

Numba's CUDA simulator and Triton's interpreter prove values, not overlap and not races. Each runs
in a process of its own, because both must be switched on before the library is imported. They may
live in an environment of their own, whose Python HOSTSIDE_SIMULATORS names:

    pip install numba numba-cuda      # seconds
    pip install torch triton          # a large download; CPU builds are enough
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples" / "training-repo"
SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1", "TRITON_INTERPRET": "1"}
PYTHON = os.environ.get("HOSTSIDE_SIMULATORS", sys.executable)
pytestmark = pytest.mark.slow


def has(*modules: str) -> bool:
    """Whether the simulators' Python would find these; nothing is imported."""
    find = f"all(importlib.util.find_spec(name) for name in {modules!r})"
    program = f"import importlib.util, sys; sys.exit(not {find})"
    try:
        return subprocess.run([PYTHON, "-c", program], check=False).returncode == 0
    except OSError:
        return False


needs_numba = pytest.mark.skipif(not has("numba_cuda"), reason="pip install numba numba-cuda")
needs_triton = pytest.mark.skipif(not has("torch", "triton"), reason="pip install torch triton")

IMAGES = """
import numpy as np
from leafscan import shading
images = [np.linspace(0, 255, n, dtype=np.float32).reshape(2, -1) for n in (8, 12, 514)]
def differs(out):
    return max(float(np.abs(a - (b * 1.2 - 8.0)).max()) for a, b in zip(out, images, strict=True))
"""
SILU = """
import torch
from leafscan import activations
activations.torch.cuda.device = lambda _: __import__("contextlib").nullcontext()
x, gate = torch.linspace(-3, 3, 1500), torch.linspace(3, -3, 1500)
"""


def said(tree: str, program: str) -> str:
    """What the program prints with this state of the example importable and simulators on."""
    done = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", program],
        env={**os.environ, **SIMULATED, "PYTHONPATH": str(EXAMPLES / tree)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@needs_numba
@pytest.mark.parametrize(
    ("tree", "call"),
    [
        ("base", "[shading.flatten(image) for image in images]"),
        ("head", "[shading.flatten(image) for image in images]"),
        ("head", "shading.flatten_each(images)"),
    ],
    ids=["base, one image", "head, one image", "head, image by image"],
)
def test_the_numba_kernel_is_right_on_every_pixel(tree: str, call: str) -> None:
    assert float(said(tree, f"{IMAGES}\nprint(differs({call}))")) < 1e-4


@needs_numba
def test_the_tempting_rewrite_takes_bytes_for_elements() -> None:
    """What the review says of it (GPU902) is what happens: it fails on every type but uint8."""
    said_by_numba = said("head", f"{IMAGES}\nshading.flatten_packed(images)")
    assert "incompatible shape" in said_by_numba


@needs_triton
@pytest.mark.parametrize("tree", ["base", "head"])
def test_the_triton_silu_is_right_beyond_a_whole_block(tree: str) -> None:
    program = f"{SILU}\nd = activations.fused_silu(x, 1.5) - x * torch.sigmoid(1.5 * x)"
    assert float(said(tree, f"{program}\nprint(float(d.abs().max()))")) < 1e-5


@needs_triton
def test_the_triton_gate_of_the_change_leaves_out_the_tail() -> None:
    """A grid of n // block programs never reaches the last 476 of 1500 elements (GPU907)."""
    program = (
        f"{SILU}\nactivations.torch.empty_like = torch.zeros_like\n"
        "out = activations.gated(x, gate)\nright = x * torch.sigmoid(gate)\n"
        "print(bool((out[:1024] - right[:1024]).abs().max() < 1e-5), int((out[1024:] != 0).sum()))"
    )
    assert said("head", program) == "True 0"
