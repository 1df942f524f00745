"""Commits of a local checkout: resolved, compared, read, and laid out as worktrees.

File contents are read from git's objects, never through the file system, so a link in a hostile
commit cannot make us read anything else. Hooks and filters of the repository are switched off.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.errors import RunnerError
from gpu_runner.plain import one_line
from gpu_runner.scratch import scratch

SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "advice.detachedHead=false", "-c", "submodule.recurse=false"),
    *("-c", "core.quotePath=false"),
)
# Set by git for its hooks: they would turn us to another repository, or to its index.
OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
SECONDS = 300
PREFIX = "hostside-bench-"
LARGEST_FILE = 1 << 20
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class TreeError(RunnerError):
    """Git cannot give what was asked for; the sentence names it."""


class GitFailedError(TreeError):
    """Git ran and refused."""

    def __init__(self, command: str, folder: Path, said: str) -> None:
        super().__init__(f"git {command} fails in {folder}: {said}")
        self.said = said


@dataclass(frozen=True)
class Change:
    """Lines of one file that a diff touches: removed ones at the base, added ones at the head."""

    path: str
    removed: frozenset[int]
    added: frozenset[int]


@dataclass(frozen=True)
class Repository:
    """A local git checkout."""

    folder: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """The repository that this folder belongs to, from its top; or why there is none."""
        try:
            there = folder.is_dir()
        except OSError as problem:
            raise TreeError(f"{folder} cannot be read: {problem.strerror}") from None
        if not there:
            raise TreeError(f"{folder} is not a folder; name a git checkout with --repo")
        inside = cls(folder.resolve())
        try:
            facts = inside._git("rev-parse", "--absolute-git-dir", "--is-inside-work-tree").decode()
            kept, at_work = facts.split("\n")[:2]
            top = (
                inside._git("rev-parse", "--show-toplevel").decode() if at_work == "true" else kept
            )
        except GitFailedError as problem:
            if "not a git repository" not in problem.said:
                raise TreeError(f"git cannot read {inside.folder}: {problem.said}") from None
            raise TreeError(
                f"{inside.folder} is not in a git repository, and benchmarks compare commits; "
                "name a checkout with --repo"
            ) from None
        return cls(Path(top.removesuffix("\n")))

    def resolve(self, revision: str) -> str:
        """Full hash of the commit that the revision names."""
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        try:
            return self._git(*asked).decode().strip()
        except GitFailedError:
            if not self._git("rev-list", "--all", "--max-count=1"):
                raise TreeError(
                    f"{self.folder} has no commit yet; commit something first"
                ) from None
            raise TreeError(
                f"{revision!r} is not a commit of {self.folder}; name a branch, tag or hash"
            ) from None

    def merge_base(self, base: str, head: str) -> str:
        """The commit from which head was branched off base; base itself where there is none."""
        try:
            return self._git("merge-base", base, head).decode().strip()
        except GitFailedError:
            return base

    def files(self, commit: str) -> tuple[str, ...]:
        """Paths of the regular files of a commit; links, submodules and odd names are left out."""
        listing = self._git("ls-tree", "-r", "-z", commit).decode("utf-8", "surrogateescape")
        found: list[str] = []
        for entry in listing.split("\0"):
            facts, _, path = entry.partition("\t")
            if facts.startswith("100") and path.isprintable():
                found.append(path)
        return tuple(found)

    def read(self, commit: str, path: str) -> bytes | None:
        """Content of a regular file at that commit; None if there is none or it is too large."""
        listed = self._git("ls-tree", "-l", "-z", commit, "--", path).decode("utf-8", "replace")
        facts = listed.partition("\t")[0].split()
        if len(facts) != 4 or not facts[0].startswith("100") or int(facts[3]) > LARGEST_FILE:
            return None
        return self._git("cat-file", "blob", facts[2])

    def changes(self, base: str, head: str) -> tuple[Change, ...]:
        """What differs between two commits, without context lines."""
        plain = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "-U0")
        plain += ("--src-prefix=a/", "--dst-prefix=b/", "--no-relative")
        text = self._git("diff", *plain, base, head, "--", "*.py").decode("utf-8", "replace")
        return tuple(_changes(text))

    @contextlib.contextmanager
    def laid_out(self, commits: Sequence[tuple[str, str]]) -> Generator[dict[str, Path]]:
        """A worktree per (name, commit), all gone afterwards."""
        with scratch(PREFIX) as area:
            try:
                self._forget_killed_runs()
                for name, commit in commits:
                    self._git("worktree", "add", "--detach", "--force", str(area / name), commit)
                yield {name: area / name for name, _ in commits}
            finally:
                for name, _ in commits:
                    with contextlib.suppress(TreeError):
                        where = str(area / name)
                        self._git("worktree", "remove", "--force", "--force", where)

    def _forget_killed_runs(self) -> None:
        """Takes their worktrees off the list; others may be missing because a disk is away."""
        for line in (
            self._git("worktree", "list", "--porcelain").decode("utf-8", "replace").split("\n")
        ):
            path = Path(line.removeprefix("worktree "))
            if path.parent.name.startswith(PREFIX) and not path.exists():
                with contextlib.suppress(TreeError):
                    self._git("worktree", "remove", "--force", "--force", str(path))

    def apply(self, tree: Path, patch: str) -> None:
        """Applies a unified diff to a worktree; paths that leave it are refused by git."""
        if "\nBinary files " in patch or "GIT binary patch" in patch:
            raise TreeError("the patch holds binary files; only text can be suggested")
        try:
            Repository(tree)._git("apply", "--whitespace=nowarn", "-", text=patch)
        except GitFailedError as problem:
            raise TreeError(problem.said) from None

    def _git(self, *words: str, text: str | None = None) -> bytes:
        line = ["git", "-C", str(self.folder), *SAFE, *words]
        kept = {name: value for name, value in os.environ.items() if name not in OF_A_HOOK}
        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
        try:
            done = subprocess.run(
                line,
                input=None if text is None else text.encode(),
                stdin=subprocess.DEVNULL if text is None else None,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                env={**kept, **quiet},
            )
        except FileNotFoundError:
            raise TreeError("git is not installed; benchmarks compare commits of it") from None
        except subprocess.TimeoutExpired:
            raise TreeError(f"git {words[0]} did not end within {SECONDS} s") from None
        if done.returncode:
            said = one_line(done.stderr) or f"exit code {done.returncode}"
            raise GitFailedError(words[0], self.folder, said)
        return done.stdout


def _changes(text: str) -> Iterator[Change]:
    """The changed lines per file of a diff without context; deleted files under their old name."""
    old = path = ""
    removed: set[int] = set()
    added: set[int] = set()
    for line in text.split("\n"):  # not splitlines: a form feed in a line does not end it
        hunk = HUNK.match(line)
        if line.startswith("diff --git "):
            if path:
                yield Change(path, frozenset(removed), frozenset(added))
            path, removed, added = "", set[int](), set[int]()
        elif line.startswith("--- ") and not removed and not added:
            old = line.removeprefix("--- ").removeprefix("a/").rstrip("\t")
        elif line.startswith("+++ ") and not removed and not added:
            new = line.removeprefix("+++ ").removeprefix("b/").rstrip("\t")
            path = old if new == "/dev/null" else new
        elif hunk:
            first, count, start, length = hunk.groups(default="1")
            removed.update(range(int(first), int(first) + int(count)))
            added.update(range(int(start), int(start) + int(length)))
    if path:
        yield Change(path, frozenset(removed), frozenset(added))
