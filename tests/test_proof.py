"""A fix is shown as one click only if applying it does what it says and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.analysis import Analysis, AnalysisConfig, Status
from analyzers.finding import Confidence, Edit, Finding, Fix, Safety, Severity, Span
from analyzers.proof import Proof, apply_edits, prove
from analyzers.source import split_lines

WORDS = {"GPU105": r"\w+\.item\(\)", "GPU102": r"sync\(\)", "GPU999": r"boom\(\)"}


def findings(text: str) -> Iterator[Finding]:
    """What a very simple analysis finds: words, by line."""
    for line, content in enumerate(split_lines(text), 1):
        for rule, pattern in WORDS.items():
            for match in re.finditer(pattern, content.partition("#")[0]):
                yield Finding(
                    Span(line, match.start(), line, match.end()),
                    "It waits.",
                    Confidence.CERTAIN,
                    Severity.WARNING,
                    rule=rule,
                )


def analyze(path: str, text: str, _: AnalysisConfig) -> Analysis:
    return Analysis(path, Status.ANALYSED, findings=tuple(findings(text)))


def edit(text: str, old: str, new: str, which: int = 1) -> Edit:
    """The edit that puts one text in place of the n-th occurrence of another."""
    start = [match.start() for match in re.finditer(re.escape(old), text)][which - 1]
    places: list[int] = []
    for offset in (start, start + len(old)):
        lines = text[:offset].split("\n")
        places += len(lines), len(lines[-1])
    return Edit(Span(*places), new)


def proof(text: str, rule: str, which: int, *edits: Edit, safety: Safety = Safety.SAFE) -> Proof:
    """What comes of a fix of the n-th finding of a rule."""
    found = [item for item in findings(text) if item.rule == rule][which - 1]
    finding = Finding(
        found.span,
        found.message,
        found.confidence,
        found.severity,
        fix=Fix("Mend it", edits, safety),
        rule=rule,
    )
    return prove("x.py", text, finding, AnalysisConfig(), analyze=analyze)


TWO = "a.item() + b.item()\n"
SAME = "a.item()\nf()\na.item()\n"


@pytest.mark.parametrize(
    ("text", "which", "old", "new", "nth"),
    [
        pytest.param("f()\na.item()\n", 1, "a.item()\n", "", 1, id="a deleted line"),
        pytest.param(TWO, 1, "a.item()", "a", 1, id="the first of two on a line"),
        pytest.param(TWO, 2, "b.item()", "b", 1, id="the second of two on a line"),
        pytest.param(SAME, 1, "a.item()\n", "", 1, id="the first of two equal lines"),
        pytest.param(SAME, 2, "a.item()\n", "", 2, id="the second of two equal lines"),
        pytest.param("x.item()\ny.item()\n", 1, "x.item()", "(x\n)", 1, id="the others move down"),
        pytest.param("a.item()  # é\nb.item()\n", 1, "a.item()", "a", 1, id="a comment beside it"),
        pytest.param(
            "a.item()\nb.item()\n",
            2,
            "a.item()\nb.item()\n",
            "if x:\n  a.item()\n",
            1,
            id="indented",
        ),
    ],
)
def test_a_fix_that_keeps_its_promise_is_proven(
    text: str, which: int, old: str, new: str, nth: int
) -> None:
    result = proof(text, "GPU105", which, edit(text, old, new, nth))
    assert (result.ok, result.reason) == (True, "")
    assert len(list(findings(result.text))) == len(list(findings(text))) - 1


@pytest.mark.parametrize(
    ("text", "old", "new", "reason"),
    [
        pytest.param(
            "a.item()\n", "a.item()", "b.item()", "the finding would still be there", id="same"
        ),
        pytest.param("a.item()\n", "a.item()", "(", "the edited file would not parse", id="broken"),
        pytest.param(
            "a.item()\n", "a.item()", "boom()", "it would bring GPU999 on line 1", id="another"
        ),
        pytest.param(
            "a.item()\nf()\n", "f()", "b.item()", "it would bring GPU105 on line 2", id="elsewhere"
        ),
        pytest.param(
            "a.item()  # why\n", "a.item()  # why", "a", "a comment would be lost", id="a comment"
        ),
        pytest.param("a.item()\n", "a", "a", "it changes nothing", id="nothing"),
        pytest.param(
            "a.item()\nf()\n", "f()", "g()", "the finding would still be there", id="beside it"
        ),
        pytest.param(
            "a.item()\n",
            "a.item()",
            "a.item(); a.item()",
            "it would bring GPU105 on line 1",
            id="one more of the same",
        ),
    ],
)
def test_a_fix_that_falls_short_is_not(text: str, old: str, new: str, reason: str) -> None:
    result = proof(text, "GPU105", 1, edit(text, old, new))
    assert (result.ok, result.reason) == (False, reason)


def test_a_fix_that_moves_the_fault_to_another_line_is_not_proven() -> None:
    text = "a.item()\nfor x in y:\n    f()\n"
    moved = (edit(text, "a.item()\n", ""), edit(text, "    f()\n", "    a.item()\n    f()\n"))
    assert proof(text, "GPU105", 1, *moved).ok is False


def test_edits_that_overlap_are_not_applied() -> None:
    text = "a.item()\n"
    result = proof(text, "GPU105", 1, edit(text, "a.item", "b"), edit(text, "item()", "c"))
    assert result == Proof(False, text, "its edits don't fit the file")


def test_a_sketch_is_never_one_click() -> None:
    text = "a.item()\n"
    result = proof(text, "GPU105", 1, edit(text, "a.item()", "a"), safety=Safety.DISPLAY)
    assert (result.ok, result.reason) == (False, "it is a sketch")


def test_a_finding_without_a_fix_has_nothing_to_prove() -> None:
    (finding,) = findings("a.item()\n")
    result = prove("x.py", "a.item()\n", finding, AnalysisConfig(), analyze=analyze)
    assert result == Proof(False, "a.item()\n", "there is nothing to apply")


def test_a_file_that_cannot_be_analysed_any_more_is_no_proof() -> None:
    def refuse(path: str, text: str, config: AnalysisConfig) -> Analysis:
        done = analyze(path, text, config)
        return done if "item" in text else Analysis(path, Status.FAILED, "No.")

    text = "a.item()\n"
    (found,) = findings(text)
    fix = Fix("Mend it", (edit(text, "a.item()", "a"),), Safety.SAFE)
    finding = Finding(found.span, "", found.confidence, found.severity, fix=fix, rule=found.rule)
    result = prove("x.py", text, finding, AnalysisConfig(), analyze=refuse)
    assert (result.ok, result.reason) == (False, "the edited file can't be analysed")


def test_the_engine_is_asked_where_no_other_analysis_is_given() -> None:
    text = "import torch\na.item()\n"
    fix = Fix("Mend it", (edit(text, "a.item()\n", ""),), Safety.SAFE)
    finding = Finding(
        Span(2, 0, 2, 8), "", Confidence.CERTAIN, Severity.INFO, fix=fix, rule="GPU999"
    )
    result = prove("x.py", text, finding, AnalysisConfig())
    assert (result.ok, result.reason) == (False, "the finding isn't there without it")


@pytest.mark.parametrize(
    ("text", "edits", "edited"),
    [
        pytest.param(
            "abc\r\nd",
            [Edit(Span(1, 1, 1, 2), "é"), Edit(Span(2, 0, 2, 1), "")],
            "aéc\r\n",
            id="two",
        ),
        pytest.param("a\nb\n", [Edit(Span(2, 0, 3, 0), "")], "a\n", id="up to the end"),
        pytest.param(
            "a\nb", [Edit(Span(2, 0, 3, 0), "")], "a\n", id="up to an end without a line end"
        ),
        pytest.param("a\n", [Edit(Span(2, 0, 2, 0), "b\n")], "a\nb\n", id="behind the last line"),
        pytest.param(
            "a\rb\r", [Edit(Span(2, 0, 2, 1), "c")], "a\rc\r", id="lines that end with CR"
        ),
        pytest.param(
            "ab",
            [Edit(Span(1, 1, 1, 1), "x"), Edit(Span(1, 1, 1, 2), "y")],
            "axy",
            id="insert first",
        ),
        pytest.param("", [Edit(Span(1, 0, 1, 0), "x")], "x", id="an empty file"),
    ],
)
def test_edits_are_made_by_line_and_column(text: str, edits: list[Edit], edited: str) -> None:
    assert apply_edits(text, edits) == edited
    assert apply_edits(text, reversed(edits)) == edited


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([Edit(Span(1, 0, 1, 2), ""), Edit(Span(1, 1, 1, 3), "")], id="overlapping"),
        pytest.param([Edit(Span(1, 0, 1, 9), "")], id="beyond a line"),
        pytest.param([Edit(Span(9, 0, 9, 0), "")], id="beyond the file"),
        pytest.param([Edit(Span(0, 0, 1, 0), "")], id="before the file"),
        pytest.param([Edit(Span(1, 2, 1, 1), "")], id="backwards"),
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="edit"):
        apply_edits("abcd\nef\n", edits)


LINES = st.sampled_from(
    ["a.item()", "b.item(); a.item()", "f()", "sync()", "x = sync()  # why", "boom()"]
)


@settings(deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6), st.data())
def test_deleting_any_line_is_proven_for_all_that_is_found_only_there(
    lines: list[str], data: st.DataObject
) -> None:
    text = "\n".join(lines) + "\n"
    chosen = data.draw(st.integers(0, len(lines) - 1))
    for rule in WORDS:
        on_line = [
            item for item in findings(text) if item.rule == rule and item.span.line == chosen + 1
        ]
        for finding in on_line:
            gone = Fix("Delete it", (Edit(Span(chosen + 1, 0, chosen + 2, 0), ""),), Safety.SAFE)
            signed = Finding(
                finding.span, "", finding.confidence, finding.severity, fix=gone, rule=rule
            )
            result = prove("x.py", text, signed, AnalysisConfig(), analyze=analyze)
            assert result.text == "".join(f"{c}\n" for n, c in enumerate(lines) if n != chosen)
            assert result.reason == ("a comment would be lost" if "#" in lines[chosen] else "")
