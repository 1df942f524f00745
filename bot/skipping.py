"""Why a pull request is left alone: the reasons that a repository's configuration can give."""

from __future__ import annotations

import fnmatch

from bot.config import RepoConfig
from bot.pulls import Pull


def reason_to_skip(pull: Pull, config: RepoConfig) -> str:
    """The first reason to leave the pull request alone; empty when there is none."""
    if pull.draft and not config.review_drafts:
        return "a draft"
    wanted = {
        "label": (pull.labels, config.skip_labels),
        "title": ((pull.title,), config.skip_titles),
        "author": ((pull.author,), config.skip_authors),
        "branch": ((pull.base_branch, pull.head_branch), config.skip_branches),
    }
    for what, (texts, patterns) in wanted.items():
        if any(_like(text, pattern) for text in texts for pattern in patterns):
            return f"the configuration leaves it alone for its {what}"
    return ""


def _like(text: str, pattern: str) -> bool:
    # Brackets are common in titles and accounts, so they stand for themselves.
    return fnmatch.fnmatchcase(text.lower(), pattern.lower().replace("[", "[[]"))
