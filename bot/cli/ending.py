"""A run that is told to stop ends as it would by itself: nothing of it stays behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def by_signal() -> Generator[None]:
    """While this lasts, SIGTERM and SIGHUP unwind the program like Ctrl-C does.

    A signal that is ignored, as `nohup` ignores SIGHUP, stays ignored.
    """
    before = {each: signal.getsignal(each) for each in STOPPING}
    wanted = [each for each, handler in before.items() if handler is signal.SIG_DFL]
    for each in wanted:
        signal.signal(each, _leave)
    try:
        yield
    finally:
        for each in wanted:
            signal.signal(each, signal.SIG_DFL)


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
