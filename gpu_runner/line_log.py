"""Notes which line of the project's code runs when, in the calling thread; inside the sandbox.

Slow, so it has a pass of its own from which no other number is taken. The notes go into the
profiler's file as events, their times counted from the beginning of the measured region.
Standard library only, and no syntax newer than Python 3.9.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

CATEGORY = "hostside_line"
MOST = 50_000  # notes; what runs after that is not noted
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')


class LineLog:
    """Lines of the files below `root`, from entering the block to leaving it."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip(os.sep) + os.sep
        self._names: dict[CodeType, str | None] = {}
        self._notes: list[tuple[int, str, int]] = []
        self._thread = 0

    def __enter__(self) -> LineLog:
        self._thread = threading.get_native_id()
        self._note("", 0)
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._notes.append((time.perf_counter_ns(), "", 0))

    def _name(self, code: CodeType) -> str | None:
        if code not in self._names:
            file = code.co_filename
            ours = file.startswith(self._root)
            name = file[len(self._root) :].replace(os.sep, "/") if ours else None
            self._names[code] = name
        return self._names[code]

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._stepped if self._name(frame.f_code) is not None else None

    def _stepped(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._note(self._name(frame.f_code) or "", frame.f_lineno)
        elif event == "return":
            # The rest of the calling line is the caller's time again.
            caller = frame.f_back
            while caller is not None and self._name(caller.f_code) is None:
                caller = caller.f_back
            if caller is None:
                self._note("", 0)
            else:
                self._note(self._name(caller.f_code) or "", caller.f_lineno)
        return self._stepped

    def _note(self, path: str, line: int) -> None:
        if len(self._notes) < MOST:
            self._notes.append((time.perf_counter_ns(), path, line))

    def events(self) -> bytes:
        """The notes as events of the chrome format, each up to the next one."""
        if not self._notes:
            return b""
        start = self._notes[0][0]
        place = {"ph": "X", "cat": CATEGORY, "pid": os.getpid(), "tid": self._thread}
        made = [
            {**place, "name": f"{path}:{line}", "ts": (at - start) / 1000, "dur": (end - at) / 1000}
            for (at, path, line), (end, _, _) in zip(self._notes, self._notes[1:])  # noqa: B905
            if line
        ]
        return ",".join(json.dumps(each) for each in made).encode()


def with_lines(trace: bytes, log: LineLog) -> bytes:
    """The profiler's file with the notes among its events."""
    found, events = _EVENTS.search(trace), log.events()
    if found is None or not events:
        return trace
    return trace[: found.end()] + events + b"," + trace[found.end() :]
