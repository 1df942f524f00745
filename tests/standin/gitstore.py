"""A bare git repository, written and read without a working tree."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GitStore:
    """One repository and its forks: they share objects, as on GitHub."""

    root: Path

    def run(self, *arguments: str, data: bytes | None = None, index: str = "") -> bytes:
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Test",
            "GIT_AUTHOR_EMAIL": "test@invalid",
            "GIT_COMMITTER_NAME": "Test",
            "GIT_COMMITTER_EMAIL": "test@invalid",
        }
        if index:
            environment["GIT_INDEX_FILE"] = index
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
        index = str(self.root / "standin.index")
        Path(index).unlink(missing_ok=True)
        if parent:
            self.run("read-tree", parent, index=index)
        lines = [self._entry(path, content) for path, content in files.items()]
        self.run("update-index", "-z", "--index-info", data=b"".join(lines), index=index)
        tree = self.run("write-tree", index=index).decode().strip()
        parents = ("-p", parent) if parent else ()
        made = self.run("commit-tree", tree, *parents, data=message.encode()).decode().strip()
        self.run("update-ref", ref, made)
        return made

    def _entry(self, path: str, content: str | bytes | None) -> bytes:
        name = path.encode("utf-8", "surrogateescape")
        if content is None:
            return b"0 " + b"0" * 40 + b"\t" + name + b"\0"
        data = content if isinstance(content, bytes) else content.encode()
        blob = self.run("hash-object", "-w", "--stdin", data=data).strip()
        return b"100644 " + blob + b"\t" + name + b"\0"

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
