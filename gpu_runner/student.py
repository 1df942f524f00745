"""Student's t distribution for whole degrees of freedom, without a numerics library.

For whole degrees of freedom the distribution function is a finite sum of powers of a cosine
(Abramowitz and Stegun, 26.7.3 and 26.7.4), so it is exact to rounding; the quantile inverts it by
bisection. Degrees of freedom here are rounds minus one: small, whole, and asked for repeatedly.
"""

from __future__ import annotations

import functools
import math


def within(t: float, degrees: int) -> float:
    """Probability that a t-distributed number lies between -t and t."""
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be 1 or more, got {degrees}")
    angle = math.atan(abs(t) / math.sqrt(degrees))
    square = math.cos(angle) ** 2
    odd = degrees % 2 == 1
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for step in range(degrees // 2):
        total += term
        ratio = (2 * step + 2) / (2 * step + 3) if odd else (2 * step + 1) / (2 * step + 2)
        term *= square * ratio
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if odd else series


def two_sided_p(t: float, degrees: int) -> float:
    """Probability of a value at least as far from zero as t."""
    if math.isinf(t):
        return 0.0
    return min(1.0, max(0.0, 1.0 - within(t, degrees)))


@functools.cache
def quantile(probability: float, degrees: int) -> float:
    """The t below which that share of the distribution lies, for 0 < probability < 1."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"a quantile needs a probability between 0 and 1, got {probability}")
    if probability < 0.5:
        return -quantile(1.0 - probability, degrees)
    share = 2.0 * probability - 1.0
    low, high = 0.0, 1.0
    while within(high, degrees) < share:
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if within(middle, degrees) < share else (low, middle)
    return (low + high) / 2
