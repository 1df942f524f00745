"""A file is read to a tree whose places hold in the file's own text, or said why not."""

from __future__ import annotations

import ast
import io
import sys
import sysconfig
import tokenize
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.blocks import statement_at
from analyzers.finding import Span
from analyzers.source import Source, Unreadable, read_source, split_lines
from analyzers.tokens import comments

LIBRARY = sorted(
    path
    for path in Path(sysconfig.get_path("stdlib")).rglob("*.py")
    if "site-packages" not in path.parts
)
SAMPLE = LIBRARY[::43]


def read(text: str | bytes) -> Source:
    source = read_source("module.py", text)
    assert isinstance(source, Source), source
    return source


def refused(text: str | bytes) -> Unreadable:
    source = read_source("module.py", text)
    assert isinstance(source, Unreadable)
    return source


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", (), id="an empty file"),
        pytest.param("a\nb", ("a", "b"), id="no line end at the end"),
        pytest.param("a\r\nb\rc\n", ("a", "b", "c"), id="every kind of line end"),
        pytest.param(
            "a\x0cb\x0b\x1c\x85\u2028\nc\n", ("a\x0cb\x0b\x1c\x85\u2028", "c"), id="none else"
        ),
        pytest.param("a\n\n", ("a", ""), id="an empty last line"),
    ],
)
def test_lines_end_where_python_ends_them(text: str, lines: tuple[str, ...]) -> None:
    assert split_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "segment", "column"),
    [
        pytest.param("x = 'é'; y = f(x)", "f(x)", 13, id="after a letter of two bytes"),
        pytest.param("x = '😀'; f(x)", "f(x)", 9, id="after a character of four bytes"),
        pytest.param("\ufeffé = f(x)", "f(x)", 5, id="behind a byte order mark"),
        pytest.param("if a:\r\n\tf(\r\n x)\r\n", "f(\r\n x)", 1, id="over two lines with CRLF"),
        pytest.param("a = 1\rb = f(x)\r", "f(x)", 4, id="lines that end with CR"),
        pytest.param("\x0cf(x)", "f(x)", 1, id="behind a form feed"),
    ],
)
def test_columns_count_characters(text: str, segment: str, column: int) -> None:
    source = read(text)
    (call,) = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    span = source.span(call)
    assert source.segment(span) == segment
    assert span.column == column
    assert source.position(source.offset(span.line, span.column)) == (span.line, span.column)


def test_a_node_without_a_place_is_where_its_parts_are() -> None:
    source = read("def f(a,\n  b=1): pass\n")
    function = source.tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert source.segment(source.span(function.args)) == "a,\n  b=1"
    assert source.span(source.tree) == Span(1, 0, 2, 12)


def test_the_indent_of_a_line_is_what_it_begins_with() -> None:
    source = read("\ufeffif a:\n\tif b:\n\t    c\n")
    assert [source.indent_of(line) for line in (1, 2, 3)] == ["", "\t", "\t    "]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        pytest.param(
            "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1"), "é", id="latin-1"
        ),
        pytest.param(
            "#!x\n# coding: cp1252\nname = '€'\n".encode("cp1252"), "€", id="cp1252, line 2"
        ),
        pytest.param("name = 'é'\n".encode(), "é", id="UTF-8"),
        pytest.param("name = 'é'\n".encode("utf-8-sig"), "é", id="UTF-8 with a mark"),
        pytest.param("# coding: euc-jp\nname = '語'\n".encode("euc-jp"), "語", id="EUC-JP"),
    ],
)
def test_bytes_are_decoded_as_python_does(data: bytes, name: str) -> None:
    source = read(data)
    assignment = source.tree.body[0]
    assert isinstance(assignment, ast.Assign)
    assert isinstance(assignment.value, ast.Constant)
    assert assignment.value.value == name
    assert source.segment(source.span(assignment.value)) == f"'{name}'"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("x = (1,\n", "Line 1 isn't valid Python: '(' was never closed.", id="broken"),
        pytest.param("a\nprint 'x'\n", "Line 2 is Python 2, which isn't analysed.", id="Python 2"),
        pytest.param(
            b"a\nb = '\xff'\n", "Line 2 isn't utf-8 text, the encoding of the file.", id="not UTF-8"
        ),
        pytest.param(
            b"# coding: klingon\n",
            "The file's coding line names no encoding that it is in.",
            id="no such",
        ),
        pytest.param(
            b"# coding: punycode\nx\n",
            "The file's coding line names no encoding that it is in.",
            id="a codec of quadratic cost",
        ),
        pytest.param("a\0b", "The file holds NUL bytes, so it isn't Python source text.", id="NUL"),
        pytest.param(
            "x = '\ud800'",
            "The file holds lone surrogates, so it isn't Unicode text.",
            id="surrogate",
        ),
    ],
)
def test_what_is_not_python_fails_with_a_sentence(text: str | bytes, reason: str) -> None:
    assert refused(text) == Unreadable(reason, skipped=False)


def test_a_files_own_escapes_raise_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read("x = '\\d'\n")


def agrees(path: Path) -> None:
    """The file is read; its places and comments are those that Python itself gives."""
    source = read_source(path.name, path.read_bytes())
    if isinstance(source, Unreadable):
        with pytest.raises((SyntaxError, ValueError)):
            ast.parse(path.read_bytes())
        return
    if source.parsed:
        return  # of a later Python; test_source_syntax.py
    for node in list(ast.walk(source.tree))[::307]:
        expected = ast.get_source_segment(source.text, node)
        if expected is not None:
            assert split_lines(source.segment(source.span(node))) == split_lines(expected)
    lines = io.StringIO(source.text.removeprefix("\ufeff")).readline
    found = [t.string for t in tokenize.generate_tokens(lines) if t.type == tokenize.COMMENT]
    assert [comment.text for comment in comments(source.text)] == found


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.name)
def test_places_and_comments_are_those_of_the_standard_library(path: Path) -> None:
    if path.stat().st_size > 60_000:
        pytest.skip("large: in the slow run")
    agrees(path)


@pytest.mark.slow
def test_the_whole_standard_library_is_read() -> None:
    for path in LIBRARY:
        agrees(path)


def test_the_statement_at_a_place_is_the_innermost() -> None:
    source = read("@d(x)\ndef f():\n  try:\n    a\n  except E:\n    b\n  match c:\n    case 1: d\n")
    names = {
        node.id: statement_at(source, source.span(node))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name)
    }
    kinds = {name: place and type(place.statement).__name__ for name, place in names.items()}
    assert kinds == {
        "d": "Expr",
        "x": "FunctionDef",
        "a": "Expr",
        "E": "Try",
        "b": "Expr",
        "c": "Match",
    }


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert isinstance(read_source("x.py", data), Source | Unreadable)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read_source("x.py", text)
    if isinstance(found, Source):
        assert found.segment(Span(1, 0, len(found.lines) + 1, 0)) == found.text
        for node in ast.walk(found.tree):
            found.segment(found.span(node))


def test_the_recursion_limit_is_left_alone() -> None:
    limit = sys.getrecursionlimit()
    read_source("x.py", "-" * 5000 + "1")
    assert sys.getrecursionlimit() == limit
