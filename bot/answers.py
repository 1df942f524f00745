"""What a command in a comment does, who may give it, and how it is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot import bench_order, commands, wishes
from bot import config as configuration
from bot.bench_command import BenchStatus, CancelBench, Measure
from bot.bench_order import Asker
from bot.commands import Command, Explain, Help, Ignore, Pause, Resume, Unknown
from bot.errors import UsageError
from bot.github_errors import SupersededError, TryAgainError
from bot.jobs import Desk, NeedlessError, review_pull
from bot.neutral import code, prose
from bot.pulls import Pull, PullRef

WRITERS = ("admin", "maintain", "write")
_FOR_ALL = (Help, Explain, Unknown)


@dataclass(frozen=True)
class Asked:
    """A comment with commands."""

    ref: PullRef  # its head is not known yet
    author: str
    lines: tuple[str, ...]
    comment: int = 0  # 0: a button, which has no comment to react to
    on_line: bool = False
    key: str = ""  # what makes the answers the same when given again
    origin: str = ""  # the comment or button press itself, whichever job looks at it
    created: str = ""  # when GitHub says the comment was written
    head: str = ""  # the head that GitHub sent along, as it does for comments on lines
    reply_to: int = 0  # the comment that began the conversation on lines
    listed: bool = False  # its author is a bot that the operator lists: GitHub gives Apps no role


def answer(desk: Desk, asked: Asked) -> str:
    """Do what the comment asks for, and show on it how it went; what became of it."""
    _react(desk, asked, "eyes")
    pull = desk.client.pull(asked.ref)
    asked = replace(asked, ref=pull.ref)
    parsed = [commands.parse(line) for line in asked.lines]
    allowed = all(isinstance(c, _FOR_ALL) for c in parsed) or _may_write(desk, asked)
    done: list[bool | None] = []
    for number, command in enumerate(parsed):
        this = replace(asked, key=f"{asked.key}-{number}", origin=f"{asked.origin}-{number}")
        if allowed or isinstance(command, _FOR_ALL):
            done.append(_do(desk, this, command, pull))
        else:
            done.append(_refuse(desk, this))
    if False in done or None not in done:  # what goes on is shown at its end
        _react(desk, asked, "confused" if False in done else "+1")
    going = f", {done.count(None)} under way" if None in done else ""
    return f"{done.count(True)} of {len(done)} commands done{going}"


def _react(desk: Desk, asked: Asked, content: str) -> None:
    if asked.comment:
        desk.client.react(asked.ref, asked.comment, content, asked.on_line)


def _may_write(desk: Desk, asked: Asked) -> bool:
    return asked.listed or desk.client.permission(asked.ref, asked.author) in WRITERS


def _say(desk: Desk, asked: Asked, text: str) -> None:
    desk.client.reply(asked.ref, text, asked.key)


def _refuse(desk: Desk, asked: Asked) -> bool:
    text = (
        f"{code(asked.lines[_number(asked)])} needs write access to this repository, which "
        f"{code(asked.author)} does not have; a maintainer can give the command."
    )
    _say(desk, asked, text)
    return False


def _number(asked: Asked) -> int:
    return int(asked.key.rpartition("-")[2])


def _do(desk: Desk, asked: Asked, command: Command, pull: Pull) -> bool | None:
    """Whether the command was carried out; None while it goes on."""
    repo, number = asked.ref.full_name, asked.ref.number
    done: bool | None = True
    match command:
        case Unknown(problem, usage):
            _say(desk, asked, f"{_capital(prose(problem))}.\n\n{usage}")
            done = False
        case Help():
            _say(desk, asked, commands.USAGE)
        case Explain(name):
            done = _explain(desk, asked, name)
        case Pause():
            wishes.pause(desk.store, repo, number, asked.author)
        case Resume():
            wishes.resume(desk.store, repo, number)
            done = _review(desk, asked, or_say=False)
        case Ignore(name, reason):
            done = _ignore(desk, asked, name, reason)
        case Measure() | CancelBench() | BenchStatus():
            done = _bench(desk, asked, command, pull)
        case commands.Review():
            done = _review(desk, asked)
    return done


def _review(desk: Desk, asked: Asked, or_say: bool = True) -> bool:
    """Review the head whatever keeps others away; the reason is said when even that is no use."""
    try:
        review_pull(desk, asked.ref, asked=or_say)
    except NeedlessError as reason:
        if or_say:
            _say(desk, asked, f"Nothing was reviewed: {reason}.")
        return not or_say
    except SupersededError as problem:  # a command means the head of now, whichever it is
        raise TryAgainError(str(problem)) from problem
    return True


def _explain(desk: Desk, asked: Asked, name: str) -> bool:
    from analyzers.pages import rule_page
    from analyzers.rule import find_rule

    rule = find_rule(name)
    if rule is None:
        _say(desk, asked, _capital(prose(configuration.no_such_rule(name, "explain"))))
        return False
    _say(desk, asked, rule_page(rule))
    return True


def _ignore(desk: Desk, asked: Asked, name: str, reason: str) -> bool:
    try:
        found = configuration.codes([name], "ignore")
    except UsageError as problem:
        _say(desk, asked, _capital(prose(str(problem))))
        return False
    repo, number = asked.ref.full_name, asked.ref.number
    for rule in sorted(found):
        wishes.ignore(desk.store, repo, number, rule, reason, by=asked.author)
    return _review(desk, asked)


def _bench(
    desk: Desk, asked: Asked, command: Measure | CancelBench | BenchStatus, pull: Pull
) -> bool | None:
    by = Asker(
        asked.author, asked.comment, asked.on_line, asked.origin, asked.created, asked.head,
        asked.reply_to,
    )  # fmt: skip
    said = bench_order.answer(desk, pull, by, command)
    if said.text:
        _say(desk, asked, said.text)
    return said.done


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
