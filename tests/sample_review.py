"""A review with one comment of each kind, for the tests of the reports."""

from __future__ import annotations

from dataclasses import replace

from analyzers.finding import (
    Confidence,
    Cost,
    Edit,
    Finding,
    Fix,
    Objective,
    Related,
    Safety,
    Severity,
    Span,
)
from bot.comments import ReviewComment, comment
from bot.diff import Placement
from bot.examine import Excerpt, Item, Silenced
from bot.fingerprints import fingerprint
from bot.review import FileReport, Review
from bot.suggestions import suggest

TEXT = "import torch\n\ndef f(xs):\n    for x in xs:\n        total += x.item()\n    return total\n"
SPAN = Span(5, 17, 5, 25)


def finding(
    confidence: Confidence = Confidence.LIKELY,
    severity: Severity = Severity.WARNING,
    message: str = "`x.item()` waits on every turn. Keep the sum on the device.",
    safety: Safety = Safety.SAFE,
) -> Finding:
    fix = Fix(
        "sum on the device",
        (Edit(SPAN, "x.detach()"),),
        safety,
        "Right when nobody reads it earlier.",
    )
    return Finding(
        SPAN,
        message,
        confidence,
        severity,
        (Related(Span(4, 4, 4, 7), "the loop"),),
        fix,
        Cost("One wait a turn.", "turns × wait"),
        rule="GPU105",
        name="item-in-hot-loop",
        objective=Objective.PERFORMANCE,
    )


def reported(
    found: Finding, placement: Placement = Placement.INLINE, path: str = "src/train.py"
) -> ReviewComment:
    key = (found.rule, "total += x.item()")
    after = TEXT.replace("x.item()", "x.detach()")
    suggestion = suggest(found, found.fix, TEXT, after, None) if found.fix else None
    lines = tuple(TEXT.splitlines())
    excerpt = Excerpt(3, lines[2:6], frozenset({5}))
    return comment(
        path, Item(found, fingerprint(path, key, 1), key, excerpt, suggestion), placement
    )


REVIEW = Review(
    subject="main...feature",
    comments=(
        reported(finding()),
        reported(
            replace(finding(severity=Severity.ERROR), fix=None), Placement.FILE, "src/wrong sum.py"
        ),
        reported(finding(Confidence.POSSIBLE), Placement.SUMMARY, "src/unsure.py"),
    ),
    files=(
        FileReport("src/broken.py", "failed", "Line 3 isn't valid Python: invalid syntax."),
        FileReport("src/train.py", "analysed"),
        FileReport("src/unsure.py", "analysed"),
        FileReport("src/wrong sum.py", "analysed"),
        FileReport("README.md", "skipped", "Not a Python file."),
    ),
    silenced=(("src/train.py", Silenced(finding(), "read once an epoch", 5)),),
)
EMPTY = Review("main...feature", (), (FileReport("src/train.py", "analysed"),))
