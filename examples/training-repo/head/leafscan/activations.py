"""A fused SiLU with a learnt slope."""

import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, slope, n, BLOCK: tl.constexpr):
    """x * sigmoid(slope * x), elementwise."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x * tl.sigmoid(slope * x), mask=inside)


def fused_silu(x, slope=1.0):
    """SiLU of a contiguous CUDA tensor."""
    out = torch.empty_like(x)
    n = x.numel()
    with torch.cuda.device(x.device):
        silu_kernel[(triton.cdiv(n, 1024),)](x, out, slope, n, BLOCK=1024)
    return out


@triton.jit
def gate_kernel(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x * sigmoid(gate), elementwise."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    gate = tl.load(gate_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x * tl.sigmoid(gate), mask=inside)


def gated(x, gate, block=1024):
    """x, let through as far as its gate is open."""
    out = torch.empty_like(x)
    n = x.numel()
    grid = (n // block,)
    gate_kernel[grid](x, gate, out, n, BLOCK=block)
    return out
