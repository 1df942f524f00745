"""Runs inside the sandbox: loads one benchmark and does what the parent asks, a step at a time.

It keeps no clock and draws no conclusion: the parent times how long an answer takes and compares
the outputs itself. Standard library only, and no syntax newer than Python 3.9, because it runs in
the interpreter of the project under test.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import inspect
import itertools
import json
import os
import platform
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from gpu_runner import captured, cases, encode, frames, traced
from gpu_runner.barrier import Barrier
from gpu_runner.frames import Header

KNOWN = (
    *("numpy", "torch", "numba", "numba-cuda", "cupy", "cupy-cuda12x", "cupy-cuda13x"),
    *("triton", "jax", "jaxlib", "cuda-python", "pycuda"),
)


class Harness:
    """The child's end of the conversation."""

    def __init__(self, commands: int, results: int, cuda: bool) -> None:
        self._commands, self._results = _private(commands), _private(results)
        self._barrier = Barrier(cuda)
        self._case: cases.Case | None = None
        self._inputs: list[cases.Arguments] = []
        self._output: Any = None
        self._before: list[list[str]] = []
        self._last = 0
        self._failed: str | None = None
        self._answers: dict[str, Callable[[Header], tuple[Header, bytes]]] = {
            "hello": self._hello,
            "list": self._list,
            "prepare": self._prepare,
            "run": self._run,
            "collect": self._collect,
            "digest": self._digest,
            "touch": self._touch,
            "trace": self._trace,
            "model": self._model,
        }

    def serve(self) -> None:
        """Answers commands until the parent closes the pipe or says `close`."""
        while True:
            try:
                command, _ = frames.read(self._commands)
            except EOFError:
                return
            if command["op"] == "close":
                self._answer(command, {"failed": self._failed, **_memory()})
                return
            if command["op"] == "open" and command["kind"] == "pytest-benchmark":
                self._captured(command)
                continue
            self._step(command)

    def _step(self, command: Header) -> None:
        payload = b""
        try:
            handler = self._open if command["op"] == "open" else self._answers[command["op"]]
            header, payload = handler(command)
        except BaseException as problem:  # whatever the code under test raises is its answer
            if isinstance(problem, KeyboardInterrupt):
                raise
            header = {"error": _sentence(problem)}
        self._answer(command, header, payload)

    def _answer(self, command: Header, header: Header, payload: bytes = b"") -> None:
        frames.write(self._results, frames.pack({**header, "token": command["token"]}, payload))

    def _hello(self, _: Header) -> tuple[Header, bytes]:
        from importlib import metadata

        found: list[list[str]] = []
        for name in KNOWN:
            with contextlib.suppress(metadata.PackageNotFoundError):
                found.append([name, metadata.version(name)])
        header: Header = {"python": platform.python_version(), "system": platform.platform()}
        header.update(packages=found, by_driver=self._barrier.by_driver)
        return header, b""

    def _list(self, command: Header) -> tuple[Header, bytes]:
        if command["kind"] == "pytest-benchmark":
            names = captured.names(command["file"], command["root"])
            return {"cases": [{"name": name} for name in names]}, b""
        found = _cases(command)
        if len(found) > cases.MOST:
            raise ValueError(f"{len(found)} cases are more than the {cases.MOST} that fit in a run")
        return {"cases": [case.described() for case in found]}, b""

    def _open(self, command: Header) -> tuple[Header, bytes]:
        for index, case in enumerate(_cases(command)):
            if index == command["index"]:
                self._case = case
                return case.described(), b""
        raise LookupError(f"{command['file']} has no benchmark number {command['index']}")

    def _captured(self, command: Header) -> None:
        """Answers from inside the test until the parent says that it has finished with it."""

        def serve(case: cases.Case) -> Any:
            self._case = case
            self._answer(command, case.described())
            while True:
                asked, _ = frames.read(self._commands)
                if asked["op"] == "leave":
                    self._leaving = asked
                    args, kwargs = case.make(0)  # the test goes on with an output of its own
                    return case.call(*args, **kwargs)
                self._step(asked)

        self._leaving: Header | None = None
        problem = captured.run(command["name"], command["root"], serve)
        if self._leaving is not None:
            self._answer(self._leaving, {"failed": problem})
        else:
            self._answer(command, {"error": problem or "the test never called its benchmark"})

    def _prepare(self, command: Header) -> tuple[Header, bytes]:
        case = self._opened()
        self._inputs, self._output = [], None
        self._inputs = [case.make(seed) for seed in command["seeds"]]
        self._barrier.wait()
        gc.collect()
        gc.disable()
        return {}, b""

    def _run(self, command: Header) -> tuple[Header, bytes]:
        inputs, count, call, output = self._inputs, len(self._inputs), self._opened().call, None
        calls = command["calls"]
        for index in range(calls):
            args, kwargs = inputs[index % count]
            output = call(*args, **kwargs)
        self._barrier.wait(output)
        self._output, self._last = output, (calls - 1) % count
        return {}, b""

    def _collect(self, command: Header) -> tuple[Header, bytes]:
        """The last output, and with it the arguments that the call has changed."""
        gc.enable()
        case = self._opened()
        args, kwargs = self._inputs[self._last]
        header: Header = {"threads": threading.active_count(), "changed": []}
        if case.facts.check is not None:
            header["checked"] = case.facts.check(self._output, *args, **kwargs) is not False
        value: Any = self._output
        if command["inputs"]:
            named, before = _named(case, args, kwargs), dict(self._before)
            changed = {n: v for n, v in named.items() if encode.digest(v) != before.get(n)}
            header["changed"] = sorted(changed)
            value = [value, changed] if changed else value
        header["output"], payload = encode.encode(value)
        return header, payload

    def _digest(self, _: Header) -> tuple[Header, bytes]:
        named = _named(self._opened(), *self._inputs[0])
        self._before = [[name, encode.digest(value)] for name, value in named.items()]
        return {"inputs": self._before}, b""

    def _touch(self, _: Header) -> tuple[Header, bytes]:
        """Which functions one call executes, as file and first line."""
        touched: set[tuple[str, int]] = set()

        def note(frame: Any, event: str, _: Any) -> None:
            if event == "call" and len(touched) < 20_000:
                touched.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

        args, kwargs = self._inputs[0]
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            self._opened().call(*args, **kwargs)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # pyright: ignore[reportArgumentType]
        root = os.getcwd() + os.sep
        functions: dict[str, list[int]] = {}
        for file, line in touched:
            if file.startswith(root):
                functions.setdefault(file[len(root) :], []).append(line)
        return {"functions": functions}, b""

    def _trace(self, command: Header) -> tuple[Header, bytes]:
        case, inputs = self._opened(), self._inputs

        def once(index: int) -> None:
            args, kwargs = inputs[index % len(inputs)]
            self._barrier.wait(case.call(*args, **kwargs))

        lines_of = os.getcwd() if command["lines"] else ""
        return {}, traced.kineto(once, command["warm_up"], command["calls"], lines_of)

    def _model(self, command: Header) -> tuple[Header, bytes]:
        """Runs one program on the stream model; everything that happened on it as JSON."""
        from gpu_runner.model import REGION, ModelGpu

        programs = cases.programs(cases.load(command["file"]))
        case = next(itertools.islice(programs, command["index"], None))
        gpu = ModelGpu()
        with gpu.region(REGION):
            case.call(gpu, **case.parameters)
        return case.described(), json.dumps(dataclasses.asdict(gpu.finish())).encode()

    def _opened(self) -> cases.Case:
        if self._case is None:
            raise LookupError("no benchmark is open")
        return self._case


