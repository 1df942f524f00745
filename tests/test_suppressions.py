"""Comments silence rules where they stand, and are told apart from what only looks like one."""

from __future__ import annotations

import textwrap

import pytest

from analyzers.finding import Confidence, Finding, Severity, Span
from analyzers.source import Source, read_source
from analyzers.suppressions import Suppression, find_suppressions, split

KNOWN = frozenset({"GPU105", "item-in-hot-loop", "GPU106", "print-of-gpu-value"})


def suppressions(code: str) -> tuple[Suppression, ...]:
    source = read_source("module.py", textwrap.dedent(code).lstrip("\n"))
    assert isinstance(source, Source)
    return find_suppressions(source)


def finding(line: int, end_line: int = 0, rule: str = "GPU105") -> Finding:
    names = {"GPU105": "item-in-hot-loop", "GPU106": "print-of-gpu-value"}
    return Finding(
        Span(line, 0, end_line or line, 5),
        "It waits.",
        Confidence.CERTAIN,
        Severity.WARNING,
        rule=rule,
        name=names[rule],
    )


def silent(code: str, *findings: Finding) -> bool:
    """Whether all of the findings are silenced."""
    return not split(findings, suppressions(code)).kept


@pytest.mark.parametrize(
    ("comment", "quiet"),
    [
        pytest.param("# hostside: ignore[GPU105]", True, id="by code"),
        pytest.param("#hostside:ignore[gpu105]", True, id="without blanks, in lower case"),
        pytest.param("# hostside: ignore[item-in-hot-loop] read once", True, id="by name"),
        pytest.param("# hostside: ignore[GPU101, GPU105]", True, id="one of several"),
        pytest.param("# hostside: ignore", True, id="every rule"),
        pytest.param("# hostside: ignore GPU105: once", True, id="brackets forgotten"),
        pytest.param("# hostside: ignore GPU106", False, id="brackets forgotten, another rule"),
        pytest.param("# hostside: ignore[GPU106]", False, id="another rule"),
        pytest.param("# hostside: ignore[]", False, id="an empty list"),
        pytest.param("# hostside: ignore[GPU105", False, id="a list without end"),
        pytest.param("# hostside: ignored", False, id="another word"),
        pytest.param(
            "# type: ignore  # hostside: ignore[GPU105]", True, id="behind another tool's"
        ),
        pytest.param("# noqa: GPU105", True, id="noqa"),
        pytest.param("# NOQA:E501, GPU105", True, id="noqa among other codes"),
        pytest.param("# noqa: E501 GPU105", True, id="noqa with blanks between"),
        pytest.param("# noqa: GPU106", False, id="noqa for another rule"),
        pytest.param("# noqa", False, id="a bare noqa is not for us"),
        pytest.param("# noqa: E501", False, id="noqa for another tool"),
    ],
)
def test_what_a_comment_silences(comment: str, quiet: bool) -> None:
    assert silent(f"a = 1\nloss.item()  {comment}\n", finding(2)) is quiet
    assert not silent(f"a = 1\nloss.item()  {comment}\n", finding(1))


def test_a_comment_in_a_string_silences_nothing() -> None:
    assert suppressions('x = "# hostside: ignore"\ny = """\n# noqa: GPU105\n"""\n') == ()
    assert suppressions("f'{x}  # hostside: ignore'\n") == ()


def test_a_comment_within_newer_syntax_is_found() -> None:
    (found,) = suppressions('x = f"{d["#"]}"  # hostside: ignore[GPU105]\n')
    assert found.span == Span(1, 17, 1, 43)


STATEMENT = """
    before()
    x = f(
        a,
        b.item(),
        c.item(
        ),
    ){}
    after()
"""


@pytest.mark.parametrize(
    ("line", "at", "quiet"),
    [
        pytest.param(2, finding(4), True, id="on the statement's first line"),
        pytest.param(4, finding(4), True, id="on the flagged line"),
        pytest.param(6, finding(5, 6), True, id="on the flagged expression's last line"),
        pytest.param(7, finding(4), True, id="on the statement's last line"),
        pytest.param(3, finding(4), False, id="on another line of the statement"),
        pytest.param(1, finding(4), False, id="on the statement before"),
        pytest.param(8, finding(4), False, id="on the statement after"),
    ],
)
def test_a_statement_over_several_lines(line: int, at: Finding, quiet: bool) -> None:
    lines = textwrap.dedent(STATEMENT.format("")).strip("\n").split("\n")
    lines[line - 1] += "  # hostside: ignore[GPU105]"
    assert silent("\n".join(lines) + "\n", at) is quiet


