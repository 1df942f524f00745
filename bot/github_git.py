"""A pull request's change by git: two commits and only the texts that are looked at."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bot.changes import Ends, changed_files
from bot.diff import ChangedFile
from bot.errors import UsageError
from bot.git import Checkout
from bot.github_calls import Calls
from bot.github_shapes import Comparison
from bot.pulls import Pull
from bot.review import PYTHON

_MOST_MEMORY = 1 << 30  # bytes; a diff of a million files takes a third of it
_SETTINGS = (
    ("fetch.fsckObjects", "true"),
    ("gc.auto", "0"),
    ("http.followRedirects", "initial"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "30"),
    ("protocol.version", "2"),
)


@dataclass(frozen=True)
class Origin:
    """Where git fetches a repository from, and what its environment must be for that."""

    url: str
    environment: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True)
class GitFetch:
    """Fetches what the API would not give."""

    calls: Calls
    token: Callable[[], str]

    def __call__(self, pull: Pull) -> tuple[ChangedFile, ...]:
        """Every changed file; raises UsageError when git cannot do it."""
        ref = pull.ref
        basehead = f"{ref.base_sha}...{ref.head_sha}"
        answer = self.calls.get(f"repos/{ref.full_name}/compare/{basehead}", per_page="1")
        start = answer.read(Comparison).merge_base_commit.sha
        with tempfile.TemporaryDirectory(prefix="hostside-") as directory:
            told = git_environment(pull.clone_url, self.token())
            checkout = Checkout(Path(directory), True, told, _MOST_MEMORY)
            return _read(checkout, pull.clone_url, start, ref.head_sha)


def git_environment(url: str, token: str) -> tuple[tuple[str, str], ...]:
    """What git must be told to fetch from this address, and from nowhere else."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"GitHub names no address to fetch from ({url!r})")
    # By environment: other users of the machine can read a command line.
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    parts = urlsplit(url)
    header = (
        f"http.{parts.scheme}://{parts.netloc}/.extraHeader",
        f"Authorization: Basic {secret}",
    )
    settings = [*_SETTINGS, header]
    numbered = [
        pair
        for number, (name, value) in enumerate(settings)
        for pair in ((f"GIT_CONFIG_KEY_{number}", name), (f"GIT_CONFIG_VALUE_{number}", value))
    ]
    return (
        *numbered,
        ("GIT_CONFIG_COUNT", str(len(settings))),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_ALLOW_PROTOCOL", "https:http"),
    )


def _read(checkout: Checkout, url: str, start: str, head: str) -> tuple[ChangedFile, ...]:
    checkout.run("init", "--quiet", "--bare")
    checkout.run("remote", "add", "origin", url)
    checkout.run("config", "remote.origin.promisor", "true")
    checkout.run("config", "remote.origin.partialclonefilter", "blob:none")
    checkout.run(
        "fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none", "origin", start, head
    )
    _fetch_texts(checkout, start, head)
    return changed_files(checkout, Ends(start, head))


def _fetch_texts(checkout: Checkout, start: str, head: str) -> None:
    """Fetch all changed Python texts at once; git would ask for them one by one."""
    raw = checkout.run(
        "diff", "--raw", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules", start, head
    )
    words = raw.decode("utf-8", "surrogateescape").split("\0")
    blobs = {
        blob
        for line, path in zip(words[::2], words[1::2], strict=False)
        if path.endswith(PYTHON)
        for mode, blob in zip(line[1:].split(" ")[:2], line.split(" ")[2:4], strict=False)
        if mode.startswith("100")
    }
    if blobs:
        data = "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
        checkout.run(
            "-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags",
            "--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin",
            "origin", data=data,
        )  # fmt: skip
