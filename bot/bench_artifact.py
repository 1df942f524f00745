"""What a workflow run left behind, read as a stranger's: a zip file that is never unpacked to disk.

It may be a bomb, hold names that lead elsewhere, or anything but what was asked for; each ends in
one sentence.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.bench_files import GZIP, check_name
from bot.bench_result import (
    LARGEST_FILE,
    LARGEST_RESULT,
    MOST_FILE_BYTES,
    MOST_FILES,
    ResultError,
    checked,
)
from bot.github_actions import TooLargeError, Workflows
from bot.github_errors import GoneError
from gpu_runner.models import BenchReport, BenchRequest

NAME = "hostside-bench"  # of the artifact
REPORT = "report.json"
PROBLEM = "problem.json"  # instead of a report: {"problem": "one sentence"}
LARGEST_ZIP = 96 << 20
_LONGEST_PROBLEM = 2_000
_LARGEST_PROBLEM = 16 << 10  # bytes of JSON
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Left:
    """A run's answer: a report that nobody has looked into yet, or why there is none."""

    report: bytes = b""
    problem: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


def left_by(workflows: Workflows, repo: str, run: int) -> Left | None:
    """A run's answer, None when it left none; a ResultError says what is wrong with it."""
    artifact = workflows.artifact(repo, run, NAME)
    if artifact is None:
        return None
    most = LARGEST_ZIP
    try:
        if artifact.expired:
            raise GoneError("it has expired")
        if artifact.size_in_bytes > most:
            raise TooLargeError(f"it has more than {most >> 20} MiB")
        return unpacked(workflows.download(repo, artifact, most))
    except TooLargeError as problem:
        raise ResultError(f"{problem}; name fewer benchmarks") from None
    except GoneError:
        raise ResultError("it has expired or was deleted; ask again") from None


def report_of(asked: BenchRequest, left: Left) -> BenchReport:
    """The report that a run left, checked; a ResultError says why it is not taken."""
    try:
        return checked(asked, left.report)
    except (ArithmeticError, ValueError, LookupError):
        raise ResultError("its samples are no measurements") from None


def unpacked(content: bytes) -> Left:
    """The files of the zip; a ResultError says what is wrong with it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive)
    except (
        zipfile.BadZipFile,  # damaged, or a wrong checksum
        zlib.error,
        EOFError,
        NotImplementedError,  # a compression that this Python lacks
        RuntimeError,  # encrypted
        OSError,
        ValueError,
        OverflowError,
    ):
        raise ResultError("its artifact is no zip file that can be read") from None


def _read(archive: zipfile.ZipFile) -> Left:
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > MOST_FILES + 2:
        raise ResultError(f"its artifact holds more than {MOST_FILES} files")
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        raise ResultError("its artifact holds two files of one name")
    for name in names:
        if name not in (REPORT, PROBLEM):
            check_name(name)
    if sum(entry.file_size for entry in entries) > LARGEST_RESULT + MOST_FILE_BYTES:
        raise _too_large()
    found: dict[str, bytes] = {}
    room = MOST_FILE_BYTES
    for entry in entries:
        limit = {REPORT: LARGEST_RESULT, PROBLEM: _LARGEST_PROBLEM}.get(
            entry.filename, min(room, LARGEST_FILE)
        )
        found[entry.filename] = _content(archive, entry, limit)
        room -= len(found[entry.filename])
    return _sorted_out(found)


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    """The entry, however large its header says it is."""
    parts = bytearray()
    with archive.open(entry) as file:
        while part := file.read(_CHUNK):
            parts += part
            if len(parts) > limit:
                raise _too_large()
    return bytes(parts)


def _sorted_out(found: dict[str, bytes]) -> Left:
    report, problem = found.pop(REPORT, b""), found.pop(PROBLEM, b"")
    if any(not content.startswith(GZIP) for content in found.values()):
        raise ResultError("its artifact holds a trace that is no gzip file")
    if problem:
        return Left(problem=_sentence(problem))
    if not report:
        raise ResultError(f"its artifact holds no {REPORT}")
    return Left(report, files=found)


def _sentence(content: bytes) -> str:
    try:
        said = json.loads(content)["problem"]
        if not isinstance(said, str):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ResultError("its artifact says neither a result nor why there is none") from None
    plain = "".join(c if c.isprintable() else " " for c in said)
    return " ".join(plain.split())[:_LONGEST_PROBLEM].rstrip(".")


def _too_large() -> ResultError:
    return ResultError(
        f"its artifact is too large (more than {LARGEST_RESULT >> 20} MiB of results, or "
        f"{MOST_FILE_BYTES >> 20} MiB of traces); name fewer benchmarks: "
        "`/gpu-bench FILE::FUNCTION`"
    )
