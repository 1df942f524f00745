"""The source of a benchmark: exactly two commits, as one git pack made for whoever measures them.

A pack has no file names, no links and no settings that could do harm where it is opened, and git
computes every object's name anew when it reads one: that these are the commits that were ordered
needs nobody's word. The token that fetches them stays here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.bench_work import Order
from bot.errors import BotError
from bot.github_errors import DeniedError, GitHubError, GoneError, TryAgainError
from bot.github_git import Origin

SECONDS = 300.0
_SETTINGS = tuple(
    word
    for setting in (
        "core.hooksPath=/dev/null",
        "core.askPass=",
        "credential.helper=",
        "fetch.fsckObjects=true",
        "fetch.recurseSubmodules=false",
        "fetch.unpackLimit=1",  # a pack, however few objects there are
        "gc.auto=0",
    )
    for word in ("-c", setting)
)
# How GitHub is reached from here; nothing else of our environment is git's business.
_KEPT = (
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "TMPDIR", "http_proxy", "https_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
_WAIT_SECONDS = 120.0
_VANISHED = ("not our ref", "upload-pack: not our ref", "couldn't find remote ref")
_NO_ROOM = ("no space left", "disk quota")
_GONE = "the repository cannot be read any more ({}); install the App there again and ask again"


class SourceError(BotError):
    """There is no source to be had, and asking again will not help."""


class LaterError(BotError):
    """There is none at the moment."""


@dataclass(frozen=True)
class Sources:
    """Makes packs, one at a time: a large repository must not take the service down."""

    origin: Callable[[Order], Origin]  # where it is fetched from, and with which token
    most: int  # bytes of a pack
    turn: threading.Lock

    @contextmanager
    def pack(self, order: Order) -> Generator[Path]:
        """A file with both commits and all they hold, gone afterwards."""
        try:
            with tempfile.TemporaryDirectory(prefix="hostside-source-") as folder:
                if not self.turn.acquire(timeout=_WAIT_SECONDS):
                    raise LaterError("the service is busy with another source")
                try:
                    made = self._made(order, Path(folder))
                finally:
                    self.turn.release()
                yield made
        except OSError as problem:
            raise SourceError(
                f"the service has no room for the source ({problem.strerror}); make some in its "
                "temporary folder and ask again"
            ) from problem

    def _made(self, order: Order, folder: Path) -> Path:
        origin = self._origin(order)
        _git(folder, origin, "init", "--quiet", "--bare", "--template=", str(folder))
        wanted = dict.fromkeys((order.base_sha, order.head_sha))
        line = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1")
        said = _git(folder, origin, *line, origin.url, *wanted, most=self.most)
        packs = list((folder / "objects" / "pack").glob("*.pack"))
        if said or len(packs) != 1:
            raise self._why(order, folder, said)
        if packs[0].stat().st_size > self.most:
            raise self._too_large(order)
        return packs[0]

    def _origin(self, order: Order) -> Origin:
        try:
            return self.origin(order)
        except TryAgainError as problem:
            raise LaterError(str(problem)) from problem
        except GoneError as problem:
            raise SourceError(_GONE.format(problem)) from problem
        except (DeniedError, GitHubError, BotError) as problem:
            raise SourceError(f"the source cannot be fetched: {problem}") from problem

    def _why(self, order: Order, folder: Path, said: str) -> BotError:
        """What git's complaint means."""
        known = said.lower()
        written = [each.stat().st_size for each in folder.rglob("tmp_pack_*")]
        if "file too large" in known or max(written, default=0) >= self.most:
            return self._too_large(order)
        if any(words in known for words in _VANISHED):
            return SourceError(
                f"GitHub no longer has {order.base_sha[:12]} or {order.head_sha[:12]}, as after a "
                "force push; ask again for the new head"
            )
        if any(words in known for words in _NO_ROOM):
            return SourceError(
                "the service has no room for the source; make some in its temporary folder "
                "and ask again"
            )
        if "fsck" in known:
            return SourceError(
                "git refuses what the repository holds as malformed; `git fsck` there names it"
            )
        if "error: 401" in known or "error: 403" in known or "authentication failed" in known:
            return SourceError(_GONE.format("GitHub refuses the token"))
        if "not found" in known or "error: 404" in known:
            return SourceError(_GONE.format("there is none of that name"))
        return LaterError("git could not fetch from GitHub")

    def _too_large(self, order: Order) -> SourceError:
        return SourceError(
            f"{order.repo} is larger than the {self.most >> 20} MiB that are sent to a machine; "
            "the operator can raise HOSTSIDE_BENCH_SOURCE_MIB"
        )


def sources(origin: Callable[[Order], Origin], mib: int) -> Sources:
    """Where packs of at most so many MiB come from."""
    return Sources(origin, mib << 20, threading.Lock())


def _git(folder: Path, origin: Origin, *words: str, most: int = 0) -> str:
    """Empty when git did it, else what it said."""
    line = ["git", *_SETTINGS, "-C", str(folder), *words]
    limiter = shutil.which("prlimit")
    if most and limiter:  # a pack that grows beyond it ends git, not the disk
        line = [limiter, f"--fsize={most}", "--core=0", "--", *line]
    kept = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)}
    kept |= {n: os.environ[n] for n in _KEPT if n in os.environ}
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**kept, **quiet, **dict(origin.environment)},
        )
    except FileNotFoundError:
        raise SourceError("the service has no git; install it there and ask again") from None
    except subprocess.TimeoutExpired:
        raise LaterError(f"git could not fetch within {SECONDS:g} s") from None
    if done.returncode == 0:
        return ""
    return done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
