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
