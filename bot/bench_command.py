"""The words after `/gpu-bench`: what is to be measured, or what is to become of a measurement.

Everything is taken from a list of what is allowed; the rest is refused with a sentence.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bot.errors import UsageError
from gpu_runner.records import FEWEST_ROUNDS, MOST_ROUNDS

COMMAND = "/gpu-bench"
ALL, NONE = "all", "none"
MOST_TARGETS = 20
MOST_SUGGESTIONS = 999

USAGE = f"""\
| Command | What it does |
|---|---|
| `{COMMAND}` | measures base, head, and head with all one-click suggestions |
| `{COMMAND} bench_copies gpu_bench/ring.py*` | only the benchmarks that these fit |
| `{COMMAND} suggestion=N` | with the N-th suggestion only, as `{COMMAND} status` numbers them; \
`all` or `none` of them |
| `{COMMAND} rounds=R` | starts with R rounds, {FEWEST_ROUNDS} to {MOST_ROUNDS} |
| `{COMMAND} gpu=LABEL` | on a runner that has this label |
| `{COMMAND} sha=SHA` | only if SHA, in full, is the head; needed where the head is in a fork |
| `{COMMAND} cancel` | stops the benchmark of this pull request |
| `{COMMAND} status` | says where it stands, and numbers the suggestions |

In reply to a finding, `{COMMAND}` measures that finding's suggestion."""


@dataclass(frozen=True)
class Measure:
    """Measure this pull request."""

    targets: tuple[str, ...] = ()
    suggestion: str = ""  # ALL, NONE, a number; empty: as the place of the comment says
    rounds: int = 0  # 0: the protocol's default
    gpu: str = ""
    sha: str = ""


@dataclass(frozen=True)
class CancelBench:
    """Stop measuring it."""


@dataclass(frozen=True)
class BenchStatus:
    """Say where the measuring stands."""


BenchCommand = Measure | CancelBench | BenchStatus
_ALONE: dict[str, BenchCommand] = {"cancel": CancelBench(), "status": BenchStatus()}
_OPTION = re.compile(r"(-*[A-Za-z][A-Za-z_-]*)=(.*)\Z")
# Names of files, functions and parameters, and the signs of patterns: nothing that Markdown, a
# shell or a terminal would take for its own.
_TARGET = re.compile(r"[A-Za-z0-9_*?][A-Za-z0-9_./:*?\[\]!=,+-]{0,199}\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_HEX = re.compile(r"[0-9A-Fa-f]{7,64}\Z")


def parse(words: Sequence[str]) -> BenchCommand:
    """What these words ask for; a UsageError says which of them cannot be."""
    if words and words[0].lower() in _ALONE:
        if len(words) > 1:
            raise UsageError(f"{words[0].lower()!r} takes nothing after it")
        return _ALONE[words[0].lower()]
    given: dict[str, str] = {}
    targets: list[str] = []
    for word in words:
        option = _OPTION.match(word)
        if option is None:
            targets.append(_target(word))
        elif option[1] in given:
            raise UsageError(f"{option[1]}= is given twice")
        else:
            given[option[1]] = option[2]
    if len(targets) > MOST_TARGETS:
        raise UsageError(f"at most {MOST_TARGETS} benchmarks can be named; a pattern names many")
    ask = Measure(tuple(dict.fromkeys(targets)))
    for name, value in given.items():
        ask = _known(name)(ask, value)
    return ask


def _target(word: str) -> str:
    if _HEX.match(word) and re.search(r"\d", word):
        raise UsageError(f"a commit is given as sha={word.lower()}")
    if not _TARGET.match(word):
        raise UsageError(f"{word[:60]!r} is no name or pattern of a benchmark")
    return word


def _known(name: str) -> Callable[[Measure, str], Measure]:
    if name in _OPTIONS:
        return _OPTIONS[name]
    close = difflib.get_close_matches(name.lower().strip("-"), _OPTIONS, 1)
    hint = f"did you mean {close[0]}=?" if close else f"there are {', '.join(_OPTIONS)}"
    raise UsageError(f"there is no option {name[:40]!r}; {hint}")


def _suggestion(ask: Measure, value: str) -> Measure:
    if value in (ALL, NONE):
        return replace(ask, suggestion=value)
    number = _number(value, f"suggestion= takes a number, {ALL} or {NONE}")
    if not 1 <= number <= MOST_SUGGESTIONS:
        raise UsageError("suggestions are numbered from 1")
    return replace(ask, suggestion=str(number))


def _rounds(ask: Measure, value: str) -> Measure:
    takes = f"rounds= takes a number from {FEWEST_ROUNDS} to {MOST_ROUNDS}"
    rounds = _number(value, takes)
    if not FEWEST_ROUNDS <= rounds <= MOST_ROUNDS:
        raise UsageError(takes)
    return replace(ask, rounds=rounds)


def _number(value: str, takes: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 6):
        raise UsageError(f"{takes}, not {value[:40]!r}")
    return int(value)


def _gpu(ask: Measure, value: str) -> Measure:
    if not _LABEL.match(value):
        raise UsageError("gpu= takes a runner's label: letters, digits, dots and hyphens")
    return replace(ask, gpu=value)


def _sha(ask: Measure, value: str) -> Measure:
    if not _SHA.match(value.lower()):
        raise UsageError("sha= takes the full name of a commit, 40 hexadecimal digits")
    return replace(ask, sha=value.lower())


_OPTIONS: dict[str, Callable[[Measure, str], Measure]] = {
    "suggestion": _suggestion,
    "rounds": _rounds,
    "gpu": _gpu,
    "sha": _sha,
}
