"""The words after `/gpu-bench`: what is taken, and the sentence for what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.bench_command import (
    USAGE,
    BenchCommand,
    BenchStatus,
    CancelBench,
    Measure,
    parse,
)
from bot.commands import Unknown
from bot.commands import parse as parse_line
from bot.errors import UsageError

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        pytest.param("", Measure(), id="nothing"),
        pytest.param("cancel", CancelBench(), id="cancel"),
        pytest.param("Status", BenchStatus(), id="status in another case"),
        pytest.param("bench_copies", Measure(("bench_copies",)), id="a name"),
        pytest.param(
            "gpu_bench/ring.py::bench_[ab]* tests/*",
            Measure(("gpu_bench/ring.py::bench_[ab]*", "tests/*")),
            id="patterns",
        ),
        pytest.param("x x", Measure(("x",)), id="a name twice is a name"),
        pytest.param(
            "a.py::f[n=8]", Measure(("a.py::f[n=8]",)), id="a parameter's value is no option"
        ),
        pytest.param("suggestion=2", Measure(suggestion="2"), id="a suggestion's number"),
        pytest.param("suggestion=007", Measure(suggestion="7"), id="leading zeros"),
        pytest.param("suggestion=all", Measure(suggestion="all"), id="all of them"),
        pytest.param("suggestion=none", Measure(suggestion="none"), id="none of them"),
        pytest.param("rounds=20", Measure(rounds=20), id="rounds"),
        pytest.param("gpu=a100-80gb", Measure(gpu="a100-80gb"), id="a label"),
        pytest.param(f"sha={SHA.upper()}", Measure(sha=SHA), id="a commit in capitals"),
        pytest.param(f"sha={'a' * 64}", Measure(sha="a" * 64), id="a commit of SHA-256"),
        pytest.param(
            f"x rounds=6 gpu=h200 sha={SHA} y suggestion=1",
            Measure(("x", "y"), "1", 6, "h200", SHA),
            id="all at once",
        ),
    ],
)
def test_words_are_read_as_what_they_ask_for(line: str, command: BenchCommand) -> None:
    assert parse(line.split()) == command


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param("cancel now", "'cancel' takes nothing after it", id="cancel with a word"),
        pytest.param("round=5", "there is no option 'round'; did you mean rounds=?", id="misspelt"),
        pytest.param(
            "--rounds=5", "there is no option '--rounds'; did you mean rounds=?", id="with hyphens"
        ),
        pytest.param(
            "frobnicate=1",
            "there is no option 'frobnicate'; there are suggestion, rounds, gpu, sha",
            id="unknown",
        ),
        pytest.param("rounds=1", "rounds= takes a number from 2 to 60", id="too few rounds"),
        pytest.param("rounds=61", "rounds= takes a number from 2 to 60", id="too many rounds"),
        pytest.param(
            "rounds=many", "rounds= takes a number from 2 to 60, not 'many'", id="no number"
        ),
        pytest.param("rounds=", "rounds= takes a number from 2 to 60, not ''", id="no value"),
        pytest.param(
            "rounds=²", "rounds= takes a number from 2 to 60, not '²'", id="a digit of another kind"
        ),
        pytest.param("rounds=5 rounds=6", "rounds= is given twice", id="twice"),
        pytest.param("suggestion=0", "suggestions are numbered from 1", id="suggestion nought"),
        pytest.param(
            "suggestion=some", "suggestion= takes a number, all or none, not 'some'", id="some"
        ),
        pytest.param(
            "gpu=a/../b",
            "gpu= takes a runner's label: letters, digits, dots and hyphens",
            id="a label that is a path",
        ),
        pytest.param(
            f"gpu={'a' * 41}",
            "gpu= takes a runner's label: letters, digits, dots and hyphens",
            id="a label without end",
        ),
        pytest.param(
            "sha=0123abc",
            "sha= takes the full name of a commit, 40 hexadecimal digits",
            id="a short commit",
        ),
        pytest.param(SHA, f"a commit is given as sha={SHA}", id="a commit without its option"),
        pytest.param(
            "--all", "'--all' is no name or pattern of a benchmark", id="what a shell takes"
        ),
        pytest.param(
            "$(id)", "'$(id)' is no name or pattern of a benchmark", id="what a shell runs"
        ),
        pytest.param(
            "@everyone", "'@everyone' is no name or pattern of a benchmark", id="a mention"
        ),
        pytest.param(
            "x\u202ey", "'x\\u202ey' is no name or pattern of a benchmark", id="a hidden character"
        ),
        pytest.param(
            " ".join(f"b{n}" for n in range(21)),
            "at most 20 benchmarks can be named; a pattern names many",
            id="very many",
        ),
    ],
)
def test_what_is_not_allowed_is_a_sentence_and_the_usage(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(line.split())
    assert str(refused.value) == sentence
    assert parse_line(f"/gpu-bench {line}") == Unknown(sentence, USAGE)


@given(st.text(max_size=80))
def test_any_words_give_a_command_or_a_printable_sentence(text: str) -> None:
    found, refused = None, ""
    try:
        found = parse(text.split())
    except UsageError as problem:
        refused = str(problem)
    assert refused.isprintable()
    if isinstance(found, Measure):
        words = "".join((*found.targets, found.gpu, found.sha))
        assert not set(words) & set("`<>@#$|&;\\'\"")
        assert words.isascii()


def test_the_usage_names_every_option() -> None:
    for word in ("suggestion=", "rounds=", "gpu=", "sha=", "cancel", "status", "all", "none"):
        assert word in USAGE
