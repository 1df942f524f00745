"""Which commit a comment was about, and why it may not be measured.

Between a comment and the look at it somebody may push: what nobody had read would run on the
GPU. So the head must be known to be the one that stood there when the comment was written.
"""

from __future__ import annotations

import json

from sqlalchemy import select

from bot.bench_command import COMMAND
from bot.errors import UsageError
from bot.neutral import code
from bot.pulls import Pull
from bot.store import Store
from bot.tables import JobRow
from bot.work import Kind

_SHOWN = 12


def check(store: Store, pull: Pull, named: str, seen: str, written: str) -> None:
    """Raise a UsageError, in Markdown, unless the present head is what the comment was about.

    `named` is the commit that it names; `seen` the head that GitHub sent along with it, and
    `written` when GitHub says it was written, where they are known.
    """
    ref = pull.ref
    if named:
        if named != ref.head_sha:
            raise UsageError(
                f"{code(named[:_SHOWN])} is not the head of this pull request (any more). "
                f"{_way_out(pull)}"
            )
        return
    if ref.from_fork:
        raise UsageError(
            "the head is in a fork, so the commit whose code may run has to be named. "
            f"{_way_out(pull)}"
        )
    known = head_before(store, ref.full_name, ref.number, written) if written else ""
    if seen and known in ("", seen):
        known = seen
    if not known:
        raise UsageError(
            "it is not known which commit was the head when the comment was written. "
            f"{_way_out(pull)}"
        )
    if known != ref.head_sha:
        raise UsageError(
            f"a push came in between: the comment was about {code(known[:_SHOWN])}. "
            f"{_way_out(pull)}"
        )


def _way_out(pull: Pull) -> str:
    line = f"{COMMAND} sha={pull.ref.head_sha}"
    return f"Look at {_diff(pull)}; if its code may run on the GPU machine, type:\n\n    {line}"


def _diff(pull: Pull) -> str:
    page = pull.clone_url.removesuffix(".git")
    head = pull.ref.head_sha
    if not page.startswith(("https://", "http://")):
        return f"the diff of {code(head[:_SHOWN])}"
    return f"[the diff of {code(head[:_SHOWN])}]({page}/pull/{pull.ref.number}/files/{head})"


def head_before(store: Store, repo: str, number: int, moment: str) -> str:
    """The head of a pull request before this second, as far as GitHub told us; else empty.

    By the stamps of GitHub's own clock in its webhooks: a commit's dates are its author's to
    choose. GitHub counts seconds, so what happened within the same one is not known.
    """
    wanted = (
        select(JobRow.stamp, JobRow.arguments)
        .where(JobRow.repo == repo, JobRow.number == number, JobRow.kind == Kind.REVIEW)
        .where(JobRow.stamp != "", JobRow.stamp < moment)
        .order_by(JobRow.stamp.desc())
        .limit(2)
    )
    with store.read() as connection:
        rows = [(stamp, json.loads(text)) for stamp, text in connection.execute(wanted)]
    heads = {said.get("head_sha", "") for stamp, said in rows if stamp == rows[0][0]}
    return str(heads.pop()) if len(heads) == 1 else ""
