"""What a project's `gpu_bench/*.py` may import; needs nothing and does nothing outside the runner.

    from gpu_runner.api import bench

    def setup_process_batch(n=8, height=1024, width=1024, seed=0):
        ...                      # returns the arguments: a tuple, a dict of keywords, or one value

    @bench(params={"n": [1, 8, 32]}, target="pkg.preproc:process_batch", tol=1e-5)
    def bench_process_batch(images):
        return process_batch(images)          # the return value is compared between variants

Plain names work without the import: `bench_NAME`, `setup_NAME` and a dict `params_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

ATTRIBUTE = "__hostside_bench__"


@dataclass(frozen=True)
class Bench:
    """What a benchmark's author declared about it."""

    params: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    target: str | None = None
    tol: float | None = None
    mutates: tuple[str, ...] = ()
    check: Callable[..., Any] | None = None


def bench(
    *,
    params: Mapping[str, Sequence[Any]] | None = None,
    target: str | None = None,
    tol: float | None = None,
    mutates: Sequence[str] = (),
    check: Callable[..., Any] | None = None,
) -> Callable[[Function], Function]:
    """A decorator that notes these facts on the function and returns the function itself.

    `params`: values to try, passed to `setup_NAME`. `target`: the function under test. `tol`:
    relative and absolute tolerance. `mutates`: parameters that may change. `check(output,
    *arguments)`: replaces the comparison with the base; a false answer is a wrong result.
    """
    grid = tuple((str(name), tuple(values)) for name, values in (params or {}).items())
    facts = Bench(grid, target, tol, tuple(mutates), check)

    def note(function: Function) -> Function:
        setattr(function, ATTRIBUTE, facts)
        return function

    return note
