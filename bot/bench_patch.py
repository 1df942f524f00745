"""Proven suggestions as one patch on the head: what the third variant of a benchmark is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analyzers.finding import Safety
from bot.bench_command import ALL, COMMAND, NONE
from bot.comments import ReviewComment
from bot.diff import ChangedFile, Placement
from bot.errors import UsageError
from bot.lines import decode
from bot.neutral import code
from bot.quoting import quote
from bot.reports.words import plural
from bot.review import Review
from bot.suggestions import apply_all

LARGEST = 1 << 20  # characters of a patch that a runner takes
MOST_LISTED = 30
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")  # as git counts them
_NO_END = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class Chosen:
    """What is measured besides base and head; nothing when `patch` is empty."""

    words: str = ""  # plain text
    patch: str = ""
    fingerprints: tuple[str, ...] = ()


def measurable(review: Review) -> tuple[ReviewComment, ...]:
    """The findings with a proven edit, in the order in which people number them."""
    return tuple(
        c for c in review.comments if c.suggestion and c.suggestion.safety is not Safety.DISPLAY
    )


def choose(
    review: Review, files: Sequence[ChangedFile], wanted: str = "", finding: str = ""
) -> Chosen:
    """The suggestions that `suggestion=` asks for, else that of the finding replied to, else all.

    A UsageError says why there is no such suggestion.
    """
    if wanted == NONE:
        return Chosen()
    known = measurable(review)
    if wanted.isdigit():
        return _patched([_numbered(known, int(wanted))], files)
    if finding and not wanted:
        return _patched([_of_finding(known, finding)], files)
    ready = [c for c in known if _one_click(c)]
    if not ready:
        if wanted == ALL:
            raise UsageError("this head has no one-click suggestion to measure")
        return Chosen()
    return _patched(ready, files)


def _one_click(comment: ReviewComment) -> bool:
    inline = comment.placement is Placement.INLINE
    return inline and comment.suggestion is not None and comment.suggestion.one_click


def _numbered(known: Sequence[ReviewComment], number: int) -> ReviewComment:
    if number > len(known):
        there = plural(len(known), "suggestion")
        raise UsageError(f"this head has {there}, and no number {number}; `{COMMAND} status` lists")
    return known[number - 1]


def _of_finding(known: Sequence[ReviewComment], fingerprint: str) -> ReviewComment:
    for comment in known:
        if comment.fingerprint == fingerprint:
            return comment
    raise UsageError(
        "the finding that was replied to has no proven suggestion at this head; "
        f"`{COMMAND} suggestion=none` measures base and head"
    )


def listed(review: Review) -> str:
    """The numbered suggestions in Markdown; empty when there are none."""
    known = measurable(review)
    lines = [
        f"{number}. {_where(c)} **{c.finding.rule}** {code(c.suggestion.title)}"
        for number, c in enumerate(known[:MOST_LISTED], 1)
        if c.suggestion
    ]
    if len(known) > MOST_LISTED:
        lines.append(f"\nand {len(known) - MOST_LISTED} more")
    return "\n".join(lines)


def _where(comment: ReviewComment) -> str:
    return code(f"{comment.path}:{comment.line}")


def _patched(comments: Sequence[ReviewComment], files: Sequence[ChangedFile]) -> Chosen:
    texts = {file.path: file.text for file in files if file.text is not None}
    made = patch(texts, comments)
    if len(made) > LARGEST:
        raise UsageError("these suggestions are too large to be measured at once; name one of them")
    if len(comments) == 1:
        (only,) = comments
        words = f"the suggestion of {only.finding.rule} at {only.path}:{only.line}"
    else:
        words = f"all {len(comments)} one-click suggestions"
    return Chosen(words, made, tuple(c.fingerprint for c in comments))


def patch(texts: Mapping[str, bytes], comments: Iterable[ReviewComment]) -> str:
    """The unified diff, for `git apply` on the head, that all these suggestions make together."""
    by_path: dict[str, list[ReviewComment]] = {}
    for comment in comments:
        by_path.setdefault(comment.path, []).append(comment)
    return "".join(_of_file(path, texts, found) for path, found in sorted(by_path.items()))


def _of_file(path: str, texts: Mapping[str, bytes], comments: Sequence[ReviewComment]) -> str:
    before, encoding = decode(texts[path])
    if encoding != "utf-8":
        raise UsageError(f"{path} is not UTF-8 text, so its suggestion cannot be measured")
    after = apply_all(before, [c.suggestion for c in comments if c.suggestion])
    return "".join(_lines(path, _LINE.findall(before), _LINE.findall(after)))


def _lines(path: str, before: list[str], after: list[str]) -> Iterator[str]:
    """The diff of one file, headers included."""
    old, new = quote(f"a/{path}"), quote(f"b/{path}")
    # A name with a blank needs the tab, or git takes the rest for a date.
    end = "\t\n" if " " in path else "\n"
    yield f"diff --git {old} {new}\n"
    made = difflib.unified_diff(before, after, n=3)
    for number, line in enumerate(made):
        if number == 0:
            yield f"--- {old}{end}"
        elif number == 1:
            yield f"+++ {new}{end}"
        else:
            yield line if line.endswith("\n") else f"{line}\n{_NO_END}"
