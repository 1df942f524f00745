"""One file as the analysis reads it: text, syntax tree, and how places in one map to the other.

`read_source` is total: whatever the bytes hold, it gives a `Source` or one sentence why not.

How deep a tree may be. Of 5,000 real files (standard library, site-packages, ten GPU
repositories) the deepest tree has 48 levels; long `elif` chains and `a + b + c …` of generated
code reach the low hundreds. `MAX_DEPTH` is 200, counted in nodes from the module down. A recursive
walk over a `Source` therefore never nests more than 200 nodes; at up to 12 Python frames a node it
stays under 2,400 frames, so an evaluator that raises the recursion limit to 5,000 cannot overflow
(calls from Python to Python use no C stack since 3.11), and one that takes three frames a node
needs no such care. `ast` itself answers brackets, `-`, `not`, `lambda`, `elif`, `.b` and `()`
chains of any length with an exception, in linear time, so brackets aren't counted beforehand.
"""

from __future__ import annotations

import ast
import bisect
import codecs
import io
import re
import tokenize
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from analyzers.dryrun.syntax import PARTS
from analyzers.finding import Span

MAX_CHARACTERS = 2_000_000
MAX_LINE = 100_000
MAX_DEPTH = 200

_LINE_END = re.compile(r"\r\n|\r|\n")
_INDENT = re.compile(r"\ufeff?([ \t\f]*)")
# As PEP 263 has it.
_CODING_LINE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")
_BOM = "\ufeff"
# Every node but these few inner ones (context, operator, wrapper) owns a character of its span.
_NODES_WITHOUT_TEXT = 4
# Codecs that Python accepts in a coding line but that don't hold text as programs are written, or
# take quadratic time.
_NO_SOURCE_CODECS = frozenset(
    {"punycode", "idna", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7"}
)
_PYTHON_2 = re.compile(r"Missing parentheses in call to '(print|exec)|leading zeros in decimal")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a file isn't analysed: one sentence.

    `skipped` when a limit of ours stood in the way, not set when it isn't Python that we can read.
    """

    reason: str
    skipped: bool


@dataclass(frozen=True, eq=False)
class Source:
    """A file's text (a byte order mark included), its tree, and its lines without their ends."""

    path: str
    text: str
    tree: ast.Module
    lines: tuple[str, ...]
    parsed: str = ""  # what `ast` read, where newer syntax was levelled: same length, same lines

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each line starts in `text`; one more, for the end of the text."""
        return line_starts(self.text)

    def offset(self, line: int, column: int) -> int:
        """The place in `text` of a line (from 1) and a column (from 0, in characters)."""
        start = self.starts[min(line, len(self.starts)) - 1]
        return min(start + column, len(self.text))

    def position(self, offset: int) -> tuple[int, int]:
        """The line (from 1) and column (from 0) of a place in `text`."""
        line = max(bisect.bisect_right(self.starts, offset, hi=max(len(self.lines), 1)), 1)
        return line, offset - self.starts[line - 1]

    def segment(self, span: Span) -> str:
        """The text of `span`, line ends as they are in the file."""
        start = self.offset(span.line, span.column)
        return self.text[start : self.offset(span.end_line, span.end_column)]

    def indent_of(self, line: int) -> str:
        """The blanks that a line (from 1) begins with."""
        match = _INDENT.match(self.lines[line - 1])
        return match[1] if match else ""

    def span(self, node: ast.AST) -> Span:
        """The place of a node in characters; of its parts, where a node has no place itself."""
        line: int | None = getattr(node, "lineno", None)
        if line is None:
            return self._span_of_parts(node)
        end_line: int = getattr(node, "end_lineno", None) or line
        column: int = getattr(node, "col_offset", 0)
        end_column: int = getattr(node, "end_col_offset", None) or column
        if line not in self._wide and end_line not in self._wide:
            return Span(line, column, end_line, end_column)
        return Span(
            line, self._characters(line, column), end_line, self._characters(end_line, end_column)
        )

    def _span_of_parts(self, node: ast.AST) -> Span:
        if isinstance(node, ast.Module):
            return Span(1, 0, max(len(self.lines), 1), len(self.lines[-1]) if self.lines else 0)
        spans = [self.span(part) for part in ast.walk(node) if hasattr(part, "lineno")]
        if not spans:
            return Span(1, 0, 1, 0)
        first = min(spans)
        last = max((span.end_line, span.end_column) for span in spans)
        return Span(first.line, first.column, *last)

    def _characters(self, line: int, offset: int) -> int:
        """The column in characters of a byte offset as `ast` counts it."""
        text = self._parsed_lines[line - 1] if line <= len(self._parsed_lines) else ""
        mark = 1 if line == 1 and text.startswith(_BOM) else 0
        if text.isascii():
            return min(offset, len(text))
        table = self._columns.get(line)
        if table is None:
            data = text[mark:].encode("utf-8")
            table = self._columns[line] = (
                0,
                *accumulate(1 if byte & 0xC0 != 0x80 else 0 for byte in data),
            )
        return table[min(offset, len(table) - 1)] + mark

    @cached_property
    def plain(self) -> bool:
        """Whether columns as `ast` counts them are columns in characters all over the file."""
        return not self._wide

    @cached_property
    def _wide(self) -> frozenset[int]:
        """The lines in which a column in characters may be another than one in bytes."""
        if (self.parsed or self.text).isascii():
            return frozenset()
        return frozenset(n for n, line in enumerate(self._parsed_lines, 1) if not line.isascii())

    @cached_property
    def _parsed_lines(self) -> tuple[str, ...]:
        return split_lines(self.parsed) if self.parsed else self.lines

    @cached_property
    def _columns(self) -> dict[int, tuple[int, ...]]:
        return {}


def split_lines(text: str) -> tuple[str, ...]:
    r"""The lines as `ast` counts them: ended by \n, \r\n or \r, never by a form feed."""
    lines = tuple(_LINE_END.split(text) if "\r" in text else text.split("\n"))
    return lines if lines[-1] else lines[:-1]


def line_starts(text: str) -> tuple[int, ...]:
    """Where each line of the text starts; one more, for its end."""
    if "\r" in text:
        starts = (0, *(match.end() for match in _LINE_END.finditer(text)))
    else:
        *lengths, _ = map(len, text.split("\n"))
        starts = (0, *accumulate(length + 1 for length in lengths))
    return starts if starts[-1] == len(text) and text else (*starts, len(text))


def read_source(path: str, text: str | bytes) -> Source | Unreadable:
    """The file as the analysis needs it, or why it can't be had; raises on no input."""
    if len(text) > MAX_CHARACTERS:
        return Unreadable(
            f"The file is {len(text):,} characters long; at most {MAX_CHARACTERS:,} are read.", True
        )
    decoded = _decode(text) if isinstance(text, bytes) else text
    if isinstance(decoded, Unreadable):
        return decoded
    if "\0" in decoded:
        return Unreadable("The file holds NUL bytes, so it isn't Python source text.", False)
    lines = split_lines(decoded)
    longest = max(map(len, lines), default=0)
    if longest > MAX_LINE:
        return Unreadable(
            f"A line is {longest:,} characters long; at most {MAX_LINE:,} are read.", True
        )
    return _parse(path, decoded, lines)


def _parse(path: str, text: str, lines: tuple[str, ...]) -> Source | Unreadable:
    tree = _tree(text)
    parsed = ""
    if isinstance(tree, SyntaxError):
        from analyzers.levelling import level  # few files need it

        parsed = level(text)
        levelled = _tree(parsed) if parsed else tree
        if not isinstance(levelled, ast.Module):
            return _not_python(tree)
        tree = levelled
    if isinstance(tree, Unreadable):
        return tree
    if _deeper_than(tree, MAX_DEPTH, split_lines(parsed) if parsed else lines):
        return _TOO_DEEP
    return Source(path, text, tree, lines, parsed)


_TOO_DEEP = Unreadable(
    f"The code is nested more than {MAX_DEPTH} levels deep, which the analysis doesn't follow.",
    True,
)


def _tree(text: str) -> ast.Module | SyntaxError | Unreadable:
    try:
        with warnings.catch_warnings():  # invalid escapes are the file's affair
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix(_BOM))
    except SyntaxError as error:
        return error
    except (RecursionError, MemoryError):
        return _TOO_DEEP
    except UnicodeError:
        return Unreadable("The file holds lone surrogates, so it isn't Unicode text.", False)
    except ValueError as error:
        return Unreadable(f"Python can't read the file: {error}.", False)


