"""Unified diffs as git, other tools and GitHub write them."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.finding import Related, Span
from bot.diff import (
    Change,
    ChangedFile,
    Patch,
    Placement,
    UnfitHunkError,
    apply,
    locate,
    parse_diff,
    parse_patch,
    reverse,
    touched,
    whole_file,
)
from bot.errors import UsageError
from bot.quoting import unquote


def only(text: str) -> Patch:
    (patch,) = parse_diff(text)
    return patch


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("plain.py", "plain.py", id="a plain name"),
        pytest.param('"caf\\303\\251.py"', "café.py", id="octal bytes of UTF-8"),
        pytest.param('"a\\"b.py"', 'a"b.py', id="a quote"),
        pytest.param('"a\\\\b.py"', "a\\b.py", id="a backslash"),
        pytest.param('"a\\tb\\n.py"', "a\tb\n.py", id="tab and line end"),
        pytest.param('"bad\\377.py"', "bad\udcff.py", id="a byte that is no UTF-8"),
        pytest.param('"é.py"', "é.py", id="quoted but not escaped"),
        pytest.param('"', '"', id="a lone quote"),
    ],
)
def test_a_quoted_name_is_read_back(written: str, meant: str) -> None:
    assert unquote(written) == meant


def test_lines_at_head_and_base_are_those_of_the_header() -> None:
    patch = only(
        "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n"
        "@@ -10,3 +12,4 @@ def f():\n same\n-old\n+new\n+more\n same\n"
    )
    (hunk,) = patch.hunks
    assert (hunk.first, hunk.last) == (12, 15)
    assert hunk.added == {13, 14}
    assert hunk.removed == {11}
    assert hunk.before == ("same\n", "old\n", "same\n")


@pytest.mark.parametrize(
    ("text", "path", "old_path", "change", "hunks"),
    [
        pytest.param(
            "diff --git a/o.py b/n.py\nsimilarity index 100%\nrename from o.py\nrename to n.py\n",
            "n.py", "o.py", Change.RENAMED, 0, id="a pure rename",
        ),
        pytest.param(
            "diff --git a/x b/x b/x b/x\nold mode 100644\nnew mode 100755\n",
            "x b/x", "x b/x", Change.MODIFIED, 0, id="a name that looks like two",
        ),
        pytest.param(
            "diff --git a/m.py b/m.py\nold mode 100644\nnew mode 100755\n",
            "m.py", "m.py", Change.MODIFIED, 0, id="a change of mode",
        ),
        pytest.param(
            "diff --git a/e.py b/e.py\nnew file mode 100644\nindex 0000000..e69de29\n",
            "e.py", "e.py", Change.ADDED, 0, id="a new empty file",
        ),
        pytest.param(
            "diff --git a/g.py b/g.py\ndeleted file mode 100644\nindex 1..0\n"
            "--- a/g.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
            "g.py", "g.py", Change.DELETED, 1, id="a deleted file",
        ),
        pytest.param(
            "--- old.py\t2026-01-01 00:00:00\n+++ new.py\t2026-01-02 00:00:00\n"
            "@@ -1 +1 @@\n-x\n+y\n",
            "new.py", "old.py", Change.RENAMED, 1, id="made by diff -u",
        ),
        pytest.param(
            'diff --git "a/caf\\303\\251 x.py" "b/caf\\303\\251 x.py"\nindex 1..2 100644\n'
            '--- "a/caf\\303\\251 x.py"\n+++ "b/caf\\303\\251 x.py"\n@@ -1 +1 @@\n-x\n+y\n',
            "café x.py", "café x.py", Change.MODIFIED, 1, id="a quoted name with a blank",
        ),
    ],
)  # fmt: skip
def test_what_happened_to_a_file_is_told(
    text: str, path: str, old_path: str, change: Change, hunks: int
) -> None:
    patch = only(text)
    assert (patch.path, patch.change, len(patch.hunks)) == (path, change, hunks)
    assert patch.old_path == old_path


def test_links_submodules_and_binary_files_have_no_text() -> None:
    patches = parse_diff(
        "diff --git a/l.py b/l.py\nnew file mode 120000\nindex 0..1\n--- /dev/null\n+++ b/l.py\n"
        "@@ -0,0 +1 @@\n+m.py\n\\ No newline at end of file\n"
        "diff --git a/sub b/sub\nindex 1..2 160000\n--- a/sub\n+++ b/sub\n"
        "@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n"
        "diff --git a/b.py b/b.py\nindex 1..2 100644\nBinary files a/b.py and b/b.py differ\n"
    )
    assert [patch.unread for patch in patches] == [
        "It is a symbolic link.",
        "It is a submodule.",
        "It is a binary file.",
    ]


def test_a_hunk_that_only_deletes_holds_no_line_at_head() -> None:
    (hunk,) = only("--- a/m.py\n+++ b/m.py\n@@ -3,2 +2,0 @@\n-x\n-y\n").hunks
    assert (hunk.first, hunk.last, hunk.added) == (3, 2, frozenset())
    assert not hunk.holds(3, 3)


def test_the_marker_of_a_missing_line_end_belongs_to_the_line_before_it() -> None:
    (hunk,) = only(
        "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n"
    ).hunks
    assert (hunk.before, hunk.after) == (("x",), ("y\n",))


def test_carriage_returns_stay_in_the_lines() -> None:
    (hunk,) = only("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x\r\n+y\r\n").hunks
    assert (hunk.before, hunk.after) == (("x\r\n",), ("y\r\n",))


def test_a_form_feed_does_not_end_a_line() -> None:
    (hunk,) = only("--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n a\x0cb\n-x\n+y\n").hunks
    assert hunk.added == {2}


def test_a_patch_of_the_files_api_needs_no_header() -> None:
    patch = parse_patch("m.py", "@@ -1,2 +1,2 @@\n a\n-b\n+c", old_path="o.py")
    assert (patch.path, patch.old_path, patch.change) == ("m.py", "o.py", Change.RENAMED)
    assert patch.hunks[0].added == {2}


def test_an_absent_patch_has_no_hunks() -> None:
    assert parse_patch("m.py", "").hunks == ()


def test_a_cut_diff_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="make it with `git diff`"):
        parse_diff("--- a/m.py\n+++ b/m.py\n@@ -1,5 +1,5 @@\n a\n")


FILE = ChangedFile(
    "m.py",
    Change.MODIFIED,
    parse_patch("m.py", "@@ -1,3 +1,4 @@\n a\n+b\n c\n d\n@@ -20 +21,2 @@\n x\n+y").hunks,
    b"",
)


@pytest.mark.parametrize(
    ("first", "last", "where"),
    [
        pytest.param(2, 2, Placement.INLINE, id="an added line"),
        pytest.param(1, 4, Placement.INLINE, id="context around it"),
        pytest.param(4, 5, Placement.FILE, id="half in the hunk"),
        pytest.param(2, 22, Placement.FILE, id="from one hunk to another"),
        pytest.param(10, 10, Placement.FILE, id="between the hunks"),
    ],
)
def test_a_finding_is_placed_where_all_its_lines_are_shown(
    first: int, last: int, where: Placement
) -> None:
    assert locate(FILE, Span(first, 0, last, 1)) is where


def test_a_finding_in_a_file_without_hunks_goes_to_the_summary() -> None:
    renamed = ChangedFile("n.py", Change.RENAMED, (), b"x\n", old_path="o.py")
    assert locate(renamed, Span(1, 0, 1, 1)) is Placement.SUMMARY


def test_no_line_is_trusted_where_python_and_git_count_differently() -> None:
    odd = ChangedFile("m.py", Change.MODIFIED, FILE.hunks, b"a\rb\nc\n")
    assert locate(odd, Span(2, 0, 2, 1)) is Placement.FILE


def test_a_related_place_on_an_added_line_counts() -> None:
    far = Span(90, 0, 90, 5)
    assert touched(FILE.added, far, (Related(Span(22, 0, 22, 1), "moved here"),))
    assert not touched(FILE.added, far, (Related(Span(30, 0, 30, 1), "made here"),))


def test_a_new_file_is_one_hunk() -> None:
    (hunk,) = whole_file(b"a\nb")
    assert (hunk.added, hunk.after) == ({1, 2}, ("a\n", "b"))
    assert whole_file(b"") == ()


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "", "-- x\n", "++ y\n"]).filter(bool))


@given(before=LINES, after=LINES)
def test_a_diff_takes_each_side_to_the_other(before: list[str], after: list[str]) -> None:
    text = "".join(difflib.unified_diff(before, after, "a/m.py", "b/m.py"))
    hunks = only(text).hunks if text else ()
    assert apply("".join(before), hunks) == "".join(after)
    assert reverse("".join(after), hunks) == "".join(before)


def test_a_hunk_that_does_not_fit_is_noticed() -> None:
    hunks = only("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x\n+y\n").hunks
    with pytest.raises(UnfitHunkError):
        apply("z\n", hunks)
