"""The line in a finding's comment that says what its suggestion was measured to do."""

from __future__ import annotations

from bot.github_marks import MEASURED, mark, marks, without_marks

_BEGIN = mark("evidence")


def with_effect(body: str, line: str) -> str:
    """The comment with this line before its marks, in place of an earlier one."""
    ours = [name for name in marks(body) if name != MEASURED]
    end = "".join(mark(name) for name in (MEASURED, *ours))
    return f"{without_effect(body)}\n\n{_BEGIN}\n{line}\n\n{end}"


def without_effect(body: str) -> str:
    """The comment's words, without the line and without the marks."""
    words = without_marks(body)
    # Looked for only where our mark is: above it, code from the repository may hold anything.
    return words[: words.rfind(_BEGIN)].rstrip() if MEASURED in marks(body) else words
