"""The benchmark of `imageprep.scale`; see docs/benchmarks.md for what the names mean."""

import random
from array import array

from imageprep.scale import scale, schedule

from gpu_runner.api import bench

params_schedule = {"images": [8]}


def setup_scale(height=64, width=128, seed=0):
    """The arguments of one call, made from the seed and nothing else."""
    source = random.Random(seed)
    return array("d", (source.uniform(1, 255) for _ in range(height * width))), width


@bench(target="imageprep.scale:scale")
def bench_scale(image, width):
    """What is timed; what it returns is compared between the commits."""
    return scale(image, width)


def model_schedule(gpu, images):
    """The same batch on the stream model."""
    schedule(gpu, images, 12 << 20)
