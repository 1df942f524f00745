"""pytest-benchmark tests, measured by our protocol instead of the plugin's.

Runs inside the sandbox. The `benchmark` fixture is ours: when a test hands it a function, the
parent's commands are answered right there, while the test's other fixtures are alive.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from gpu_runner.cases import Arguments, Case

Serve = Callable[[Case], Any]

QUIET = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:benchmark",
    "-p",
    "no:codspeed",
    "-p",
    "no:xdist",
)


class Fixture:
    """What a test sees as `benchmark`."""

    def __init__(self, name: str, serve: Serve) -> None:
        self._name = name
        self._serve = serve
        self.extra_info: dict[str, Any] = {}
        self.group: str | None = None
        self.name = name
        self.enabled, self.disabled = True, False
        self.stats: Any = None

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Measures the function with copies of these arguments; returns its last output."""

        def make(_seed: int) -> Arguments:
            return _copied(args), _copied(kwargs)

        return self._serve(Case(self._name, function, make))

    def pedantic(
        self,
        target: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        setup: Callable[[], Any] | None = None,
        **_: Any,
    ) -> Any:
        """The same, with arguments from `setup` for every call where it is given."""

        def make(_seed: int) -> Arguments:
            made = setup() if setup else None
            if made is not None:
                return tuple(made[0]), dict(made[1])
            return _copied(tuple(args)), _copied(dict(kwargs or {}))

        return self._serve(Case(self._name, target, make))


def _copied(values: Any) -> Any:
    try:
        return copy.deepcopy(values)
    except Exception:  # not everything can be copied; then the calls share it
        return values


class Collector:
    """Notes every collected test that asks for the fixture."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_collection_finish(self, session: Any) -> None:
        """Called by pytest once it knows its tests."""
        self.found = [
            item.nodeid
            for item in session.items
            if "benchmark" in getattr(item, "fixturenames", ())
        ]


def _fixtures(serve: Serve) -> Any:
    """A plugin with our `benchmark`; made late, because pytest belongs to the project."""
    import pytest

    class Fixtures:
        @pytest.fixture
        def benchmark(self, request: Any) -> Fixture:
            return Fixture(request.node.nodeid, serve)

    return Fixtures()


def names(path: str, root: str) -> list[str]:
    """Test ids below `root` in that file that use the fixture."""
    import pytest

    collector = Collector()
    code = pytest.main([path, "--collect-only", "--rootdir", root, *QUIET], plugins=[collector])
    if code not in (0, 5):
        raise RuntimeError(f"pytest cannot collect {path} (exit code {int(code)})")
    return collector.found


def run(name: str, root: str, serve: Serve) -> str | None:
    """Runs the one test; what went wrong with it, if anything."""
    import pytest

    path = f"{root}/{name}"
    code = pytest.main([path, "--rootdir", root, *QUIET], plugins=[_fixtures(serve)])
    return None if code == 0 else f"the test {name} does not pass (pytest exit code {int(code)})"
