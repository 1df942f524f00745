"""A git repository for tests, with what it takes to write its history."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Repository:
    """A repository in a temporary directory."""

    root: Path

    def git(self, *arguments: str) -> str:
        """Git's output."""
        environment = os.environ | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Test",
            "GIT_AUTHOR_EMAIL": "test@invalid",
            "GIT_COMMITTER_NAME": "Test",
            "GIT_COMMITTER_EMAIL": "test@invalid",
        }
        done = subprocess.run(
            ["git", "-C", str(self.root), "-c", "protocol.file.allow=always", *arguments],
            check=True,
            capture_output=True,
            env=environment,
        )
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, path: str, text: str | bytes) -> None:
        """Write a file of the working tree."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def commit(self, files: dict[str, str | bytes] | None = None, message: str = "change") -> str:
        """Write the files and commit everything; the commit's name."""
        for path, text in (files or {}).items():
            self.write(path, text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def commit_very_many(self) -> str:
        """A commit on HEAD of a few kilobytes, which stands for a thousand million files."""
        (blob,) = self._stored(["hash-object", "-w", "--stdin"], "x = 1\n")
        entry = f"100644 blob {blob}"
        for _ in range(9):
            lines = "".join(f"{entry}\tf{number}.py\n" for number in range(10))
            (tree,) = self._stored(["mktree"], lines)
            entry = f"040000 tree {tree}"
        return self.git("commit-tree", "-p", "HEAD", "-m", "many", entry.split()[2])

    def _stored(self, words: list[str], data: str) -> list[str]:
        line = ["git", "-C", str(self.root), *words]
        done = subprocess.run(line, input=data, check=True, capture_output=True, text=True)
        return done.stdout.split()


def make_repository(directory: Path) -> Repository:
    """An empty repository whose branch is `main`."""
    directory.mkdir(parents=True, exist_ok=True)
    repository = Repository(directory)
    repository.git("init", "--quiet", "--initial-branch=main")
    return repository
