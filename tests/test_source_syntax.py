"""Syntax newer than the interpreter is read, and every place holds."""

from __future__ import annotations

import ast
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.levelling import level
from analyzers.source import Source, read_source, split_lines
from analyzers.tokens import NotTokens, tokens

on_311 = pytest.mark.skipif(sys.version_info >= (3, 12), reason="this interpreter reads it itself")


def calls(text: str) -> list[str]:
    """The calls of a text, as they are written in it."""
    source = read_source("module.py", text)
    assert isinstance(source, Source), source
    nodes = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    return sorted(source.segment(source.span(node)) for node in nodes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("def f[T: int = str](x): g(x)", ["g(x)"], id="695 and 696, a function"),
        pytest.param(
            "class A[\n    T,  # one\n    *U,\n](b(c)):\n    d()\n",
            ["b(c)", "d()"],
            id="695 over lines",
        ),
        pytest.param("class A[\r\n T\r\n]:\r\n  d()\r\n", ["d()"], id="695 with CRLF"),
        pytest.param("type X[T] = list[T]; f()", ["f()"], id="695, a type alias"),
        pytest.param("if a:\n  type X = g()\n", ["g()"], id="695, an indented type alias"),
        pytest.param(
            'x = f"{d["k"].item():.3f}"; f()', ['d["k"].item()', "f()"], id="701, same quotes"
        ),
        pytest.param('f"é{d["é"]}"; f(1)', ["f(1)"], id="701 after wide characters"),
        pytest.param('x = f"{"\\n".join(a())}"', ['"\\n".join(a())', "a()"], id="701, a backslash"),
        pytest.param('x = f"{\n a() # read\n}" "b"', ["a()"], id="701, lines and a comment"),
        pytest.param('f"{f"{f"{a()}"}"}"', ["a()"], id="701, three deep"),
        pytest.param('f"{x:{w["k"]}.{p()}f} {q()}"', ["p()", "q()"], id="701 in a format"),
        pytest.param('f"{a() = # why\n }"', ["a()"], id="701, for debugging"),
        pytest.param("f'{a()!r  }'", ["a()"], id="701, blanks after a conversion"),
        pytest.param('t"{a()!r:{w()}} {b()=}"', ["a()", "b()", "w()"], id="750, a template"),
        pytest.param("try: a()\nexcept B, C: d()\n", ["a()", "d()"], id="758"),
        pytest.param("try: a()\nexcept* B, C: d()\n", ["a()", "d()"], id="758, groups"),
        pytest.param(
            "x = [*a() for b in c()]; {**d() for e in f}", ["a()", "c()", "d()"], id="798"
        ),
        pytest.param("lazy import torch\nlazy from a import b\nf()\n", ["f()"], id="810"),
        pytest.param("\ufefflazy import torch\nf()\n", ["f()"], id="810 behind a mark"),
    ],
)
def test_newer_syntax_is_read_in_place(text: str, found: list[str]) -> None:
    assert calls(text) == sorted(found)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("type = 5\ntype(x)\ntype[x]\n", id="type as a name"),
        pytest.param("lazy = 3\nlazy.x\n", id="lazy as a name"),
        pytest.param("x: type = 3", id="type as an annotation"),
        pytest.param("f(*a, [b for b in c])", id="a star before a comprehension"),
        pytest.param("f\"{a['b']} {c!r:>{w}}\" '{'", id="an older f-string"),
        pytest.param("try: pass\nexcept (A, B) as e: pass", id="older alternatives"),
        pytest.param("s = 'type X = 1'  # type X = 1", id="in a string and a comment"),
    ],
)
@on_311
def test_older_syntax_is_left_alone(text: str) -> None:
    assert level(text) == ""


@on_311
@pytest.mark.parametrize(
    ("text", "levelled"),
    [
        pytest.param('f"{d["k"]}"', "f\"{d['k']}\"", id="an f-string stays one where quotes do"),
        pytest.param(
            'f"{d["k"]["\'"]}" "x"', '(  d["k"]["\'"],    )', id="a tuple where they do not"
        ),
        pytest.param("type X[T] = int", "X         = int", id="a type alias"),
        pytest.param("except A, B:", "except A| B:", id="alternatives"),
    ],
)
def test_what_newer_syntax_becomes(text: str, levelled: str) -> None:
    assert level(text) == levelled


PIECES = [
    *[
        "def f[T](x): ",
        "class A[T]: ",
        "type X = ",
        "lazy import ",
        "except A, B:",
        "x",
        "(",
        ")",
        "[",
    ],
    *[
        "]",
        "{",
        "}",
        "f'",
        'f"',
        't"',
        '"',
        "'",
        '"""',
        'f"""',
        ":",
        "!r",
        "=",
        "\\",
        "\n",
        "\r\n",
        "#",
    ],
    *[" ", "for ", "*", ",", ";", "\n    ", "é", "f'''", "rf'", "\\N{DASH}", "{{", "}}"],
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_levelling_keeps_length_and_lines(text: str) -> None:
    levelled = level(text)
    if levelled:
        assert list(map(len, split_lines(levelled))) == list(map(len, split_lines(text)))
        assert len(levelled) == len(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_tokens_follow_one_another(text: str) -> None:
    try:
        found = list(tokens(text))
    except NotTokens:
        return
    assert all(text[token.start : token.end] == token.text for token in found)
    ends = [0, *(token.end for token in found)]
    assert all(end <= token.start < token.end for end, token in zip(ends, found, strict=False))