@pytest.mark.parametrize(
    ("code", "at", "quiet"),
    [
        pytest.param("{}\nx.item()\n", 2, True, id="above the statement"),
        pytest.param("{}\n# more\nx.item()\n", 3, True, id="with a comment between"),
        pytest.param("{}\n\nx.item()\n", 3, False, id="with an empty line between"),
        pytest.param("{}\nf(\n  x.item()\n)\n", 3, True, id="above a statement of several lines"),
        pytest.param("f(\n  {}\n  x.item()\n)\n", 3, True, id="above a line of a statement"),
        pytest.param(
            "{}\nfor a in x.tolist():\n  b.item()\n", 2, True, id="above a loop: its head"
        ),
        pytest.param(
            "{}\nfor a in x.tolist():\n  b.item()\n", 3, False, id="above a loop: not its body"
        ),
        pytest.param("{}\n@d\ndef f(\n  a=b.item(),\n): pass\n", 4, True, id="above a decorator"),
        pytest.param("if a:\n  {}\n  b.item()\n", 3, True, id="first in a block"),
        pytest.param("x.item()\n{}\n", 1, False, id="below the statement"),
    ],
)
def test_a_comment_on_its_own_speaks_of_what_is_below(code: str, at: int, quiet: bool) -> None:
    assert silent(code.format("# hostside: ignore[GPU105]"), finding(at)) is quiet


def test_a_noqa_on_its_own_speaks_of_nothing() -> None:
    assert not silent("# noqa: GPU105\nx.item()\n", finding(2))


def test_a_finding_about_a_whole_loop_is_not_silenced_from_within() -> None:
    code = "for a in b:\n    c.item()  # hostside: ignore[GPU105]\n"
    assert silent(code, finding(2))
    assert not silent(code, finding(1, 2))


@pytest.mark.parametrize(
    ("code", "quiet"),
    [
        pytest.param(
            '"""Doc."""\n# hostside: ignore-file[GPU105]\nimport x\n', True, id="in the head"
        ),
        pytest.param("# hostside: ignore-file\n", True, id="every rule, nothing else in the file"),
        pytest.param("import x\n# hostside: ignore-file[GPU105]\n", False, id="below a statement"),
        pytest.param("import x  # hostside: ignore-file[GPU105]\n", False, id="beside a statement"),
    ],
)
def test_a_whole_file_is_silenced_in_its_head_only(code: str, quiet: bool) -> None:
    assert silent(code, finding(77)) is quiet


def complaints(code: str, *findings: Finding, ran: frozenset[str] | None = None) -> list[str]:
    result = split(findings, suppressions(code), KNOWN, ran)
    return [complaint.text for complaint in result.unused]


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        pytest.param("# hostside: ignore[GPU105]", [], id="used"),
        pytest.param("# noqa: GPU105, E501", [], id="used noqa"),
        pytest.param(
            "# hostside: ignore[GPU106]",
            ["GPU106 has nothing here to ignore: remove it from the comment."],
            id="unused",
        ),
        pytest.param(
            "# hostside: ignore[GPU105, print-of-gpu-value]",
            ["print-of-gpu-value has nothing here to ignore: remove it from the comment."],
            id="one of two unused",
        ),
        pytest.param(
            "# hostside: ignore[GPU999]",
            ["There is no rule GPU999; `hostside rules` lists them all."],
            id="no such rule",
        ),
        pytest.param("# noqa: GPU999", [], id="a code of another tool, perhaps"),
        pytest.param(
            "# hostside: igonre[GPU105]",
            ["`hostside: igonre` means nothing; write `hostside: ignore[GPU105]`."],
            id="misspelt",
        ),
    ],
)
def test_a_comment_that_does_nothing_is_reported(comment: str, said: list[str]) -> None:
    assert complaints(f"x.item()  {comment}\n", finding(1)) == said


def test_a_comment_for_everything_is_unused_where_nothing_is_found() -> None:
    said = complaints("x.item()  # hostside: ignore\n")
    assert said == ["There is nothing here to ignore: remove the comment."]


def test_nothing_is_said_about_a_rule_that_did_not_run() -> None:
    code = "x.item()  # hostside: ignore[GPU106]\n"
    assert complaints(code, ran=frozenset({"GPU105", "item-in-hot-loop"})) == []


def test_a_silenced_finding_comes_with_its_comment_and_reason() -> None:
    found = suppressions("x.item()  # hostside: ignore[GPU105] - read once a day\n")
    result = split([finding(1), finding(1, rule="GPU106")], found)
    assert [item.rule for item in result.kept] == ["GPU106"]
    assert [(item.rule, comment.reason) for item, comment in result.suppressed] == [
        ("GPU105", "read once a day")
    ]
