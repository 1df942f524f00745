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


def make_repository(directory: Path) -> Repository:
    """An empty repository whose branch is `main`."""
    directory.mkdir(parents=True, exist_ok=True)
    repository = Repository(directory)
    repository.git("init", "--quiet", "--initial-branch=main")
    return repository
