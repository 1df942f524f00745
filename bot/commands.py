"""What people ask for in comments: `/hostside review`, `/gpu-bench …`, as values.

A command stands at the start of a line, one to a line, neither quoted nor in a code block. A word
that nobody knows is answered with the usage instead of being guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bot import bench_command
from bot.bench_command import BenchCommand
from bot.errors import UsageError

HOSTSIDE, BENCH = "/hostside", bench_command.COMMAND
MOST = 5  # commands in one comment
LONGEST = 300  # characters of one command

USAGE = f"""\
| Command | What it does |
|---|---|
| `/hostside review` | reviews the head of this pull request again |
| `/hostside explain CODE` | shows a rule's page, such as `GPU105` |
| `/hostside ignore CODE [reason]` | silences a rule on this pull request |
| `/hostside pause` | leaves this pull request alone, until `/hostside resume` |
| `/hostside help` | shows this |
| `{BENCH}` | measures this pull request on a GPU runner; more about it below |

A command stands at the start of its own line. All but `help` and `explain` need write access.

{bench_command.USAGE}"""


@dataclass(frozen=True)
class Review:
    """Review the head again."""


@dataclass(frozen=True)
class Explain:
    """Show a rule's page."""

    code: str


@dataclass(frozen=True)
class Ignore:
    """Silence a rule on this pull request."""

    code: str
    reason: str = ""


@dataclass(frozen=True)
class Pause:
    """Leave this pull request alone."""


@dataclass(frozen=True)
class Resume:
    """Look at it again."""


@dataclass(frozen=True)
class Help:
    """Show the usage."""


@dataclass(frozen=True)
class Unknown:
    """Something that starts like a command; `problem` says what is wrong with it."""

    problem: str
    usage: str = USAGE


Command = Review | Explain | Ignore | Pause | Resume | Help | BenchCommand | Unknown
_PLAIN: dict[str, Command] = {
    "review": Review(),
    "pause": Pause(),
    "resume": Resume(),
    "help": Help(),
}
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,60}\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)\Z")
_COMMAND = re.compile(rf"({re.escape(HOSTSIDE)}|{re.escape(BENCH)})(?=\s|\Z)(.*)\Z")


def command_lines(text: str) -> tuple[str, ...]:
    """The lines of a comment that are commands, each once: saying it twice asks for no more."""
    lines = (line.rstrip() for line in _outside_fences(text) if _COMMAND.match(line))
    return tuple(dict.fromkeys(lines))[:MOST]


def parse(line: str) -> Command:
    """The command on one of those lines."""
    found = _COMMAND.match(line)
    if found is None:
        return Unknown("this is not a command")
    if len(line) > LONGEST:
        return Unknown(f"a command may have {LONGEST} characters")
    words = found[2].split()
    if found[1] == BENCH:
        return _bench(words)
    return _hostside(words)


def _bench(words: list[str]) -> Command:
    try:
        return bench_command.parse(words)
    except UsageError as problem:
        return Unknown(str(problem), bench_command.USAGE)


def _hostside(words: list[str]) -> Command:
    name, rest = (words[0].lower(), words[1:]) if words else ("help", [])
    if name in _PLAIN:
        return Unknown(f"{name!r} takes nothing after it") if rest else _PLAIN[name]
    if name in ("explain", "ignore"):
        if not rest or not _CODE.match(rest[0]):
            return Unknown(f"{name!r} needs the code of a rule, such as GPU105")
        if name == "ignore":
            return Ignore(rest[0], " ".join(rest[1:]))
        return Unknown("'explain' takes one code") if rest[1:] else Explain(rest[0])
    return Unknown(f"there is no command {name[:40]!r}")


def _outside_fences(text: str) -> Iterator[str]:
    """The lines that a reader sees as text: no code block, no HTML comment."""
    fence = ""
    hidden = False
    for line in text.replace("\r\n", "\n").split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif hidden or line.lstrip(" ").startswith("<!--"):
            hidden = "-->" not in line
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            yield line
