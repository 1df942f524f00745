"""Comments that silence a rule, what they silence, and which of them do nothing any more.

`# hostside: ignore[GPU105] reason`, with a code, a rule's name or several; without brackets for
every rule; `# hostside: ignore-file[…]` among the comments at the head of a file; and
`# noqa: GPU105`, also between the codes of other tools. A bare `# noqa` is not meant for us.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from analyzers.blocks import first_line
from analyzers.finding import Finding, Span
from analyzers.source import Source
from analyzers.tokens import NotTokens, Token, comments

_WORDS = re.compile(r"hostside\s*:|noqa\s*:[^\r\n]*gpu", re.IGNORECASE)
_OURS = re.compile(
    r"#\s*hostside\s*:\s*(?P<word>[\w-]*)\s*(?P<bracket>\[(?P<codes>[^\]#]*)(?P<closed>\])?)?"
    r"(?P<reason>[^#]*)",
    re.IGNORECASE,
)
_NOQA = re.compile(r"#\s*noqa\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*)", re.IGNORECASE)
_OUR_CODE = re.compile(r"GPU[0-9]+", re.IGNORECASE)
_SEPARATOR = re.compile(r"[\s,]+")

Lines = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Suppression:
    """A comment that silences rules, and where."""

    span: Span
    rules: tuple[str, ...]  # codes and names as written; empty for all
    reason: str = ""
    lines: frozenset[int] = frozenset()  # where it counts; empty for the whole file
    statement: Lines = (0, 0)  # the lines of the statement it belongs to
    noqa: bool = False
    mistake: str = ""  # a sentence, when it can have no effect

    def silences(self, finding: Finding) -> bool:
        """Whether the finding is meant."""
        return self.names(finding) and self.covers(finding.span)

    def names(self, finding: Finding) -> bool:
        """Whether the finding's rule is among those it lists."""
        if self.mistake:
            return False
        return not self.rules or finding.rule in self.rules or finding.name in self.rules

    def covers(self, span: Span) -> bool:
        """Whether a place is among its lines: its first line, or all of it in the statement."""
        if not self.lines or span.line in self.lines:
            return True
        first, last = self.statement
        return first <= span.line and span.end_line <= last and span.touches(self.lines)


@dataclass(frozen=True, slots=True)
class Complaint:
    """A suppression that does nothing, wholly or in part, and why: a sentence."""

    suppression: Suppression
    text: str


@dataclass(frozen=True, slots=True)
class Split:
    """Findings after suppression."""

    kept: tuple[Finding, ...]
    suppressed: tuple[tuple[Finding, Suppression], ...]
    unused: tuple[Complaint, ...]


def split(
    findings: Iterable[Finding],
    suppressions: tuple[Suppression, ...],
    known: Collection[str] | None = None,
    ran: Collection[str] | None = None,
) -> Split:
    """The findings that stand, those silenced and by what, and the comments that do nothing.

    `known` holds the codes and names of all rules, `ran` those of the rules that had their say:
    only of these can it be said that there was nothing to silence.
    """
    kept: list[Finding] = []
    suppressed: list[tuple[Finding, Suppression]] = []
    used: dict[int, set[str]] = {}
    for finding in findings:
        matching = [n for n, item in enumerate(suppressions) if item.silences(finding)]
        if matching:
            suppressed.append((finding, suppressions[matching[0]]))
        else:
            kept.append(finding)
        for number in matching:
            used.setdefault(number, set()).update(("", finding.rule, finding.name))
    unused = (
        Complaint(item, text)
        for number, item in enumerate(suppressions)
        for text in _complaints(item, used.get(number, set()), known, ran)
    )
    return Split(tuple(kept), tuple(suppressed), tuple(unused))


def _complaints(
    item: Suppression,
    used: set[str],
    known: Collection[str] | None,
    ran: Collection[str] | None,
) -> Iterator[str]:
    if item.mistake:
        yield item.mistake
        return
    if not item.rules and not used:
        yield "There is nothing here to ignore: remove the comment."
    for rule in item.rules:
        if known is not None and rule not in known:
            if not item.noqa:  # another tool's code, perhaps
                yield f"There is no rule {rule}; `hostside rules` lists them all."
        elif rule not in used and (ran is None or rule in ran):
            yield f"{rule} has nothing here to ignore: remove it from the comment."


