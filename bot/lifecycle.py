"""What is to be said after another push, given what was said before. Pure.

Nothing is said twice. What is gone is marked in its own comment, what people dismissed stays
silent, and what nobody could judge this time is left as it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from analyzers.finding import Confidence, Severity
from bot.comments import ReviewComment
from bot.diff import Placement
from bot.effects import with_effect
from bot.fingerprints import without_path
from bot.github_marks import FIXED, fingerprint, mark, marks, without_marks
from bot.neutral import visible
from bot.pulls import Annotation, Check, Earlier, EarlierComment, Edit, NewComment, Plan, PullRef
from bot.reports.markdown import summary
from bot.reports.words import closing, plural, unjudged
from bot.review import FILTERED, Review

_RULE = re.compile(r"\*\*([A-Z]+[0-9]+)\*\*")
_LEVELS = {Severity.ERROR: "failure", Severity.WARNING: "warning", Severity.INFO: "notice"}


@dataclass(frozen=True)
class Matched:
    """New comments beside the earlier ones about the same finding."""

    pairs: tuple[tuple[ReviewComment, EarlierComment | None], ...]
    gone: tuple[EarlierComment, ...]  # earlier ones that no new comment is about


def plan(
    review: Review,
    earlier: Earlier,
    ref: PullRef,
    silent: frozenset[str] = frozenset(),
    effects: Mapping[str, str] | None = None,
) -> Plan:
    """What to write on the pull request; `silent` are rules that were switched off for it.

    `effects` are lines about what was measured, by the fingerprint of the finding they are about.
    """
    matched = match(review, earlier.comments)
    kept = tuple(c for c, old in matched.pairs if not (old and old.dismissed))
    judged = replace(review, comments=kept)
    fixed = [_fixed(old, review, ref) for old in matched.gone if _is_gone(old, review, silent)]
    back = [_back(c, old) for c, old in matched.pairs if _shown(c) and old and _reopens(old)]
    measured = list(_measured(matched.pairs, effects or {}))
    new = [_new(c) for c, old in matched.pairs if _shown(c) and _is_news(old)]
    dismissed = len(review.comments) - len(kept)
    # Counted over all pushes, so that a second attempt says the same as the first.
    words = _summary(judged, dismissed, len(fixed) + sum(old.fixed for old in matched.gone))
    return Plan(
        review_body=f"{plural(len(new), 'new finding')} at {_short(ref)}." if new else "",
        comments=tuple(new),
        # Who writes a review himself finishes what was begun.
        discard=earlier.drafts + (() if any(c.line for c in new) else earlier.begun),
        edits=(*fixed, *back, *measured),
        summary=words if _speaks(judged) or earlier.summary else "",
        check=_check(judged, words),
    )


def match(review: Review, earlier: Iterable[EarlierComment]) -> Matched:
    """Each comment of the review with the latest earlier one about the same finding."""
    latest = {old.fingerprint: old for old in earlier}
    left = {c.fingerprint for c in review.comments}
    # A renamed file gives its findings new fingerprints; the part without the path stays.
    judged = {file.path for file in review.files if file.status == "analysed"}
    moved: dict[str, list[EarlierComment]] = defaultdict(list)
    for old in latest.values():
        if old.fingerprint not in left and old.path not in judged and not old.fixed:
            moved[without_path(old.fingerprint)].append(old)
    pairs: list[tuple[ReviewComment, EarlierComment | None]] = []
    used: set[str] = set()
    for comment in review.comments:
        old = latest.get(comment.fingerprint)
        if old is None and (alike := moved.get(without_path(comment.fingerprint))):
            old = alike.pop(0)
        used |= {old.fingerprint} if old else set()
        pairs.append((comment, old))
    return Matched(tuple(pairs), tuple(o for f, o in latest.items() if f not in used))


def _measured(
    pairs: Iterable[tuple[ReviewComment, EarlierComment | None]], effects: Mapping[str, str]
) -> Iterator[Edit]:
    """What was measured, added to the comments it is about."""
    for comment, old in pairs:
        line = effects.get(comment.fingerprint)
        if line and old and not old.fixed and not old.dismissed:
            body = with_effect(old.body, line)
            if body != old.body.replace("\r\n", "\n"):
                yield Edit(old.id, body, old.fingerprint)


def _shown(comment: ReviewComment) -> bool:
    return comment.placement is not Placement.SUMMARY


def _is_news(old: EarlierComment | None) -> bool:
    return old is None or (old.fixed and not old.dismissed and not _reopens(old))


def _reopens(old: EarlierComment) -> bool:
    """Whether a finding that came back belongs into its old comment."""
    return old.fixed and not old.dismissed and not old.resolved and old.line is not None


def _is_gone(old: EarlierComment, review: Review, silent: frozenset[str]) -> bool:
    """Whether the finding of this comment is known not to be there any more."""
    # GitHub resolves the thread of a suggestion that was applied: that is no dismissal.
    if old.fingerprint in review.refuted or old.fixed or old.rejected_by or _rule(old) in silent:
        return False
    report = next((file for file in review.files if file.path == old.path), None)
    return report is None or not (report.unjudged or report.reason == FILTERED)


def _rule(old: EarlierComment) -> str:
    match = _RULE.search(old.body)
    return match[1] if match else ""


def _new(comment: ReviewComment) -> NewComment:
    inline = comment.placement is Placement.INLINE
    return NewComment(
        path=comment.path,
        body=comment.body,
        fingerprint=comment.fingerprint,
        line=comment.line if inline else 0,
        start_line=comment.start_line if inline else 0,
    )


def _back(comment: ReviewComment, old: EarlierComment) -> Edit:
    # Without its suggestion: the old comment's lines need not be those it would replace.
    words = without_marks(replace(comment, placement=Placement.FILE).body)
    return Edit(old.id, f"{words}\n\n{mark(old.fingerprint)}", old.fingerprint)


def _fixed(old: EarlierComment, review: Review, ref: PullRef) -> Edit:
    silenced = any(path == old.path and s.finding.rule == _rule(old) for path, s in review.silenced)
    touched = any(file.path == old.path for file in review.files)
    word = "Silenced in the code" if silenced else "Fixed" if touched else "No longer in the change"
    if old.fingerprint in review.left_out:
        word = "Accepted by the baseline"
    # What is fixed must not be applied again with one click.
    before = re.sub(r"(?m)^(`{3,})suggestion[ \t]*$", r"\1python", without_marks(old.body))
    ours = [name for name in marks(old.body) if name not in (old.fingerprint, FIXED)]
    end = "".join(mark(name) for name in (*ours, FIXED, old.fingerprint))
    body = (
        f"**{word}** at {_short(ref)}.\n\n"
        f"<details><summary>What it said</summary>\n\n{before}\n</details>\n\n{end}"
    )
    return Edit(old.id, body, fingerprint(old.body))


def _short(ref: PullRef) -> str:
    return ref.head_sha[:12]


def _speaks(review: Review) -> bool:
    """Whether there is anything that people should read."""
    sure = any(c.finding.confidence is not Confidence.POSSIBLE for c in review.comments)
    shown = any(map(_shown, review.comments)) or bool(review.confirmed)
    return sure or shown or bool(unjudged(review))


def _summary(review: Review, dismissed: int, fixed: int) -> str:
    counts = [
        f"{plural(fixed, 'earlier finding')} gone." if fixed else "",
        f"{plural(dismissed, 'finding')} dismissed by people, not repeated." if dismissed else "",
    ]
    more = " ".join(part for part in counts if part)
    return summary(review) + (f"\n\n<sub>{more}</sub>" if more else "")


def _check(review: Review, words: str) -> Check:
    return Check(
        conclusion=review.conclusion.value,
        title=closing(review),
        summary=words,
        annotations=tuple(
            _annotation(comment)
            for comment in review.comments
            if comment.finding.confidence is not Confidence.POSSIBLE
        ),
        benchmark=any(file.status == "analysed" for file in review.files),
    )


def _annotation(comment: ReviewComment) -> Annotation:
    finding, span = comment.finding, comment.finding.span
    message = " ".join([finding.message, finding.cost.text if finding.cost else ""]).strip()
    return Annotation(
        path=comment.path,
        start_line=span.line,
        end_line=max(span.end_line, span.line),
        level=_LEVELS[finding.severity],
        title=f"{finding.rule} {finding.name}",
        message=visible(message),
        start_column=span.column + 1,
        end_column=span.end_column + 1,
    )
