"""Scores how sharp photographs are, in the frequency domain."""

import cupy as cp


def spectra(stack):
    """Log power spectra of a stack of grey images; stays on the GPU."""
    frames = cp.asarray(stack, dtype=cp.float32)
    frames -= frames.mean(axis=(1, 2), keepdims=True)
    return cp.log1p(cp.abs(cp.fft.rfft2(frames)) ** 2)


def sharpness(stack):
    """One score for each image: the share of power in the upper half of the band."""
    power = spectra(stack)
    upper = power[:, :, power.shape[2] // 2 :].sum(axis=(1, 2))
    return cp.asnumpy(upper / power.sum(axis=(1, 2)))


def sharpest(stack, keep):
    """Numbers of the `keep` sharpest images, best first."""
    scores = sharpness(stack)
    order = scores.argsort()[::-1]
    return [int(number) for number in order[:keep]]
