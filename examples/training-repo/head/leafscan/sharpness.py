"""Scores how sharp photographs are, in the frequency domain."""

import cupy as cp

floor_kernel = cp.RawKernel(
    r"""
    extern "C" __global__ void floor_power(const float* power, float* out, float floor, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = power[i] > floor ? power[i] : 0.0f;
    }
    """,
    "floor_power",
)


def spectra(stack):
    """Log power spectra of a stack of grey images; stays on the GPU."""
    frames = cp.asarray(stack, dtype=cp.float32)
    frames -= frames.mean(axis=(1, 2), keepdims=True)
    return cp.log1p(cp.abs(cp.fft.rfft2(frames)) ** 2)


def without_noise(power):
    """The upper half of the band, with what lies below the noise floor set to zero."""
    upper = power[:, :, power.shape[2] // 2 :]
    out = cp.empty(upper.shape, dtype=cp.float32)
    n = upper.size
    floor_kernel(((n + 255) // 256,), (256,), (upper, out, 0.5, n))
    return out


def sharpness(stack):
    """One score for each image: the share of power in the upper half of the band."""
    power = spectra(stack)
    upper = without_noise(power).sum(axis=(1, 2))
    return cp.asnumpy(upper / power.sum(axis=(1, 2)))


def sharpest(stack, keep):
    """Numbers of the `keep` sharpest images, best first."""
    scores = sharpness(stack)
    order = scores.argsort()[::-1]
    return [int(number) for number in order[:keep]]
