"""One sandboxed process: asks it things, keeps the clock, and ends it whole.

The clock is read on this side of the pipe, so nothing the code does to its own timers matters.
Output is kept up to a cap and thrown away beyond it; a flood of it ends the process.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from gpu_runner import cgroup, frames
from gpu_runner.errors import RunnerError
from gpu_runner.plain import one_line, plain
from gpu_runner.sandbox import Box, Isolation, container_engine

COMMANDS, RESULTS = "{commands}", "{results}"  # words of a command replaced by the pipes' numbers
FLOOD = 64 << 20  # bytes of output after which a process is ended
CHUNK = 1 << 16
MARKER = "HOSTSIDE_SESSION"
ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift; exec "$@"'


class SessionError(RunnerError):
    """The sandboxed process is gone or was ended; the sentence says why."""


@dataclass(frozen=True)
class Reply:
    """What came back, and how long the parent waited for it."""

    header: frames.Header
    payload: bytes
    waited_ns: int


@dataclass(frozen=True)
class Ending:
    """How a process ended: its exit code, why we ended it if we did, and what it printed."""

    code: int
    reason: str | None
    output: str


class Session:
    """A running box. Leaving it as a context manager ends the whole process tree."""

    def __init__(self, box: Box, inner: Sequence[str]) -> None:
        name = f"hostside-{secrets.token_hex(8)}"
        marked = (*box.environment, (MARKER, name))
        self.box = replace(box, name=name, environment=marked)
        self._group = cgroup.create(name, box.limits.memory_bytes, box.limits.processes)
        self._deadline = time.monotonic() + box.limits.process_seconds
        self._printed = bytearray()
        self._wrote = 0
        self._results = bytearray()
        self._arrived = 0
        self._reason: str | None = None
        self._over = False
        try:
            self._start(inner)
        except BaseException:
            if self._group is not None:
                self._group.remove()
            raise

    @property
    def output(self) -> str:
        """What the code has printed so far, safe to show."""
        return plain(bytes(self._printed), self.box.limits.output_bytes)

    @property
    def capped(self) -> bool:
        """True when a control group holds the process tree."""
        return self._group is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, header: frames.Header, payload: bytes = b"") -> Reply:
        """The harness's answer to one command; `SessionError` if there is none worth having."""
        token = secrets.token_hex(8)
        data = frames.pack({**header, "token": token}, payload)
        self._pump(0)
        if self._results:
            raise self._ended("it wrote to the result pipe on its own")
        started = time.perf_counter_ns()
        try:
            frames.write(self._to_child, data)
        except BrokenPipeError:
            raise self._ended(None) from None
        answer, body, arrived = self._frame()
        if answer.pop("token", None) != token or self._results:
            raise self._ended("it wrote to the result pipe on its own")
        return Reply(answer, body, arrived - started)

    def processor_wait_ns(self) -> int:
        """How long the tree and this thread have so far waited while others held the processor."""
        own = Path(f"/proc/self/task/{threading.get_native_id()}")
        return sum(map(_run_delay, (own, *self._tasks())))

    def _tasks(self) -> Iterator[Path]:
        if self._group is not None:
            for pid in self._group.members():
                yield from Path(f"/proc/{pid}/task").glob("[0-9]*")

    def wait(self) -> Ending:
        """Waits for the command to end by itself or at a limit; its whole tree is gone after."""
        while not self._gone() and self._reason is None:
            self._pump(None)
        self._last_words()
        self.end()
        return Ending(self._process.returncode, self._why(), self.output)

    def end(self) -> None:
        """Kills the process and everything it started; safe to call twice."""
        if self._over:
            return
        self._over = True
        engine = container_engine()
        if self.box.isolation is Isolation.CONTAINER and engine:
            subprocess.run([engine, "rm", "-f", self.box.name], capture_output=True, check=False)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self.box.isolation is Isolation.NONE:
            _kill_marked(self.box.name)
        if self._group is not None:
            if self._group.ran_out_of_memory() and self._reason is None:
                self._reason = f"it used more than {_size(self.box.limits.memory_bytes)} of memory"
            self._group.remove()
        self._close()

    def _start(self, inner: Sequence[str]) -> None:
        piped = self.box.isolation is Isolation.CONTAINER  # engines pass on no other descriptors
        inward, self._to_child = os.pipe()
        self._from_child, outward = os.pipe()
        numbers = {COMMANDS: str(0 if piped else inward), RESULTS: str(1 if piped else outward)}
        words = [numbers.get(word, word) for word in inner]
        entrances = self._group.entrances if self._group else ()
        enter = ["/bin/sh", "-c", ENTER, "sh", *map(str, entrances), "--"]
        try:
            self._process = subprocess.Popen(
                [*enter, *self.box.command(words, capped=self._group is not None)],
                stdin=inward if piped else subprocess.DEVNULL,
                stdout=outward if piped else subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=() if piped else (inward, outward),
                start_new_session=True,
                cwd="/",
                env=dict(os.environ) if piped else {"PATH": "/usr/bin:/bin"},
            )
        except BaseException:
            os.close(self._to_child)
            os.close(self._from_child)
            raise
        finally:
            os.close(inward)
            os.close(outward)
        self._watch()

    def _watch(self) -> None:
        self._exit = os.pidfd_open(self._process.pid)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._from_child, selectors.EVENT_READ, "results")
        self._selector.register(self._exit, selectors.EVENT_READ, "exit")
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream.fileno(), selectors.EVENT_READ, "output")

    def _pump(self, patience: float | None) -> None:
        """Takes in whatever is ready; ends the process when a limit is passed."""
        left = self._deadline - time.monotonic()
        ready = self._selector.select(max(0.0, left if patience is None else min(patience, left)))
        now = time.perf_counter_ns()
        for key, _ in ready:
            if key.data == "output":
                self._take_output(key.fd)
            elif key.data == "results":
                part = os.read(key.fd, 1 << 20)
                if not self._results:
                    self._arrived = now
                self._results += part
                if not part:
                    self._selector.unregister(key.fd)
        if time.monotonic() > self._deadline:
            self._reason = f"it took longer than {self.box.limits.process_seconds:g} s"
        elif self._wrote > FLOOD:
            self._reason = f"it printed more than {_size(FLOOD)}"

    def _take_output(self, fd: int) -> None:
        part = b""
        with contextlib.suppress(BlockingIOError):
            part = os.read(fd, CHUNK)
            if not part:
                self._selector.unregister(fd)
        self._wrote += len(part)
        self._printed += part[: max(0, self.box.limits.output_bytes - len(self._printed))]

    def _frame(self) -> tuple[frames.Header, bytes, int]:
        """One frame from the child, with the moment its first byte came."""
        try:
            header, payload = frames.sizes(self._exactly(frames.SIZES.size))
            arrived = self._arrived
            return frames.parse(self._exactly(header)), self._exactly(payload), arrived
        except frames.FrameError as problem:
            raise self._ended(str(problem)) from None

    def _exactly(self, count: int) -> bytes:
        while len(self._results) < count:
            gone = self._gone()
            before = len(self._results)
            self._pump(0 if gone else None)
            if self._reason or (gone and len(self._results) == before):
                raise self._ended(self._reason)
        part = bytes(self._results[:count])
        del self._results[:count]
        return part

    def _gone(self) -> bool:
        return self._process.poll() is not None

    def _last_words(self) -> None:
        """What is still in the pipes of a process that is gone."""
        for _ in range(FLOOD // CHUNK):
            before = self._wrote
            self._pump(0)
            if self._wrote == before or self._reason:
                return

    def _ended(self, reason: str | None) -> SessionError:
        if self._reason is None:
            self._reason = reason
        if self._reason is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
            self._last_words()
        self.end()
        said = one_line(self.output[-400:])
        return SessionError(
            f"the benchmark process was ended: {self._why() or 'it went away'}"
            + (f"; its last words: {said}" if said else "")
        )

    def _why(self) -> str | None:
        if self._reason is None and self._process.returncode in (-signal.SIGXCPU, 152):
            return f"it used more than {self.box.limits.cpu_seconds} s of processor time"
        if self._reason is None and self._process.returncode != 0:
            return f"it stopped with exit code {self._process.returncode}" if self._over else None
        return self._reason

    def _close(self) -> None:
        self._selector.close()
        for fd in (self._to_child, self._from_child, self._exit):
            os.close(fd)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _run_delay(task: Path) -> int:
    """Nanoseconds on the run queue; 0 where the kernel does not count or the task is gone."""
    try:
        return int((task / "schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _kill_marked(name: str) -> None:
    """Without a box, a daemon escapes its group; its environment still bears the session's mark."""
    mark = f"{MARKER}={name}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"
