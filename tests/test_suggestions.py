"""A proven fix as whole lines, and what keeps it from being one click."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.finding import Confidence, Edit, Finding, Fix, Safety, Severity, Span
from bot.diff import parse_patch
from bot.suggestions import Suggestion, apply_all, suggest, without_overlaps

BEFORE = "import torch\n\nx = torch.zeros(3)\ny = x.cuda()\nprint(y)\n"


def suggested(
    before: str, after: str, line: int, safety: Safety = Safety.SAFE, patch: str | None = None
) -> Suggestion | None:
    span = Span(line, 0, line, 1)
    finding = Finding(span, "m", Confidence.CERTAIN, Severity.WARNING)
    fix = Fix("mend it", (Edit(span, ""),), safety)
    hunks = None if patch is None else parse_patch("m.py", patch).hunks
    return suggest(finding, fix, before, after, hunks)


def certain(suggestion: Suggestion | None) -> Suggestion:
    assert suggestion is not None
    return suggestion


@pytest.mark.parametrize(
    ("before", "after", "line", "lines", "replacement"),
    [
        pytest.param("a\nb\nc\n", "a\nB\nc\n", 2, (2, 2), "B\n", id="one line replaced"),
        pytest.param("a\nb\nc\n", "a\nc\n", 2, (2, 2), "", id="one line deleted"),
        pytest.param("a\nb\nc\n", "a\nx\nb\nc\n", 2, (2, 2), "x\nb\n", id="inserted before it"),
        pytest.param("a\nb\nc\n", "a\nb\nx\nc\n", 2, (2, 2), "b\nx\n", id="inserted behind it"),
        pytest.param("a\nb\n", "a\nb\nx\n", 2, (2, 2), "b\nx\n", id="inserted at the end"),
        pytest.param("a\nb\n", "x\na\nb\n", 1, (1, 1), "x\na\n", id="inserted at the start"),
        pytest.param("a\na\na\n", "a\na\n", 2, (2, 3), "a\n", id="one of several like it"),
        pytest.param("a\nb\nc\nd\n", "A\nb\nc\nd\n", 3, (1, 3), "A\nb\nc\n", id="up to it"),
        pytest.param("a\nb\nc\nd\n", "a\nb\nc\nD\n", 2, (2, 4), "b\nc\nD\n", id="from it"),
    ],
)
def test_the_lines_are_those_that_change_and_the_findings_own(
    before: str, after: str, line: int, lines: tuple[int, int], replacement: str
) -> None:
    found = certain(suggested(before, after, line))
    assert (found.start_line, found.end_line) == lines
    assert found.replacement == replacement
    assert apply_all(before, [found]) == after
    assert found.one_click


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=8)


@given(before=LINES, after=LINES, data=st.data())
def test_applying_it_always_gives_the_proven_text(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
    line = data.draw(st.integers(1, len(before)))
    found = suggested(old, new, line)
    if found is None:
        assert old == new
    else:
        assert apply_all(old, [found]) == new
        assert found.start_line <= found.end_line <= len(before)


def test_nothing_changed_is_no_suggestion() -> None:
    assert suggested(BEFORE, BEFORE, 3) is None


LONG = "".join(f"x{n} = {n}\n" for n in range(40))


@pytest.mark.parametrize(
    ("texts", "line", "safety", "patch", "obstacle"),
    [
        pytest.param(
            (BEFORE, BEFORE.replace("x.", "X.")), 4, Safety.DISPLAY, None, "a sketch", id="a sketch"
        ),
        pytest.param(
            (LONG, LONG.replace("x1", "z1")), 15, Safety.SAFE, None, "lines at once", id="too long"
        ),
        pytest.param(
            (LONG, LONG.replace("x3 ", "z3 ")),
            30,
            Safety.SAFE,
            None,
            "it changes line 4, away",
            id="far from the finding",
        ),
        pytest.param(("a\r\nb\r\n", "a\r\nc\r\n"), 2, Safety.SAFE, None, "plain LF", id="CRLF"),
        pytest.param(("a\r\nb\n", "a\r\nc\n"), 2, Safety.SAFE, None, "plain LF", id="mixed ends"),
        pytest.param(
            ("a\nb", "a\nc"), 2, Safety.SAFE, None, "end with a line end", id="no last end"
        ),
        pytest.param(
            ("a\nb\n", "a\nc\u202e\n"), 2, Safety.SAFE, None, "control characters", id="bidi"
        ),
        pytest.param(
            ("a\nb\nc\nd\n", "a\nb\nC\nd\n"),
            3,
            Safety.SAFE,
            "@@ -1 +1,2 @@\n a\n+b",
            "not all shown",
            id="outside the hunk",
        ),
        pytest.param(
            ("a\nb\nc\nd\n", "a\nB\nC\nd\n"),
            2,
            Safety.SAFE,
            "@@ -1 +1,2 @@\n a\n+b",
            "not all shown",
            id="half in the hunk",
        ),
        pytest.param(
            ("a\nb\nc\nd\n", "a\nB\nc\nd\n"),
            2,
            Safety.UNSAFE,
            "@@ -1 +1,2 @@\n a\n+b",
            "",
            id="none: an unsafe one says its condition",
        ),
    ],
)
def test_what_stands_in_the_way_of_one_click_is_said(
    texts: tuple[str, str], line: int, safety: Safety, patch: str | None, obstacle: str
) -> None:
    found = certain(suggested(*texts, line, safety, patch))
    assert obstacle in found.obstacle
    assert found.one_click is (not obstacle)


def test_a_long_line_of_distance_is_not_bridged() -> None:
    found = certain(suggested(LONG, LONG.replace("x1 ", "z1 "), 9))
    assert (found.start_line, found.end_line) == (2, 9)


def test_the_diff_shows_the_change_with_its_neighbours() -> None:
    found = certain(suggested(BEFORE, BEFORE.replace("y = x.cuda()\n", "y = x\n"), 4))
    assert found.diff == " \n x = torch.zeros(3)\n-y = x.cuda()\n+y = x\n print(y)"


def test_of_two_that_replace_one_line_only_the_first_is_one_click() -> None:
    one = certain(suggested("a\nb\nc\n", "a\nB\nc\n", 2))
    other = certain(suggested("a\nb\nc\n", "a\nb\nC\n", 2))
    last = certain(suggested("a\nb\nc\n", "A\nb\nc\n", 1))
    kept = without_overlaps([one, other, None, last])
    assert [found and found.obstacle for found in kept] == [
        "",
        "it overlaps another suggestion",
        None,
        "",
    ]


def test_several_are_applied_at_once() -> None:
    one = certain(suggested("a\nb\nc\n", "a\nB\nB\nc\n", 2))
    other = certain(suggested("a\nb\nc\n", "a\nb\n", 3))
    assert apply_all("a\nb\nc\n", [one, other]) == "a\nB\nB\n"
