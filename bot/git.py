"""A git checkout, read without running anything that the repository configures."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.config import Reader
from bot.errors import ConfigError, UsageError
from bot.examine import LARGEST

# Nothing of these may come from the repository's or the user's settings: they run programs,
# or give the diff another shape.
_SETTINGS = (
    "core.quotePath=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.relative=false",
    "diff.orderFile=/dev/null",
    "diff.interHunkContext=0",
    "diff.algorithm=myers",
    "diff.suppressBlankEmpty=false",
    "diff.submodule=short",
    "color.ui=false",
)
_CPU_SECONDS = 120
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
_UNWANTED = ("GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_PAGER", "GIT_TRACE")


@dataclass(frozen=True)
class Checkout:
    """A git repository on this machine; `bare` when it has no working tree."""

    root: Path
    bare: bool = False
    environment: tuple[tuple[str, str], ...] = ()  # what git is told besides
    most_memory: int = 0  # bytes that git may take, and a time to go with it; 0: no limit

    def run(self, *arguments: str, data: bytes | None = None) -> bytes:
        """Git's output; raises UsageError with git's last line when it fails."""
        done = self.attempt(*arguments, data=data)
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise UsageError(f"git {_command(arguments)} failed in {self.root}: {lines[-1]}")
        return done.stdout

    def attempt(
        self, *arguments: str, data: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Git's answer, whatever it is."""
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        command = ["git", "--no-pager", "-C", str(self.root), *settings, *arguments]
        limiter = shutil.which("prlimit") if self.most_memory else None
        if limiter:  # a stranger's few kilobytes can stand for a thousand million files
            caps = (f"--data={self.most_memory}", f"--cpu={_CPU_SECONDS}", "--core=0")
            command = [limiter, *caps, "--", *command]
        environment = self._environment()
        try:
            return subprocess.run(
                command, capture_output=True, check=False, env=environment, input=data or b""
            )
        except FileNotFoundError as problem:
            raise UsageError(
                "git is not installed, and a review needs it; install git or use `hostside check`"
            ) from problem

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
        if Path.cwd() != self.root:  # what a hook sets is meant for the repository it runs in
            kept = {name: value for name, value in kept.items() if name not in _OF_A_HOOK}
        fixed = {
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }
        return kept | fixed | dict(self.environment)

    def commit(self, revision: str) -> str:
        """The commit's name; a revision nobody knows is a usage error."""
        spec = f"{revision}^{{commit}}"
        done = self.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", spec)
        if done.returncode == 0:
            return done.stdout.decode().strip()
        if self.shallow():
            raise UsageError(
                f"this checkout is shallow and does not hold the revision {revision!r}; fetch it "
                f"with `git fetch --unshallow origin` (fetch-depth: 0 in actions/checkout)"
            )
        if revision == "HEAD":
            raise UsageError(f"{self.root} has no commit yet; use `hostside check` instead")
        raise UsageError(
            f"there is no revision {revision!r} in {self.root}; `git branch -a` lists branches"
        )

    def empty(self) -> bool:
        """Whether nothing was committed yet to the branch that is checked out."""
        return self.attempt("rev-parse", "--verify", "--quiet", "HEAD").returncode != 0

    def no_files(self) -> str:
        """The name of the tree that holds nothing: what a first commit is compared with."""
        return self.run("hash-object", "-t", "tree", "--stdin").decode().strip()

    def shallow(self) -> bool:
        """Whether the history was cut when it was cloned."""
        return self.run("rev-parse", "--is-shallow-repository").strip() == b"true"

    def merge_base(self, base: str, head: str) -> str:
        """The commit where head left base: what a pull request is compared with."""
        done = self.attempt("merge-base", base, head)
        if done.returncode == 0:
            return done.stdout.decode().split()[0]
        if self.shallow():
            raise UsageError(
                f"this checkout is shallow and does not reach the commit where {head[:12]} left "
                f"{base[:12]}; fetch it with `git fetch --unshallow origin` "
                "(fetch-depth: 0 in actions/checkout)"
            )
        raise UsageError(
            f"{base[:12]} and {head[:12]} have no common ancestor; name a base that head grew from"
        )

    def reader(self, commit: str) -> Reader:
        """Reads configuration files of that commit."""

        def at(path: str) -> str | None:
            (data,) = self.blobs([f"{commit}:{path}"])
            try:
                return data.decode("utf-8") if isinstance(data, bytes) else None
            except UnicodeDecodeError as problem:
                raise ConfigError(f"{path} at {commit[:12]} is not UTF-8 text") from problem

        return at

    def blobs(self, names: Sequence[str]) -> list[bytes | str]:
        """The texts of these objects, or why one cannot be had."""
        if not names:
            return []
        request = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        sizes = self.run("cat-file", "--batch-check", data=request).split(b"\n")
        reasons = [_unreadable(line) for line in sizes[: len(names)]]
        wanted = [name for name, reason in zip(names, reasons, strict=True) if not reason]
        texts = iter(self._contents(wanted))
        return [reason or next(texts) for reason in reasons]

    def _contents(self, names: Sequence[str]) -> Iterator[bytes]:
        if not names:
            return
        request = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        answer = self.run("cat-file", "--batch", data=request)
        place = 0
        for _ in names:
            end = answer.index(b"\n", place)
            size = int(answer[place:end].rsplit(b" ", 1)[1])
            yield answer[end + 1 : end + 1 + size]
            place = end + size + 2


def _command(arguments: tuple[str, ...]) -> str:
    words = [word for word in arguments if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _unreadable(line: bytes) -> str:
    parts = line.split()
    if len(parts) != 3 or parts[1] != b"blob":
        return "Its text is not in this clone."
    size = int(parts[2])
    return f"The file is {size:,} bytes long; at most {LARGEST:,} are read." * (size > LARGEST)


def open_checkout(directory: str) -> Checkout:
    """The repository that holds this directory."""
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory; name one inside a git repository")
    here = Checkout(Path(directory).resolve())
    done = here.attempt("rev-parse", "--show-toplevel")
    if done.returncode == 0:
        name = done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")
        return Checkout(Path(name))
    message = done.stderr.decode("utf-8", "replace")
    if "dubious ownership" in message:
        raise UsageError(
            f"git refuses {here.root}, which belongs to another user; allow it with "
            f"`git config --global --add safe.directory {here.root}`"
        )
    if here.attempt("rev-parse", "--git-dir").returncode == 0:
        return Checkout(here.root, bare=True)
    raise UsageError(
        f"{here.root} is not in a git repository; run inside one, or use `hostside check PATH`"
    )
