"""A file, whatever it is -> a `Trace`, or one sentence that says why not."""

from __future__ import annotations

from pathlib import Path

from gpu_runner.errors import FormatError, RunnerError
from gpu_runner.trace.events import Trace
from gpu_runner.trace.pause import collector_paused
from gpu_runner.trace.source import first_bytes

SQLITE = b"SQLite format 3\0"
OTHERS = (
    (b"PK\x03\x04", "it is a zip archive; unpack it and give the trace inside"),
    (b"\xfd7zXZ", "it is packed with xz; unpack it first (gzip is read as it is)"),
    (b"\x28\xb5\x2f\xfd", "it is packed with zstd; unpack it first (gzip is read as it is)"),
    (b"BZh", "it is packed with bzip2; unpack it first (gzip is read as it is)"),
    (b"\xff\xfe", "it is UTF-16 text; a trace is UTF-8"),
    (b"\xfe\xff", "it is UTF-16 text; a trace is UTF-8"),
)
RAW_NSYS = (".nsys-rep", ".qdrep")


def read_trace(path: Path, region: str | None = None) -> Trace:
    """The trace in a Kineto `.json`/`.json.gz` or Nsight Systems `.sqlite`, told by its content."""
    try:
        with collector_paused():
            return _read(path, region)
    except FormatError as problem:
        raise FormatError(f"{path} cannot be read: {problem}") from problem
    except OSError as problem:
        raise RunnerError(f"{path} cannot be opened: {problem.strerror or problem}") from problem


def _read(path: Path, region: str | None) -> Trace:
    if path.is_dir():
        raise FormatError("it is a directory; give one trace file")
    if path.exists() and not path.is_file():  # a pipe or device could make us wait for ever
        raise FormatError("it is not a regular file")
    if path.suffix in RAW_NSYS:
        raise FormatError("it is Nsight Systems' own format; `nsys export -t sqlite` converts it")
    start = first_bytes(path)
    if not start.strip():
        raise FormatError("it is empty" if not start else "it begins with nothing but blanks")
    for magic, sentence in OTHERS:
        if start.startswith(magic):
            raise FormatError(sentence)
    if start.startswith(SQLITE):
        from gpu_runner.trace.nsys import read_nsys

        return read_nsys(path, region)
    from gpu_runner.trace.kineto import read_kineto

    return read_kineto(path, region)