def _not_python(error: SyntaxError) -> Unreadable:
    message = (error.msg or "invalid syntax").rstrip(".")
    if "too many nested parentheses" in message or "too many statically nested" in message:
        return _TOO_DEEP
    line = f"Line {error.lineno}" if error.lineno else "The file"
    if _PYTHON_2.search(message):
        return Unreadable(f"{line} is Python 2, which isn't analysed.", False)
    return Unreadable(f"{line} isn't valid Python: {message}.", False)


def _decode(data: bytes) -> str | Unreadable:
    """The text of a file by its byte order mark, its coding line, or as UTF-8, as Python does."""
    try:
        name = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        if name in _NO_SOURCE_CODECS or codecs.lookup(name).name in _NO_SOURCE_CODECS:
            raise LookupError
    except (SyntaxError, LookupError, ValueError):
        if any(_CODING_LINE.match(line) for line in data.splitlines()[:2]):
            return Unreadable("The file's coding line names no encoding that it is in.", False)
        name = "utf-8"
    try:
        # "utf-8-sig" drops the mark, but an edited file must keep it.
        return data.decode("utf-8" if name == "utf-8-sig" else name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Unreadable(f"Line {line} isn't {name} text, the encoding of the file.", False)
    except (LookupError, ValueError):
        return Unreadable(f"The file's encoding, {name}, can't be read.", False)


def _deeper_than(tree: ast.Module, limit: int, lines: Sequence[str]) -> bool:
    """Whether a path from the root has more than `limit` nodes.

    No node is deeper than its lines are long, so that the short ones, nearly all, need no look.
    """
    lengths = (*map(len, lines), 0)
    ends = [0, *accumulate(lengths)]  # characters up to the end of each line

    def may_hold(node: Any, least: int) -> bool:
        line: int | None = getattr(node, "lineno", None)
        if line is None:
            return True
        last: int = node.end_lineno
        return ends[last] - ends[line - 1] > least

    level: list[ast.AST] = [tree]
    for depth in range(1, limit):
        least = limit - depth - _NODES_WITHOUT_TEXT
        level = [child for node in level for child in _parts(node) if may_hold(child, least)]
        if not level:
            return False
    return any(True for node in level for _ in ast.iter_child_nodes(node))


def _parts(node: ast.AST) -> list[Any]:
    """The nodes right below, except operators and contexts, which have none themselves."""
    found: list[Any] = []
    for name in PARTS[node.__class__]:
        value = getattr(node, name)
        if value.__class__ is list:
            found += filter(None, value)  # a mapping has None for the key of `**rest`
        elif value is not None:
            found.append(value)
    return found
