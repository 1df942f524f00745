"""What surrounds an evaluation for the time of a with-block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analyzers.dryrun.run import Run


class Inside:
    """What surrounded an evaluation; it is put back when the with-block ends."""

    __slots__ = ("_around", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._around = (run.loops, run.guards, run.contexts, run.streams, run.guarded_device)

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        run = self._run
        run.loops, run.guards, run.contexts, run.streams, run.guarded_device = self._around


class Silence:
    """Nothing is recorded until the with-block ends."""

    __slots__ = ("_recording", "_run")

    def __init__(self, run: Run) -> None:
        self._run, self._recording = run, run.recording

    def __enter__(self) -> None:
        self._run.recording = False

    def __exit__(self, *_: object) -> None:
        self._run.recording = self._recording