def find_suppressions(source: Source) -> tuple[Suppression, ...]:
    """The suppression comments of a file, in order."""
    lowered = source.text.lower()  # the pattern takes longer than these two
    if "hostside" not in lowered and "noqa" not in lowered:
        return ()
    if not _WORDS.search(source.text):
        return ()
    try:
        found = comments(source.text)
    except NotTokens:
        return ()
    meant = [comment for comment in found if _WORDS.search(comment.text)]
    if not meant:
        return ()
    statements = statements_of(source.tree)
    head = _end_of_head(source.tree)
    return tuple(
        suppression for comment in meant for suppression in _read(source, comment, statements, head)
    )


def _read(
    source: Source, comment: Token, statements: dict[int, Lines], head: int
) -> Iterator[Suppression]:
    line, column = source.position(comment.start)
    alone = not source.lines[line - 1][:column].strip(" \t\f\ufeff")
    lines, statement = _reach(source, line, statements, alone=alone)
    for match in _OURS.finditer(comment.text):
        span = _span(line, column, match)
        mistake = _mistake(match, alone and line < head)
        whole_file = match["word"].lower() == "ignore-file" and not mistake
        rules, reason = _rules_and_reason(match)
        yield Suppression(
            span, rules, reason, frozenset() if whole_file else lines, statement, mistake=mistake
        )
    for match in _NOQA.finditer(comment.text):
        rules = tuple(code.upper() for code in _OUR_CODE.findall(match["codes"]))
        if rules:
            # The other tools don't look at the line below, so a comment on its own is no noqa.
            lines = frozenset({line}) if alone else lines
            yield Suppression(_span(line, column, match), rules, "", lines, statement, noqa=True)


def _span(line: int, column: int, match: re.Match[str]) -> Span:
    length = len(match[0].rstrip())
    return Span(line, column + match.start(), line, column + match.start() + length)


def _mistake(match: re.Match[str], in_head: bool) -> str:
    word = match["word"].lower()
    if word not in {"ignore", "ignore-file"}:
        return f"`hostside: {match['word']}` means nothing; write `hostside: ignore[GPU105]`."
    if match["bracket"] and not match["closed"]:
        return "The list of rules isn't closed by `]`, so nothing is ignored."
    if match["bracket"] and not match["codes"].strip(" ,"):
        return "The list of rules is empty, so nothing is ignored."
    if word == "ignore-file" and not in_head:
        return "`ignore-file` counts only above the file's first statement."
    return ""


def _rules_and_reason(match: re.Match[str]) -> tuple[tuple[str, ...], str]:
    reason = match["reason"].strip()
    words = match["codes"] or ""
    if not match["bracket"]:
        # `ignore GPU105` is meant as `ignore[GPU105]`, not as "ignore everything".
        bare = re.match(r"(?:GPU[0-9]+[\s,]*)+", reason, re.IGNORECASE)
        words, reason = (bare[0], reason[bare.end() :]) if bare else ("", reason)
    names = (word for word in _SEPARATOR.split(words) if word)
    rules = tuple(word.upper() if _OUR_CODE.fullmatch(word) else word.lower() for word in names)
    return rules, reason.lstrip(" :-–—")


def _reach(
    source: Source, line: int, statements: dict[int, Lines], *, alone: bool
) -> tuple[frozenset[int], Lines]:
    """The lines that a comment speaks of, and the statement they belong to."""
    if alone:
        line += 1
        while line <= len(source.lines) and source.lines[line - 1].lstrip().startswith("#"):
            line += 1
    first, last = statements.get(line, (line, line))
    if line == first or (line == last and not alone):
        return frozenset(range(first, last + 1)), (first, last)
    return frozenset({line}), (first, last)


def statements_of(tree: ast.Module) -> dict[int, Lines]:
    """For each line the first and last line of its statement; of a compound one, of its head."""
    found: dict[int, Lines] = {}
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                first, last = _head(child)
                for line in range(first, last + 1):
                    known = found.get(line, (first, last))
                    found[line] = (min(first, known[0]), max(last, known[1]))
                stack.append(child)
            elif isinstance(child, ast.match_case):
                stack.append(child)
    return found


def _head(node: ast.stmt | ast.ExceptHandler) -> Lines:
    first = first_line(node)
    if isinstance(node, ast.Match):
        return first, node.subject.end_lineno or first
    body: list[ast.stmt] = getattr(node, "body", [])
    if not body:
        return first, node.end_lineno or first
    return first, max(node.lineno, first_line(body[0]) - 1)


def _end_of_head(tree: ast.Module) -> int:
    """The line of the first statement that isn't the docstring."""
    is_docstring = tree.body and ast.get_docstring(tree, clean=False) is not None
    rest = tree.body[1:] if is_docstring else tree.body
    return first_line(rest[0]) if rest else sys.maxsize
