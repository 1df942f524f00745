"""A bare git repository, written and read without a working tree."""

from __future__ import annotations

import itertools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TIMES = itertools.count(1_700_000_000)  # no two commits are the same


def _change(path: str, content: str | bytes | None) -> bytes:
    """One line of a commit for `git fast-import`; None deletes."""
    name = path.encode("utf-8", "surrogateescape").replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    name = name.replace(b"\n", b"\\n")
    if content is None:
        return b'D "%s"\n' % name
    data = content if isinstance(content, bytes) else content.encode()
    return b'M 100644 inline "%s"\ndata %d\n%s\n' % (name, len(data), data)


@dataclass(frozen=True)
class GitStore:
    """One repository and its forks: they share objects, as on GitHub."""

    root: Path

    def run(self, *arguments: str, data: bytes | None = None) -> bytes:
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Test",
            "GIT_AUTHOR_EMAIL": "test@invalid",
            "GIT_COMMITTER_NAME": "Test",
            "GIT_COMMITTER_EMAIL": "test@invalid",
        }
        done = subprocess.run(
            ["git", "-C", str(self.root), "-c", "core.quotePath=true", *arguments],
            input=data or b"",
            capture_output=True,
            check=False,
            env=environment,
        )
        if done.returncode:
            raise LookupError(done.stderr.decode(errors="replace").strip())
        return done.stdout

    def text(self, *arguments: str) -> str:
        return self.run(*arguments).decode("utf-8", "surrogateescape").strip()

    def init(self) -> None:
        self.root.mkdir(parents=True)
        self.run("init", "--quiet", "--bare", "--initial-branch=main")
        for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            self.run("config", name, "true")

    def commit(
        self,
        ref: str,
        files: dict[str, str | bytes | None],
        parent: str = "",
        message: str = "change",
    ) -> str:
        """A commit on top of `parent` (default: the ref); None deletes a file."""
        parent = parent or self.tip(ref) or ""
        words = message.encode()
        stream = [
            f"commit {ref}\ncommitter Test <test@invalid> {next(_TIMES)} +0000\n".encode(),
            b"data %d\n%s\n" % (len(words), words),
            f"from {parent}\n".encode() if parent else b"",
            *(_change(path, content) for path, content in files.items()),
        ]
        self.run("fast-import", "--quiet", "--force", data=b"".join(stream))
        return self.tip(ref) or ""

    def tip(self, ref: str) -> str | None:
        try:
            return self.text("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") or None
        except LookupError:
            return None

    def move(self, ref: str, commit: str) -> None:
        self.run("update-ref", ref, commit)

    def merge_base(self, one: str, other: str) -> str:
        return self.text("merge-base", one, other)

    def blob(self, commit: str, path: str) -> tuple[str, bytes] | None:
        """The blob's name and bytes; None when the commit has no such file."""
        try:
            name = self.text("rev-parse", "--verify", "--quiet", f"{commit}:{path}")
            return name, self.run("cat-file", "blob", name)
        except LookupError:
            return None

    def contains(self, ancestor: str, commit: str) -> bool:
        try:
            self.run("merge-base", "--is-ancestor", ancestor, commit)
        except LookupError:
            return False
        return True

    def diff(self, base: str, head: str, *options: str) -> bytes:
        return self.run("diff", "--no-color", "-M", *options, base, head)
