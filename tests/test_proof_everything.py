"""Every suggestion the tool prints keeps its promise, on every example that we have.

Checked here independently of `analyzers/proof.py`: the edited file parses, no longer has the
finding, has no new one, keeps every comment, and differs only in the lines that were named.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_traps import FAULTY, QUIET, example

from analyzers.analysis import AnalysisConfig
from analyzers.engine import analyze
from analyzers.finding import Confidence
from analyzers.rule import all_rules
from bot.examine import Item, Job, examine
from bot.suggestions import apply_all

EXAMPLES = Path(__file__).parents[1] / "examples"
EVERY = frozenset(Confidence)


def texts() -> Iterator[tuple[str, str, str]]:
    """Name, path and text of every example."""
    for rule in all_rules():
        for number, bad in enumerate(rule.bad, 1):
            yield f"{rule.code} bad {number}", "example.py", bad.unmarked
            if bad.fixed:
                yield f"{rule.code} fixed {number}", "example.py", type(bad)(bad.fixed).source
        for number, good in enumerate(rule.good, 1):
            yield f"{rule.code} good {number}", "example.py", good
    for name, _, code, head in QUIET:
        yield name, "project/steps.py", example(code, head)
    for name, _, _, path, head, code in FAULTY:
        yield name, path, example(code, head)
    for path in sorted(EXAMPLES.rglob("*.py")):
        name = path.relative_to(EXAMPLES).as_posix()
        yield name, "/".join(name.split("/")[2:]), path.read_text()


every_text = pytest.mark.parametrize(
    ("path", "text"), [pytest.param(path, text, id=name) for name, path, text in texts()]
)


def comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def rules_found(path: str, text: str) -> Counter[str]:
    return Counter(found.rule for found in analyze(path, text, AnalysisConfig()).findings)


def printed(path: str, text: str) -> tuple[Item, ...]:
    """The findings with a suggestion, as a report would show them."""
    job = Job(path, AnalysisConfig(), text=text.encode(), prove=EVERY)
    return tuple(item for item in examine(job).items if item.suggestion)


def complaint(path: str, text: str, item: Item) -> str:
    """What is wrong with an item's suggestion; empty when nothing is."""
    suggestion = item.suggestion
    assert suggestion is not None
    after = apply_all(text, [suggestion])
    try:
        ast.parse(after)
    except SyntaxError as problem:
        return f"it does not parse: {problem}"
    before, now = rules_found(path, text), rules_found(path, after)
    if now[item.finding.rule] >= before[item.finding.rule]:
        return "the finding is still there"
    if new := now - before:
        return f"new findings: {dict(new)}"
    if lost := comments(text) - comments(after):
        return f"comments are gone: {list(lost)}"
    old, mended = text.splitlines(keepends=True), after.splitlines(keepends=True)
    head, tail = suggestion.start_line - 1, len(old) - suggestion.end_line
    if old[:head] != mended[:head] or old[len(old) - tail :] != mended[len(mended) - tail :]:
        return "a line changed that was not named"
    return ""


def complaints(path: str, text: str) -> list[str]:
    """What is wrong with the suggestions of one text, alone and applied together."""
    items = printed(path, text)
    said = [
        f"{item.finding.rule} line {item.finding.span.line}: {problem}"
        for item in items
        if (problem := complaint(path, text, item))
    ]
    clicks = [item.suggestion for item in items if item.suggestion and item.suggestion.one_click]
    together = apply_all(text, clicks)
    ast.parse(together)
    if new := rules_found(path, together) - rules_found(path, text):
        said.append(f"all together bring new findings: {dict(new)}")
    return said


@every_text
def test_every_suggestion_is_as_good_as_it_says(path: str, text: str) -> None:
    assert complaints(path, text) == []


def with_comments(text: str) -> str:
    """The text with a comment of its own behind every statement."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE and "#" not in lines[token.start[0] - 1]:
            lines[token.start[0] - 1] += f"  # remark {token.start[0]}"
    return "\n".join(lines) + "\n"


def indented(text: str) -> str:
    """The text inside a block, multi-line strings left as they are."""
    inside = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.STRING
        for line in range(token.start[0] + 1, token.end[0] + 1)
    }
    lines = [
        line if number in inside or not line else f"\t{line}"
        for number, line in enumerate(text.splitlines(), 1)
    ]
    return "if True:\n" + "\n".join(lines) + "\n"


VARIANTS: dict[str, Callable[[str], str]] = {
    "with a remark behind every statement": with_comments,
    "inside a block, by tabs": indented,
    "with Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "behind a line of other alphabets": lambda text: f"größe = 'слово 🐍'\n{text}",
    "without a line end at the end": lambda text: text.rstrip("\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", [pytest.param(v, id=name) for name, v in VARIANTS.items()])
@every_text
def test_so_it_is_however_the_file_is_written(
    variant: Callable[[str], str], path: str, text: str
) -> None:
    assert complaints(path, variant(text)) == []


def test_the_examples_do_bring_suggestions() -> None:
    if not all_rules():
        pytest.skip("no rules yet")
    head = EXAMPLES / "training-repo" / "head" / "leafscan"
    shown = [
        item for path in sorted(head.glob("*.py")) for item in printed(path.name, path.read_text())
    ]
    assert len(shown) >= 5
