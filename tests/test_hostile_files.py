"""Files made to break a reader: read or refused with a sentence, quickly, never a crash."""

from __future__ import annotations

import ast
import random
import sysconfig
import time
from pathlib import Path

import pytest

from analyzers.source import MAX_CHARACTERS, MAX_DEPTH, MAX_LINE, Source, Unreadable, read_source
from analyzers.suppressions import find_suppressions

LIBRARY = Path(sysconfig.get_path("stdlib"))
SECONDS = 10  # a file of this kind takes well under one; the machine may be busy

DEEP = "The code is nested more than 200 levels deep, which the analysis doesn't follow."
N = 30_000


def lines_of(part: str, count: int = N) -> str:
    return "x = (\n" + part * count + "1\n)"


HOSTILE = {
    "round brackets": "(" * 3000 + "1" + ")" * 3000,
    "square brackets": "[" * 3000 + "]" * 3000,
    "a dictionary in a dictionary": "{1:" * 3000 + "1" + "}" * 3000,
    "calls in calls": "f(" * 3000 + ")" * 3000,
    "minus signs": "x = " + "-" * 50_000 + "1",
    "not": lines_of("not\n"),
    "lambda": lines_of("lambda:\n"),
    "attributes": "x = (a\n" + ".b\n" * N + ")",
    "calls of calls": "x = f" + "()" * 40_000,
    "a long sum": lines_of("1 +\n"),
    "a long comparison": lines_of("1 <\n"),
    "conditional expressions": lines_of("a if b else\n"),
    "elif": "if a: pass\n" + "elif a: pass\n" * N,
    "else if": "".join(" " * n + "if a:\n" for n in range(99)) + " " * 99 + "pass\n",
    "functions in functions": "".join(" " * n + "def f():\n" for n in range(99))
    + " " * 99
    + "pass",
    "await": lines_of("await\n"),
    "powers": lines_of("2 **\n"),
    "strings in f-strings": 'f"{' * 3000 + "1" + '}"' * 3000,
    "formats in f-strings": 'f"{a:' + "{a:" * 3000 + "}" * 3001 + '"',
    "brackets hidden by a newer f-string": "f\"{'" + '"' + "'}\" " + "(" * 3000,
    "parameters of types": "def f" + "[T" * 3000 + "]" * 3000 + "(): pass",
    "open brackets": "x = " + "([{" * 60,
    "an open string": '"""' + "x" * 100_000,
    "decorators": "@d\n" * N + "def f(): pass",
    "a line of 10 MB": "x = 1;" * 1_700_000,
    "a 3 MB file": "x = 1\n" * 500_000,
    "a long line": "x = '" + "a" * 150_000 + "'",
    "NUL": "x = 1\0\n",
    "only NUL": b"\0" * 1000,
    "an image": bytes(range(256)) * 40,
    "UTF-16": "x = 1\n".encode("utf-16"),
    "Python 2": "print 'a'\nexec 'b'\nraise E, 'c'\n`d`\n",
    "a number of 10,000 digits": "x = " + "1" * 10_000,
    "line continuations": "x = 1 + \\\n" + "\\\n" * N + "1",
    "suppressions without end": "x = 1  # hostside: ignore[GPU105]\n" * N,
    "a comment of brackets": "# " + "hostside: ignore[" * 4000,
    "many names of one target": "a = " * 200 + "1",
    "chained comparisons of calls": "x = " + "f() < " * 5000 + "f()",
    "a cookie of quadratic cost": b"# coding: punycode\n" + b"a-b" * 300_000,
    "star imports of nothing": "from " + "." * 20_000 + " import x",
    "wide characters": "x = '" + "é" * 30_000 + "'; y = " + "f()" + " + f()" * 100,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_read_or_refused_in_time(text: str | bytes) -> None:
    start = time.process_time()
    source = read_source("hostile.py", text)
    if isinstance(source, Source):
        find_suppressions(source)
        for node in ast.walk(source.tree):
            source.span(node)
    else:
        assert source.reason.endswith(".")
        assert "\n" not in source.reason
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("(" * 3000 + ")" * 3000, DEEP, id="brackets"),
        pytest.param("x = 0" + " + 1" * 250, DEEP, id="a sum"),
        pytest.param("if a: pass\n" + "elif a: pass\n" * 250, DEEP, id="elif"),
        pytest.param(
            "x" * (MAX_CHARACTERS + 1),
            "The file is 2,000,001 characters long; at most 2,000,000 are read.",
            id="long",
        ),
        pytest.param(
            "x" * (MAX_LINE + 1),
            "A line is 100,001 characters long; at most 100,000 are read.",
            id="wide",
        ),
    ],
)
def test_a_limit_of_ours_skips_the_file(text: str, reason: str) -> None:
    assert read_source("x.py", text) == Unreadable(reason, skipped=True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = 0" + " + 1" * 150, id="a sum of 150"),
        pytest.param("if a: pass\n" + "elif a: pass\n" * 150, id="150 times elif"),
        pytest.param("x = " + "[" * 90 + "]" * 90, id="90 brackets"),
        pytest.param("x = a" + ".b()" * 60, id="60 calls in a chain"),
    ],
)
def test_what_real_files_have_is_read(text: str) -> None:
    assert isinstance(read_source("x.py", text), Source)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_tree_is_deeper_than_said(text: str | bytes) -> None:
    source = read_source("hostile.py", text)
    depth, level = 0, [source.tree] if isinstance(source, Source) else []
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    assert depth <= MAX_DEPTH


def mutations(data: bytes, seed: int) -> list[bytes]:
    """The file cut, swapped, and with bytes changed."""
    chance = random.Random(seed)
    a, b = sorted(chance.randrange(len(data)) for _ in range(2))
    noise = bytearray(data)
    for _ in range(8):
        noise[chance.randrange(len(noise))] = chance.randrange(256)
    brackets = bytearray(data)
    for _ in range(8):
        brackets[chance.randrange(len(brackets))] = chance.choice(b"()[]{}\"'\\\n:#f")
    return [data[:a], data[b:], data[b:] + data[a:b] + data[:a], bytes(noise), bytes(brackets)]


@pytest.mark.parametrize("name", ["textwrap.py", "string.py", "colorsys.py", "this.py", "queue.py"])
def test_a_damaged_file_never_raises(name: str) -> None:
    data = (LIBRARY / name).read_bytes()
    for seed in range(12):
        for damaged in mutations(data, seed):
            source = read_source(name, damaged)
            if isinstance(source, Source):
                find_suppressions(source)
