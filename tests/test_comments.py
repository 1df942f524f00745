"""What a review comment says, and that a stranger's text in it does no harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from analyzers.finding import (
    Confidence,
    Cost,
    Edit,
    Finding,
    Fix,
    Related,
    Safety,
    Severity,
    Span,
)
from bot.comments import LONGEST_BODY, ReviewComment, comment, write
from bot.diff import Placement
from bot.examine import Excerpt, Item
from bot.fingerprints import fingerprint
from bot.neutral import code, fenced, markup, prose, visible
from bot.suggestions import suggest

BEFORE = "import torch\nfor x in y:\n    total += x.item()\nprint(total)\n"
AFTER = BEFORE.replace("x.item()", "x.detach()")
SPAN = Span(3, 13, 3, 21)


def made(
    safety: Safety = Safety.SAFE,
    placement: Placement = Placement.INLINE,
    message: str = "`x.item()` waits on every turn. Keep the sum on the device.",
    after: str = AFTER,
    condition: str = "",
) -> ReviewComment:
    fix = Fix("keep the sum on the device", (Edit(SPAN, "x.detach()"),), safety, condition)
    finding = Finding(
        SPAN,
        message,
        Confidence.LIKELY,
        Severity.WARNING,
        (Related(Span(2, 0, 2, 3), "the loop"),),
        fix,
        Cost("One wait for each turn."),
        rule="GPU105",
        name="item-in-hot-loop",
    )
    suggestion = suggest(finding, fix, BEFORE, after, None)
    key = ("GPU105", "total += x.item()")
    item = Item(finding, fingerprint("m.py", key, 1), key, Excerpt(2, ("for",)), suggestion)
    return comment("m.py", item, placement)


def test_words_come_first_then_the_suggestion_then_the_folded_rest() -> None:
    body = made().body
    order = [
        "**GPU105** `item-in-hot-loop` · warning, likely",
        "`x.item()` waits on every turn.",
        "One wait for each turn.",
        "Keep the sum on the device:",
        "```suggestion\n    total += x.detach()\n```",
        "<details><summary>Why, and how to silence it</summary>",
        "Line 2: the loop",
        "`# hostside: ignore[GPU105] reason`",
        "<!-- hostside:",
    ]
    places = [body.index(part) for part in order]
    assert places == sorted(places)


def test_the_comment_stands_on_the_lines_of_its_suggestion() -> None:
    after = "import torch\nwith torch.no_grad():\n    total += y.sum()\nprint(total)\n"
    found = made(after=after)
    assert (found.start_line, found.line) == (2, 3)


def test_a_deletion_is_an_empty_suggestion() -> None:
    after = BEFORE.replace("    total += x.item()\n", "")
    assert "```suggestion\n```\n" in made(after=after).body


def test_a_blank_line_left_behind_is_a_blank_suggestion() -> None:
    after = BEFORE.replace("    total += x.item()\n", "\n")
    assert "```suggestion\n\n```\n" in made(after=after).body


def test_an_unsafe_suggestion_says_what_must_hold() -> None:
    body = made(Safety.UNSAFE, condition="Right when nobody reads `total` inside the loop.").body
    assert "```suggestion" in body
    assert "Right when nobody reads `total` inside the loop." in body


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(made(Safety.DISPLAY), "it is a sketch", id="a sketch"),
        pytest.param(
            made(placement=Placement.FILE),
            "it lies outside the lines of the diff",
            id="off",
        ),
    ],
)
def test_what_is_not_one_click_is_a_folded_diff(found: ReviewComment, why: str) -> None:
    body = found.body
    assert "```suggestion" not in body
    assert "```diff\n" in body
    assert f"(not one-click, because {why}" in body


def test_a_suggestion_with_fences_in_it_gets_a_longer_fence() -> None:
    after = BEFORE.replace("x.item()", 'x.detach()  # ````suggestion"')
    assert "\n`````suggestion\n" in made(after=after).body


def test_a_huge_message_still_fits() -> None:
    body = made(message="x" * 200_000).body
    assert len(body) <= LONGEST_BODY
    assert "<!-- hostside:" in body


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        pytest.param("ask @everyone or @org/team", "@e", id="a mention"),
        pytest.param("<img src=x onerror=1> <!--", "<", id="HTML"),
        pytest.param("![p](http://x/y.png) [l](http://x)", "[l](", id="links and pictures"),
        pytest.param("see https://evil.example/x", "https://", id="a bare address"),
        pytest.param("or www.evil.example", "www.", id="an address without scheme"),
        pytest.param("fixes #12", "#12", id="a reference to an issue"),
        pytest.param("fixes gh-12", "gh-12", id="another reference to an issue"),
        pytest.param("a\u202eb\u200bc\x1b[31m", "\u202e", id="reordering characters"),
        pytest.param("**bold** _it_ ~~no~~", "**b", id="emphasis"),
        pytest.param("a\n# heading\n- list", "\n", id="blocks"),
        pytest.param("unclosed ` <b>", "<b>", id="an unclosed code span"),
    ],
)
def test_markup_in_a_sentence_is_only_text(text: str, gone: str) -> None:
    assert gone not in prose(text)
    assert gone not in markup(text) or gone in ("[l](", "https://", "www.", "**b")


def test_code_spans_stay_code() -> None:
    assert prose("`a_b` and ``c`d``") == "`a_b` and ``c`d``"
    assert markup("`a<b`") == "<code>a&lt;b</code>"


def test_a_lone_backtick_is_shown_as_one() -> None:
    shown = MarkdownIt("commonmark", {"html": True}).render(prose("a ` b_c #3 ``"))
    assert shown == "<p>a ` b_c #\u20603 ``</p>\n"


HOSTILE = st.text(st.sampled_from("`@<>!#[]()*_~\\ab \n\r\t\u202e&;:/.w"), max_size=60)


@given(text=HOSTILE)
def test_no_sentence_becomes_markup(text: str) -> None:
    shown = MarkdownIt("commonmark", {"html": True}).render(prose(text))
    inside = shown.strip().removeprefix("<p>").removesuffix("</p>")
    for tag in ("<code>", "</code>"):
        inside = inside.replace(tag, "")
    assert "<" not in inside
    assert "\u202e" not in shown


@given(text=HOSTILE)
def test_nothing_gets_out_of_a_code_span_or_a_fence(text: str) -> None:
    markdown = MarkdownIt("commonmark", {"html": True})
    assert markdown.render(code(text)).count("<code>") == 1
    block = markdown.render(fenced(visible(text), "diff"))
    assert block.startswith('<pre><code class="language-diff">')
    assert block.endswith("</code></pre>\n")
    assert block.count("<pre>") == 1


def test_hidden_characters_are_shown() -> None:
    assert visible("a\u202eb\x1b\u200b\ttab") == "a<U+202E>b<U+001B><U+200B>\ttab"


def test_a_fingerprint_depends_on_rule_path_text_and_ordinal_alone() -> None:
    key = ("GPU105", "total += x.item()")
    marks = {
        fingerprint("m.py", key, 1),
        fingerprint("n.py", key, 1),
        fingerprint("m.py", key, 2),
        fingerprint("m.py", ("GPU102", key[1]), 1),
        fingerprint("m.py", (key[0], "other"), 1),
    }
    assert len(marks) == 5
    assert fingerprint("m.py", key, 1) == fingerprint("m.py", key, 1)


def test_the_same_comment_is_written_twice_alike() -> None:
    assert write(made()) == write(made())
