"""A missing permission, named by the line of the workflow that grants it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from bot.errors import BotError
from bot.github_errors import DeniedError, GoneError

READ_CODE = "contents: read"
READ_PULLS = "pull-requests: read"
WRITE_PULLS = "pull-requests: write"
WRITE_CHECKS = "checks: write"


class NeedsError(BotError):
    """The token may not do something; `line` is what the workflow lacks."""

    def __init__(self, line: str, what: str) -> None:
        super().__init__(
            f"the token may not {what}; add `{line}` to the job's `permissions:` in the workflow"
        )
        self.line = line
        self.what = what


@contextmanager
def needing(line: str, what: str) -> Generator[None]:
    """Names the permission when GitHub refuses what is done meanwhile."""
    try:
        yield
    except DeniedError as problem:
        if problem.status == 401:
            raise BotError("GitHub does not accept the token; check the input `token`") from problem
        raise NeedsError(line, what) from problem
    except GoneError as problem:
        # A private repository is invisible to a token that may not read it.
        raise NeedsError(line, f"{what}, or it is not there") from problem
