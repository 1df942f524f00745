from __future__ import annotations

import pytest

from bot import commands
from bot.bench_command import BenchStatus, CancelBench, Measure
from bot.commands import Command, Explain, Help, Ignore, Pause, Resume, Review, Unknown

SHA = "a" * 40


@pytest.mark.parametrize(
    ("line", "command"),
    [
        pytest.param("/hostside review", Review(), id="review"),
        pytest.param("/hostside   Review  ", Review(), id="spaces and case"),
        pytest.param("/hostside explain GPU105", Explain("GPU105"), id="explain by code"),
        pytest.param("/hostside explain item-in-hot-loop", Explain("item-in-hot-loop"), id="name"),
        pytest.param("/hostside ignore GPU105", Ignore("GPU105"), id="ignore"),
        pytest.param(
            "/hostside ignore GPU105 once per epoch",
            Ignore("GPU105", "once per epoch"),
            id="ignore with a reason",
        ),
        pytest.param("/hostside pause", Pause(), id="pause"),
        pytest.param("/hostside resume", Resume(), id="resume"),
        pytest.param("/hostside help", Help(), id="help"),
        pytest.param("/hostside", Help(), id="nothing asks for help"),
        pytest.param("/gpu-bench", Measure(), id="bench"),
        pytest.param(f"/gpu-bench sha={SHA} x", Measure(("x",), sha=SHA), id="bench with words"),
        pytest.param("/gpu-bench cancel", CancelBench(), id="bench cancel"),
        pytest.param("/gpu-bench status", BenchStatus(), id="bench status"),
        pytest.param(
            "/hostside reveiw", Unknown("there is no command 'reveiw'"), id="unknown word"
        ),
        pytest.param(
            "/hostside review now", Unknown("'review' takes nothing after it"), id="too much"
        ),
        pytest.param(
            "/hostside ignore",
            Unknown("'ignore' needs the code of a rule, such as GPU105"),
            id="no code",
        ),
        pytest.param(
            "/hostside explain $(id)",
            Unknown("'explain' needs the code of a rule, such as GPU105"),
            id="no code at all",
        ),
        pytest.param(
            "/hostside explain GPU105 GPU106", Unknown("'explain' takes one code"), id="two codes"
        ),
        pytest.param(
            "/hostside ignore GPU105 " + "x" * 300,
            Unknown("a command may have 300 characters"),
            id="far too long",
        ),
    ],
)
def test_a_line_is_read_as_the_command_it_is(line: str, command: Command) -> None:
    assert commands.parse(line) == command


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("/hostside review", ("/hostside review",), id="alone"),
        pytest.param(
            "Thanks!\r\n/hostside review\r\nand now?", ("/hostside review",), id="within prose"
        ),
        pytest.param(
            "/hostside pause\n/gpu-bench", ("/hostside pause", "/gpu-bench"), id="two lines"
        ),
        pytest.param("please /hostside review", (), id="not at the start of a line"),
        pytest.param(" /hostside review", (), id="indented"),
        pytest.param("> /hostside review", (), id="quoted"),
        pytest.param("```\n/hostside review\n```", (), id="in a code block"),
        pytest.param(
            "```\n/hostside review\n```\n/hostside help", ("/hostside help",), id="after one"
        ),
        pytest.param("~~~~sh\n```\n/hostside review\n~~~\n", (), id="in a longer fence"),
        pytest.param("```\n/hostside review", (), id="in a code block without an end"),
        pytest.param("``` `x`\n/hostside help", ("/hostside help",), id="a line that is no fence"),
        pytest.param("<!-- say\n/hostside review\n-->", (), id="in a hidden comment"),
        pytest.param(
            "<!-- x -->\n/hostside review", ("/hostside review",), id="after a hidden comment"
        ),
        pytest.param("/hostside-review\n/hostsidereview\n/gpu-benchmark", (), id="other words"),
        pytest.param("/HOSTSIDE review", (), id="another case"),
        pytest.param("", (), id="empty"),
        pytest.param("/hostside help\n" * 9, ("/hostside help",), id="said nine times"),
        pytest.param(
            "".join(f"/hostside explain GPU10{n}\n" for n in range(1, 9)),
            tuple(f"/hostside explain GPU10{n}" for n in range(1, 6)),
            id="no more than five",
        ),
    ],
)
def test_only_visible_lines_that_start_with_a_command_are_commands(
    text: str, lines: tuple[str, ...]
) -> None:
    assert commands.command_lines(text) == lines


def test_the_usage_names_every_command() -> None:
    shown = commands.USAGE
    for word in ("review", "explain", "ignore", "pause", "resume", "help"):
        assert f"/hostside {word}" in shown
    assert commands.BENCH in shown
