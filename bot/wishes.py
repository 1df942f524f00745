"""What people asked for on a pull request, and what it got: pauses, ignored rules, reviews."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import delete, select

from bot.store import Store
from bot.tables import IgnoreRow, PauseRow, ReviewRow


@dataclass(frozen=True)
class Reviewed:
    """A review that GitHub has."""

    repo: str
    number: int
    head_sha: str
    conclusion: str
    findings: int
    comments: int
    seconds: float


def pause(store: Store, repo: str, number: int, by: str) -> None:
    """Leave this pull request alone."""
    row = {"repo": repo, "number": number, "by": by, "since": time.time()}
    with store.engine.begin() as connection:
        connection.execute(store.insert(PauseRow).values(row).on_conflict_do_nothing())


def resume(store: Store, repo: str, number: int) -> bool:
    """Look at it again; whether it was paused."""
    paused = delete(PauseRow).where(PauseRow.repo == repo, PauseRow.number == number)
    with store.engine.begin() as connection:
        return bool(connection.execute(paused).rowcount)


def paused_by(store: Store, repo: str, number: int) -> str:
    """Who paused this pull request; empty when nobody did."""
    wanted = select(PauseRow.by).where(PauseRow.repo == repo, PauseRow.number == number)
    with store.read() as connection:
        return connection.execute(wanted).scalar() or ""


def ignore(store: Store, repo: str, number: int, code: str, reason: str, *, by: str) -> None:
    """Silence a rule on this pull request."""
    row = {"repo": repo, "number": number, "code": code}
    why = {"reason": reason, "by": by, "since": time.time()}
    insert = store.insert(IgnoreRow).values(row | why)
    keys = ["repo", "number", "code"]
    with store.engine.begin() as connection:
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=why))


def ignored(store: Store, repo: str, number: int) -> frozenset[str]:
    """The codes that are silent on this pull request."""
    wanted = select(IgnoreRow.code).where(IgnoreRow.repo == repo, IgnoreRow.number == number)
    with store.read() as connection:
        return frozenset(connection.execute(wanted).scalars())


def is_reviewed(store: Store, repo: str, number: int, head_sha: str) -> bool:
    """Whether GitHub has our review of this head."""
    mine = (ReviewRow.repo == repo, ReviewRow.number == number, ReviewRow.head_sha == head_sha)
    with store.read() as connection:
        return connection.execute(select(ReviewRow.posted).where(*mine)).first() is not None


def record(store: Store, review: Reviewed) -> None:
    """Remember a review that GitHub has."""
    key = {"repo": review.repo, "number": review.number, "head_sha": review.head_sha}
    what = {
        "conclusion": review.conclusion,
        "findings": review.findings,
        "comments": review.comments,
        "seconds": review.seconds,
        "posted": time.time(),
    }
    insert = store.insert(ReviewRow).values(key | what)
    with store.engine.begin() as connection:
        connection.execute(insert.on_conflict_do_update(index_elements=list(key), set_=what))
