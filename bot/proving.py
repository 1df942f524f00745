"""Suggestions for the findings of one file: each fix proven alone, and all of them together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analyzers.engine import analyze
from analyzers.finding import Finding, Safety
from analyzers.proof import Proof, prove_all
from analyzers.source import Source, read_source
from bot.suggestions import Suggestion, apply_all, suggest, without_overlaps

if TYPE_CHECKING:
    from bot.examine import Item, Job

MOST_PROOFS = 40  # suggestions for one file; each may cost an analysis
PROOF_SECONDS = 6.0  # then the findings go out as they are, within the file's time limit
MOST_TRIES = 8  # to find suggestions that go together


def with_suggestions(
    job: Job, text: str, items: tuple[Item, ...], before: Sequence[Finding]
) -> tuple[Item, ...]:
    """The items, worst first, those whose fix is proven with what to suggest."""
    items = tuple(sorted(items, key=lambda item: item.finding.order))
    worth = [item for item in items if _worth_proving(job, item.finding)][:MOST_PROOFS]
    until = time.monotonic() + PROOF_SECONDS
    proofs = prove_all(job.name, text, [item.finding for item in worth], job.config, before)
    proven = [
        next(proofs) if item in worth and time.monotonic() < until else None for item in items
    ]
    suggestions = without_overlaps(
        _suggestion(job, text, item.finding, proof) if proof else None
        for item, proof in zip(items, proven, strict=True)
    )
    joints = [proof.joint if proof else "" for proof in proven]
    together = _proven_together(job, text, suggestions, before, joints)
    return tuple(
        replace(item, suggestion=found) for item, found in zip(items, together, strict=True)
    )


def _worth_proving(job: Job, finding: Finding) -> bool:
    return finding.fix is not None and finding.confidence in job.prove


def _suggestion(job: Job, text: str, finding: Finding, proof: Proof) -> Suggestion | None:
    fix = finding.fix
    if fix is None:
        return None
    shown = proof.ok
    if fix.safety is Safety.DISPLAY and not proof.ok:  # a sketch need only be Python
        shown = isinstance(read_source(job.path, proof.text), Source)
    return suggest(finding, fix, text, proof.text, job.hunks) if shown else None


def _proven_together(
    job: Job,
    text: str,
    suggestions: list[Suggestion | None],
    before: Sequence[Finding],
    joints: Sequence[str],
) -> list[Suggestion | None]:
    """The same, where a batch commit of all that are one click adds no finding.

    Those of one joint proof go together; `joints` are the texts of those proofs.
    """
    result = list(suggestions)
    known = Counter(f.rule for f in before)
    for attempt in range(1, MOST_TRIES + 1):
        clicks = [s for s in result if s and s.one_click]
        if len(clicks) < 2:
            break
        shared = {joint for each, joint in zip(result, joints, strict=True) if each in clicks}
        if len(shared) == 1 and "" not in shared:
            break
        batch = apply_all(text, clicks)
        after = analyze(job.name, batch, job.config)
        if after.status == "analysed" and Counter(f.rule for f in after.findings) <= known:
            break
        for click in clicks[-1:] if attempt < MOST_TRIES else clicks[1:]:
            place = result.index(click)
            result[place] = replace(click, obstacle="it does not combine with the others")
    return result
