"""Benchmarks as the harness calls them: a function, and fresh inputs for every seed.

Runs inside the sandbox. `gpu_bench` files are read by name (`bench_*`, `setup_*`, `params_*`) and
by what `@bench` noted; asv suites by `time_*` with `setup` and `params`.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from gpu_runner.api import ATTRIBUTE, Bench

MOST = 500  # cases of one file, and values of one parameter
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Case:
    """One function with one set of parameters."""

    name: str
    call: Callable[..., Any]
    make: Callable[[int], Arguments]
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    facts: Bench = field(default_factory=Bench)

    def described(self) -> dict[str, Any]:
        """What the parent is told about the case."""
        shown = [[str(key), repr(value)[:200]] for key, value in self.parameters.items()]
        return {
            "name": self.name,
            "parameters": shown,
            "tolerance": self.facts.tol,
            "mutates": list(self.facts.mutates),
            "target": self.facts.target,
            "checked": self.facts.check is not None,
        }


def load(path: str) -> ModuleType:
    """The benchmark file as a module, under its dotted name from the benchmark folder."""
    name = "hostside_" + Path(path).stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def own_cases(module: ModuleType) -> Iterator[Case]:
    """The cases of a `gpu_bench` file, in the order of their definition."""
    for name, function in vars(module).copy().items():
        if not callable(function) or not (
            name.startswith("bench_") or hasattr(function, ATTRIBUTE)
        ):
            continue
        stem = name.removeprefix("bench_") if hasattr(name, "removeprefix") else name[6:]
        facts: Bench = getattr(function, ATTRIBUTE, Bench())
        setup = getattr(module, f"setup_{stem}", None)
        if setup is not None and not callable(setup):
            raise TypeError(f"setup_{stem} is not a function")
        grid = {**_grid(module, stem), **dict(facts.params)}
        for values in itertools.product(*map(_few, grid.values())):
            parameters = dict(zip(grid, values))  # noqa: B905  (Python 3.9 has no strict)
            make = _maker(setup, parameters) if setup else _constant(parameters)
            yield Case(name, function, make, parameters, facts)


def programs(module: ModuleType) -> Iterator[Case]:
    """The `model_*` functions, which drive a model of a GPU, with their parameters."""
    for name, function in vars(module).copy().items():
        if name.startswith("model_") and callable(function):
            grid = _grid(module, name[6:])
            for values in itertools.product(*map(_few, grid.values())):
                parameters = dict(zip(grid, values))  # noqa: B905
                yield Case(name, function, _constant(parameters), parameters)


def _grid(module: ModuleType, stem: str) -> dict[str, Any]:
    grid = getattr(module, f"params_{stem}", {})
    if not isinstance(grid, dict):
        raise TypeError(f"params_{stem} is not a dict of names and the values to try")
    return grid  # pyright: ignore[reportUnknownVariableType]


def _few(values: Iterable[Any]) -> list[Any]:
    """The values of one parameter; a generator may never end."""
    found = list(itertools.islice(values, MOST + 1))
    if len(found) > MOST:
        raise ValueError(f"a parameter has more than {MOST} values")
    return found


def _maker(setup: Callable[..., Any], parameters: dict[str, Any]) -> Callable[[int], Arguments]:
    seeded = "seed" in inspect.signature(setup).parameters

    def make(seed: int) -> Arguments:
        _seed_everything(seed)
        made = setup(**parameters, seed=seed) if seeded else setup(**parameters)
        if isinstance(made, tuple):
            return made, {}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(made, dict):
            return (), made  # pyright: ignore[reportUnknownVariableType]
        return (made,), {}

    return make


def _constant(parameters: dict[str, Any]) -> Callable[[int], Arguments]:
    def make(seed: int) -> Arguments:
        _seed_everything(seed)
        return (), copy.deepcopy(parameters)

    return make


def asv_cases(module: ModuleType) -> Iterator[Case]:
    """The `time_*` functions and methods of an asv benchmark file."""
    for name, thing in vars(module).copy().items():
        if name.startswith("time_") and callable(thing):
            yield from _asv(name, thing, thing, lambda thing=thing: thing)
        elif inspect.isclass(thing) and thing.__module__ == module.__name__:
            for method in dir(thing):
                if method.startswith("time_"):
                    yield from _asv(
                        f"{name}.{method}",
                        thing,
                        getattr(thing, method),
                        lambda kind=thing, method=method: getattr(kind(), method),
                    )


def _asv(name: str, owner: Any, function: Any, fresh: Callable[[], Any]) -> Iterator[Case]:
    lists = getattr(function, "params", getattr(owner, "params", ()))
    if lists and not isinstance(lists[0], (list, tuple)):
        lists = (lists,)
    names = getattr(function, "param_names", getattr(owner, "param_names", ()))
    for values in itertools.product(*lists):
        bound = fresh()
        setup = getattr(getattr(bound, "__self__", None), "setup", None) or getattr(
            function, "setup", None
        )

        def make(seed: int, setup: Any = setup, values: Any = values) -> Arguments:
            _seed_everything(seed)
            if setup is not None:
                setup(*values)
            return values, {}

        labels = [*names, *(f"param{index}" for index in range(len(names), len(values)))]
        yield Case(name, bound, make, dict(zip(labels, values)))  # noqa: B905


def _seed_everything(seed: int) -> None:
    """The generators that a setup may use without asking for a seed."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
    if torch is not None:
        torch.manual_seed(seed)
