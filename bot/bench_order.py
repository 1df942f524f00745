"""`/gpu-bench`: from the words of a comment to an order, or to one sentence that says why not."""

from __future__ import annotations

from dataclasses import dataclass

from bot import bench_head, bench_patch, bench_words
from bot import config as configuration
from bot.bench_command import COMMAND, NONE, BenchCommand, BenchStatus, CancelBench, Measure
from bot.bench_patch import Chosen
from bot.bench_work import Order, Refused, Way
from bot.benches import UNDER_WAY, Benches
from bot.config import RepoConfig
from bot.errors import UsageError
from bot.github_errors import GoneError, SupersededError, TryAgainError
from bot.jobs import Desk, judged
from bot.neutral import prose
from bot.pulls import Pull


@dataclass(frozen=True)
class Asker:
    """Who asks, and by which comment."""

    author: str
    comment: int  # 0: a button
    on_line: bool
    key: str  # the same when the same comment is looked at again
    created: str  # when GitHub says the comment was written
    head: str  # the head that GitHub sent along
    reply_to: int  # the comment on lines that it answers; 0: none


@dataclass(frozen=True)
class Said:
    """What became of a command: its answer in Markdown, and whether it was done."""

    text: str = ""
    done: bool | None = None  # None: it goes on, and its end will be shown


def answer(desk: Desk, pull: Pull, asker: Asker, command: BenchCommand) -> Said:
    """Do what the command asks for."""
    benches = Benches(desk.store)
    try:
        match command:
            case CancelBench():
                return _cancel(benches, pull, asker)
            case BenchStatus():
                return Said(_status(desk, benches, pull), done=True)
            case Measure():
                return _measure(desk, benches, pull, asker, command)
    except SupersededError as problem:  # looked at again, it will be refused with the reason
        raise TryAgainError(str(problem)) from problem


def _measure(desk: Desk, benches: Benches, pull: Pull, asker: Asker, ask: Measure) -> Said:
    if benches.by_key(asker.key) is not None:  # this job was begun before
        return Said()
    try:
        made = benches.order(_order(desk, benches, pull, asker, ask), asker.key, desk.quota)
    except UsageError as problem:
        return Said(_capital(str(problem)), done=False)
    if isinstance(made, Refused):
        return Said(_capital(f"{made.why}."), done=False)
    return Said()


def _cancel(benches: Benches, pull: Pull, asker: Asker) -> Said:
    reason = f"it was cancelled by {asker.author}"
    if benches.cancel_of(pull.ref.full_name, pull.ref.number, reason):
        return Said(done=True)
    return Said("No benchmark of this pull request is under way.", done=False)


def _status(desk: Desk, benches: Benches, pull: Pull) -> str:
    ref = pull.ref
    latest = next(iter(benches.history(ref.full_name, ref.number, most=1)), None)
    parts = (
        [bench_words.brief(benches, latest, desk.pages)]
        if latest
        else ["No benchmark of this pull request was asked for yet."]
    )
    if pull.open:
        _, review = judged(desk, ref, configuration.load(desk.client.reader(ref)))
        if text := bench_patch.listed(review):
            parts.append(f"Suggestions that `{COMMAND} suggestion=N` can measure:\n\n{text}")
        else:
            parts.append("This head has no suggestion to measure.")
    return "\n\n".join(parts)


def _order(desk: Desk, benches: Benches, pull: Pull, asker: Asker, ask: Measure) -> Order:
    """The order; a UsageError, in Markdown, says why there is none."""
    ref = pull.ref
    if not pull.open:
        raise UsageError("the pull request is closed.")
    bench_head.check(desk.store, pull, ask.sha, asker.head, asker.created)
    if benches.active(ref.full_name, ref.number) is not None:
        raise UsageError(f"{UNDER_WAY}.")
    config = configuration.load(desk.client.reader(ref))
    _check_label(config, ask.gpu)
    try:
        chosen = _chosen(desk, pull, asker, ask, config)
    except UsageError as problem:
        raise UsageError(f"{prose(str(problem))}.") from problem
    return Order(
        repo=ref.full_name,
        number=ref.number,
        installation=ref.installation,
        base_sha=_base(desk, pull),
        head_sha=ref.head_sha,
        author=asker.author,
        comment=asker.comment,
        on_line=asker.on_line,
        targets=ask.targets,
        rounds=ask.rounds,
        gpu=ask.gpu,
        suggestion=chosen.words,
        patch=chosen.patch,
        fingerprints=chosen.fingerprints,
        paths=config.bench_paths,
        way=Way(config.bench_way),
        workflow=config.bench_workflow if config.bench_way == Way.WORKFLOW else "",
    )


def _base(desk: Desk, pull: Pull) -> str:
    """What the head is compared with: where it left its base, as `hostside bench run` does."""
    try:
        return desk.client.merge_base(pull.ref)
    except GoneError:
        raise UsageError("base and head have no commit in common.") from None


def _check_label(config: RepoConfig, label: str) -> None:
    if label and config.bench_gpus and label not in config.bench_gpus:
        known = ", ".join(f"`{each}`" for each in config.bench_gpus)
        raise UsageError(f"this repository's configuration allows gpu= {known}.")


def _chosen(desk: Desk, pull: Pull, asker: Asker, ask: Measure, config: RepoConfig) -> Chosen:
    if ask.suggestion == NONE:
        return Chosen()
    finding = desk.client.finding(pull.ref, asker.reply_to) if asker.reply_to else ""
    files, review = judged(desk, pull.ref, config)
    return bench_patch.choose(review, files, ask.suggestion, finding)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
