"""Findings that a repository has accepted for now: a file that lists them, and what it leaves out.

An entry is known by the fingerprint that review comments carry (rule, path, the line's text, which
of its kind), so that it stays right while lines move. A review reads the file from the base commit:
a change cannot bring the excuse for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from bot.config import Reader, RepoConfig
from bot.errors import ConfigError

VERSION = 1
DEFAULT = "hostside-baseline.json"
LONGEST = 200  # characters of a line that are shown
_AGAIN = "`hostside baseline` writes it anew"


@dataclass(frozen=True, order=True)
class Entry:
    """A finding that is left out."""

    path: str  # from the top of the repository
    rule: str
    text: str  # of its first line, blanks levelled: for people who read the file
    ordinal: int  # which of those with the same path, rule and text
    fingerprint: str


@dataclass(frozen=True)
class Baseline:
    """The findings that are left out."""

    entries: tuple[Entry, ...] = ()
    name: str = ""  # the file; empty: there is none

    @cached_property
    def marks(self) -> frozenset[str]:
        """Their fingerprints."""
        return frozenset(entry.fingerprint for entry in self.entries)

    def within(self, paths: Iterable[str]) -> tuple[Entry, ...]:
        """Those about these files."""
        wanted = frozenset(paths)
        return tuple(entry for entry in self.entries if entry.path in wanted)


NONE = Baseline()


class LaterVersionError(ConfigError):
    """The file was written by a later Hostside, and must not be written over."""


def entry(path: str, key: tuple[str, str], ordinal: int, fingerprint: str) -> Entry:
    """The entry for a finding; text that no encoding knows is escaped."""
    rule, text = key
    return Entry(_plain(path), rule, _plain(text[:LONGEST]), ordinal, fingerprint)


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def load(config: RepoConfig, read: Reader) -> Baseline:
    """The baseline that the configuration names, or none."""
    if not config.baseline:
        return NONE
    name = normal(config.baseline, config.source)
    text = read(name)
    if text is None:
        raise ConfigError(
            f"{config.source}: there is no baseline {name!r} that can be read; {_AGAIN}, "
            "or leave the key out"
        )
    return parse(name, text)


def normal(path: str, where: str) -> str:
    """The path without dots in it; one that leaves the repository is refused."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    if ".." in parts or not parts or parts[0] == "/":
        raise ConfigError(
            f"{where}: baseline {path!r} must be a path below the top of the repository"
        )
    return str(PurePosixPath(*parts))


def parse(name: str, text: str) -> Baseline:
    """The baseline in this text; a mistake in it is one sentence."""
    from pydantic import ValidationError

    from bot.baseline_file import BaselineFile

    try:
        document: object = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:  # a number may be too long for Python
        where = f":{problem.lineno}" if isinstance(problem, json.JSONDecodeError) else ""
        merged = "<<<<<<<" in text
        why = "holds an unresolved merge" if merged else "is not valid JSON"
        raise ConfigError(f"{name}{where}: the baseline {why}; {_AGAIN}") from None
    try:
        file = BaselineFile.model_validate(document)
    except ValidationError as problem:
        raise _complaint(name, document, problem) from None
    return Baseline(
        tuple(Entry(e.path, e.rule, e.text, e.ordinal, e.fingerprint) for e in file.findings), name
    )


def looks_ours(text: str) -> bool:
    """Whether this was a baseline, be it broken by a merge or by hand."""
    return '"findings"' in text


def _complaint(name: str, document: object, problem: Any) -> ConfigError:
    here = f"{name}: the baseline is"
    if not isinstance(document, dict):
        return ConfigError(f"{here} not one of ours: it must be an object; {_AGAIN}")
    version: object = document.get("version")  # type: ignore[union-attr]
    if isinstance(version, int) and version > VERSION:
        return LaterVersionError(
            f"{here} of version {version}, and this Hostside reads {VERSION}; update Hostside"
        )
    error = problem.errors()[0]
    place = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"])
    return ConfigError(
        f"{here} not one of ours: {place}: {message[:1].lower()}{message[1:]}; {_AGAIN}"
    )


def written(entries: Iterable[Entry]) -> str:
    """The file's text: sorted, one finding a line, so that changes of it read and merge well."""
    lines = [
        json.dumps(
            {
                "rule": entry.rule,
                "path": entry.path,
                "text": entry.text,
                "ordinal": entry.ordinal,
                "fingerprint": entry.fingerprint,
            },
            ensure_ascii=True,
        )
        for entry in sorted(set(entries))
    ]
    rows = ",\n".join(f"    {line}" for line in lines)
    findings = f"[\n{rows}\n  ]" if rows else "[]"
    return f'{{\n  "version": {VERSION},\n  "findings": {findings}\n}}\n'


def without(baseline: Baseline, entries: Iterable[Entry]) -> Baseline:
    """The baseline less these entries."""
    gone = frozenset(entry.fingerprint for entry in entries)
    kept = tuple(entry for entry in baseline.entries if entry.fingerprint not in gone)
    return Baseline(kept, baseline.name)