def _cases(command: Header) -> list[cases.Case]:
    module = cases.load(command["file"])
    readers = {"asv": cases.asv_cases, "model": cases.programs}
    found = readers.get(command["kind"], cases.own_cases)(module)
    return list(itertools.islice(found, 10 * cases.MOST))


def _named(case: cases.Case, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments under the names of the function's parameters."""
    try:
        names = list(inspect.signature(case.call).parameters)
    except (TypeError, ValueError):
        names = []
    names += [f"argument {index + 1}" for index in range(len(names), len(args))]
    return {**dict(zip(names, args)), **kwargs}  # noqa: B905  (Python 3.9 has no strict)


def _memory() -> Header:
    """Peak memory as the framework tells it, else the process's own."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return {"peak": torch.cuda.max_memory_allocated(), "source": "torch"}
    import resource

    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "source": "host"}


def _sentence(problem: BaseException) -> str:
    """The exception in one line, with the last place in it that is not ours."""
    steps = traceback.extract_tb(problem.__traceback__)
    outside = [step for step in steps if os.sep + "gpu_runner" + os.sep not in step.filename]
    place = f" ({os.path.basename(outside[-1].filename)}:{outside[-1].lineno})" if outside else ""
    return f"{type(problem).__name__}: {problem}"[:1000] + place


def _private(fd: int) -> int:
    """The pipe's end out of the way of the code's own files; 0 and 1 go to null and stderr."""
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    if fd == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    elif fd == 1:
        os.dup2(2, 1)
    else:
        os.close(fd)
    return moved


def main(commands: int, results: int, directory: str, paths: list[str], cuda: bool) -> None:
    """Serves with these import paths in front, from inside the project's folder."""
    harness = Harness(commands, results, cuda)
    sys.argv = ["hostside-benchmark"]
    os.chdir(directory)
    sys.path[:] = [*paths, *(path for path in sys.path if path not in ("", *paths))]
    harness.serve()
