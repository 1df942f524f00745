"""What can go wrong with GitHub, by what the caller should do about it.

GitHubError            one sentence; not worth trying again
├── TryAgainError      worth trying again, not before `after` seconds
│   ├── LimitedError   refused for the rate of our requests: nothing was done
│   └── UnsureError    no answer, or a broken one: it may have been done all the same
├── GoneError          the pull request, repository or installation is no longer there for us
├── SupersededError    the pull request moved on or was closed while we worked
└── DeniedError        a permission is missing, which an owner can grant
"""

from __future__ import annotations

from bot.errors import BotError


class GitHubError(BotError):
    """GitHub refused; trying again would not help."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class TryAgainError(GitHubError):
    """It may work later: a limit, an outage, a lost answer."""

    def __init__(self, message: str, status: int = 0, after: float = 0) -> None:
        super().__init__(message, status)
        self.after = after


class LimitedError(TryAgainError):
    """GitHub refused the request for our rate; `after` 0 when it named no time."""


class UnsureError(TryAgainError):
    """The request was sent, and whether GitHub carried it out is not known."""


class GoneError(GitHubError):
    """What we were asked about does not exist for us any more; drop the job."""


class SupersededError(GitHubError):
    """A newer head, or a closed pull request: drop the job, another one covers it."""


class DeniedError(GitHubError):
    """The installation or token lacks a permission."""
