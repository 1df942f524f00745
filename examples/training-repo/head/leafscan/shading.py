"""Evens out the shading that the camera's lens leaves on a photograph."""

import numpy as np
from numba import cuda

THREADS = 256


@cuda.jit
def flatten_kernel(pixels, gain, offset):
    """Scales every pixel and shifts it, in place."""
    i = cuda.grid(1)
    if i < pixels.size:
        pixels[i] = pixels[i] * gain + offset


def blocks_for(size):
    """Blocks that cover `size` elements."""
    return (size + THREADS - 1) // THREADS


def flatten(image, gain=1.2, offset=-8.0):
    """One photograph with even shading."""
    pixels = cuda.to_device(image.reshape(-1).astype(np.float32))
    flatten_kernel[blocks_for(image.size), THREADS](pixels, np.float32(gain), np.float32(offset))
    return pixels.copy_to_host().reshape(image.shape)


def flatten_each(images):
    """Photographs of different sizes with even shading, one after the other."""
    even = []
    for image in images:
        pixels = cuda.to_device(image.reshape(-1).astype(np.float32))
        flatten_kernel[blocks_for(image.size), THREADS](pixels, 1.2, -8.0)
        cuda.synchronize()
        even.append(pixels.copy_to_host().reshape(image.shape))
    return even


def flatten_packed(images, gain=1.2, offset=-8.0):
    """The same in one launch: all photographs lie behind one another."""
    total = sum(image.nbytes for image in images)
    packed = cuda.to_device(np.empty(total, dtype=np.float32))
    packed.copy_to_device(np.concatenate([image.ravel() for image in images]))
    flatten_kernel[blocks_for(total), THREADS](packed, np.float32(gain), np.float32(offset))
    flat = packed.copy_to_host()
    ends = np.cumsum([image.size for image in images])
    starts = [0, *ends[:-1].tolist()]
    return [
        flat[start:end].reshape(image.shape)
        for image, start, end in zip(images, starts, ends.tolist(), strict=True)
    ]
