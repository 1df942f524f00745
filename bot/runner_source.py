"""Opens a source that came over the network: a bare repository with exactly the ordered commits.

What comes is one git pack. Git computes each object's name from its content, so that the commits
in it are those that were ordered, or they are not found. Nothing of it is run or configures
anything.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator, Iterable
from pathlib import Path

from bot.errors import BotError
from gpu_runner.plain import one_line

LARGEST = 4 << 30  # bytes of a pack
MOST_FILES = 300_000  # of one commit, folders included
MOST_BYTES = 16 << 30  # of them together, laid out
SECONDS = 600.0
_SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "pack.threads=1")
_NO_ROOM = ("no space left", "disk quota", "file too large")


class OpenError(BotError):
    """The source cannot be opened here."""


def git_environment() -> dict[str, str]:
    """An environment in which git follows nobody's settings but ours."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }


def unpack(chunks: Iterable[bytes], folder: Path, commits: Iterable[str]) -> Path:
    """The repository; an OpenError says why this is not the source of these commits."""
    wanted = tuple(dict.fromkeys(commits))
    _git(folder.parent, "init", "--quiet", "--bare", "--template=", str(folder))
    # Their parents were not sent, and git must not look for them.
    (folder / "shallow").write_text("".join(f"{commit}\n" for commit in wanted))
    _index(chunks, folder)
    for commit in wanted:
        if _git(folder, "cat-file", "-t", commit, quiet=True).strip() != "commit":
            raise OpenError(f"the source that came does not hold the commit {commit[:12]}")
    _git(folder, "rev-list", "--objects", "--quiet", *wanted)
    for commit in wanted:
        _weigh(folder, commit)
    return folder


def _weigh(folder: Path, commit: str) -> None:
    """Refuse what would fill the machine once it is laid out.

    A few kilobytes of a pack can stand for a thousand million files: folders that hold the same
    folder ten times, ten deep. So git is listened to for no longer than needed.
    """
    size = 0
    with contextlib.closing(_entries(folder, commit)) as entries:
        for number, entry in enumerate(entries, 1):
            facts = entry.partition(b"\t")[0].split()
            size += int(facts[3]) if len(facts) == 4 and facts[3].isdigit() else 0
            if number > MOST_FILES or size > MOST_BYTES:
                raise OpenError(
                    f"the files of {commit[:12]} are more than {MOST_FILES:,} or than "
                    f"{MOST_BYTES >> 30} GiB, which is more than a machine lays out; take them "
                    "out of the repository and ask again"
                )


def _entries(folder: Path, commit: str) -> Generator[bytes]:
    """Every file and folder of a commit as `git ls-tree` tells of it, as it comes."""
    process = _started(
        _line(folder, "ls-tree", "-r", "-t", "-l", "-z", commit),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        rest = b""
        try:
            while chunk := process.stdout.read(1 << 16):
                *whole, rest = (rest + chunk).split(b"\0")
                yield from whole
            if process.wait(timeout=SECONDS):
                raise _why(process.stderr.read(1 << 16))
        finally:
            process.kill()
            process.wait()


def _index(chunks: Iterable[bytes], folder: Path) -> None:
    """Let git check and keep the pack as it comes."""
    line = _line(folder, "index-pack", "--stdin", "--strict", f"--max-input-size={LARGEST}")
    process = _started(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        with contextlib.suppress(BrokenPipeError):  # git refused it before the end
            for chunk in chunks:
                process.stdin.write(chunk)
            process.stdin.close()
        said = process.stderr.read(1 << 16)
        code = process.wait(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stderr.close()
    if code:
        raise _why(said)


def _started(line: list[str], stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            line, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=git_environment()
        )
    except FileNotFoundError:
        raise OpenError("git is not installed on this machine; install it and ask again") from None


def _why(said: bytes) -> OpenError:
    text = one_line(said, 300)
    if any(words in text.lower() for words in _NO_ROOM):
        return OpenError(
            "this machine has no room for the source; make some in its temporary folder "
            "and ask again"
        )
    return OpenError(f"the source that came is no sound git pack ({text or 'git says no more'})")


def _line(folder: Path, *words: str) -> list[str]:
    return ["git", *_SAFE, "-C", str(folder), *words]


def _git(folder: Path, *words: str, quiet: bool = False) -> str:
    try:
        done = subprocess.run(
            _line(folder, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env=git_environment(),
        )
    except FileNotFoundError:
        raise OpenError("git is not installed on this machine; install it and ask again") from None
    except subprocess.TimeoutExpired:
        raise OpenError(f"git {words[0]} did not end within {SECONDS:g} s") from None
    if done.returncode and not quiet:
        raise _why(done.stderr)
    return done.stdout.decode("utf-8", "replace")
