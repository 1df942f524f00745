"""`check --add-ignores`: old findings are silenced in the code, and nothing else changes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from analyzers.analysis import AnalysisConfig
from analyzers.engine import analyze
from analyzers.finding import Confidence
from analyzers.rule import all_rules
from bot.baseline import NONE, Baseline, entry
from bot.cli import main
from bot.config import RepoConfig
from bot.examine import Job, examine, examine_all
from bot.ignores import IgnoreJob, add, wanted

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "training-repo" / "head"
CONFIG = RepoConfig()
FAULTY = "import torch\n\n\ndef f(n):\n    return torch.zeros(n).cuda()\n"

ADDED = "# hostside: ignore[GPU201]"
_REMARK = r"# hostside: ignore\[GPU[\dGPU, ]*\](?: old)?"

Capture = pytest.CaptureFixture[str]


def without_comments(text: str) -> str:
    """The text as it was before."""
    text = re.sub(rf"(?<![^\r\n])[ \t]*{_REMARK}(?:\r\n|\r|\n)", "", text)
    return re.sub(rf" {{0,2}}{_REMARK}(?=[\r\n]|\Z)", "", text)


def silenced(text: str, reason: str = "", config: RepoConfig = CONFIG) -> str:
    """The text after its comments were added; as it was when there are none to add."""
    job = Job("m.py", config.for_file("m.py"), text=text.encode(), prove=frozenset())
    places = wanted(examine(job), config, NONE)
    done = add(IgnoreJob(job, places, reason))
    assert done.left == 0
    assert done.silenced == len(places)
    return text if done.text is None else done.text.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "    return {zeros}\n", "    return {zeros}  {ignore}\n", id="behind the line"
        ),
        pytest.param(
            "    return {zeros}  # all\n", "    return {zeros}  # all  {ignore}\n", id="a comment"
        ),
        pytest.param(
            "    return {zeros}  # type: ignore  # noqa: E5\n",
            "    return {zeros}  # type: ignore  # noqa: E5  {ignore}\n",
            id="other tools' comments stay in front",
        ),
        pytest.param(
            "    return {zeros}  # noqa: GPU105\n",
            "    return {zeros}  # noqa: GPU105  {ignore}\n",
            id="a noqa of ours",
        ),
        pytest.param(
            "    return {zeros}  # hostside: ignore[GPU105] old\n",
            "    return {zeros}  # hostside: ignore[GPU105, GPU201] old\n",
            id="one of ours takes the code in",
        ),
        pytest.param(
            "    # hostside: ignore[sync-in-hot-loop] old\n    return {zeros}\n",
            "    # hostside: ignore[sync-in-hot-loop, GPU201] old\n    return {zeros}\n",
            id="so does one above",
        ),
        pytest.param(
            "    return {zeros}  # hostside: ignore[]\n",
            "    return {zeros}  # hostside: ignore[GPU201]\n",
            id="and an empty one",
        ),
        pytest.param(
            f"    {'x' * 60} = {{zeros}}\n",
            f"    {{ignore}}\n    {'x' * 60} = {{zeros}}\n",
            id="above a long line",
        ),
        pytest.param(
            "    x = 1 + \\\n        {zeros} + \\\n        1\n",
            "    x = 1 + \\\n        {zeros} + \\\n        1  {ignore}\n",
            id="a backslash at its end",
        ),
        pytest.param(
            '    x = f"""{{{zeros}}}\n    """, \\\n        2' + "  # " + "x" * 90 + "\n",
            '    {ignore}\n    x = f"""{{{zeros}}}\n    """, \\\n        2'
            + "  # "
            + "x" * 90
            + "\n",
            id="inside a string",
        ),
        pytest.param(
            '    s = """\n    """; x = ({zeros},\n        1)\n',
            '    s = """\n    """; x = ({zeros},  {ignore}\n        1)\n',
            id="beside the end of a string",
        ),
        pytest.param(
            "    x = dict(\n        a=1,\n        b={zeros},\n    )\n",
            "    x = dict(\n        a=1,\n        b={zeros},  {ignore}\n    )\n",
            id="one line of a call",
        ),
        pytest.param(
            f"    x = dict(\n        a=1,\n        {'b' * 60}={{zeros}},\n    )\n",
            f"    x = dict(\n        a=1,\n        {'b' * 60}={{zeros}},\n    )  {{ignore}}\n",
            id="behind the whole call when its line is long",
        ),
        pytest.param(
            "    if n:\n        pass\n    elif {zeros}.sum() is None:\n        pass\n",
            "    if n:\n        pass\n    elif {zeros}.sum() is None:  {ignore}\n        pass\n",
            id="the head of a block",
        ),
        pytest.param("\treturn {zeros}", "\treturn {zeros}  {ignore}", id="tabs, no last line end"),
        pytest.param("\f    return {zeros}  \n", "\f    return {zeros}  {ignore}\n", id="blanks"),
        pytest.param(
            f"\f    {'x' * 60} = {{zeros}}\n",
            f"    {{ignore}}\n\f    {'x' * 60} = {{zeros}}\n",
            id="a form feed stays where it is",
        ),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_a_comment_stands_where_it_may(before: str, after: str, end: str, mark: str) -> None:
    def text(body: str) -> str:
        filled = body.replace("{zeros}", "torch.zeros(n).cuda()")
        filled = filled.replace("{ignore}", ADDED).replace("{{", "{")
        whole = f"{mark}import torch\n\n\ndef f(n):\n{filled.replace('}}', '}')}"
        return whole.replace("\n", end)

    assert silenced(text(before)) == text(after)


def test_the_first_line_keeps_its_byte_order_mark() -> None:
    line = f"def f(n): import torch; return torch.zeros(n).cuda()  # {'x' * 60}\n"
    assert silenced(f"\ufeff{line}") == f"\ufeff# hostside: ignore[GPU201]\n{line}"


def test_several_rules_on_a_line_share_a_comment_and_a_reason() -> None:
    line = "    for x in xs: torch.cuda.synchronize(); print(torch.ones(3).cuda())"
    text = f"import torch\ndef f(xs):\n{line}\n"
    codes = sorted({f.rule for f in analyze("m.py", text).findings})
    assert len(codes) > 1
    after = silenced(text, "old", RepoConfig(confidence=Confidence.POSSIBLE))
    assert f"# hostside: ignore[{', '.join(codes)}] old\n" in after


def test_a_reason_in_letters_the_file_cannot_hold_leaves_it_alone() -> None:
    text = f"# coding: latin-1\n{FAULTY}".encode()
    job = Job("m.py", AnalysisConfig(), text=text, prove=frozenset())
    places = wanted(examine(job), CONFIG, NONE)
    assert add(IgnoreJob(job, places, "später")).text is not None
    assert add(IgnoreJob(job, places, "später, mañana 後")) == add(IgnoreJob(job, places, "後"))
    assert add(IgnoreJob(job, places, "後")).left == 1


def programs() -> Iterable[tuple[str, str]]:
    for rule in all_rules():
        for number, bad in enumerate(rule.bad):
            yield f"{rule.code}-{number}", bad.code
    for path in sorted(EXAMPLE.rglob("*.py")):
        yield path.name, path.read_text()


PROGRAMS = list(programs())


@pytest.mark.parametrize("everything", [False, True], ids=["as shown", "possible ones too"])
def test_every_known_finding_can_be_silenced(everything: bool) -> None:
    config = RepoConfig(confidence=Confidence.POSSIBLE) if everything else CONFIG
    for name, text in PROGRAMS:
        after = silenced(text, "old", config)
        left = [
            f"{name}: {f.rule} in line {f.span.line}"
            for f in analyze("m.py", after).findings
            if everything or f.confidence is not Confidence.POSSIBLE
        ]
        assert left == []
        assert without_comments(after) == text, name
        assert silenced(after, "old", config) == after, "a second run adds nothing"


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["CRLF", "CR"])
def test_line_ends_are_kept_in_every_known_program(end: str) -> None:
    for name, text in PROGRAMS[::9]:
        before = text.rstrip("\n").replace("\n", end)
        after = silenced(before)
        assert without_comments(after) == before, name
        assert "\n" not in after.replace(end, "")


def test_the_command_writes_files_and_leaves_nothing_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(FAULTY)
    (tmp_path / "b.py").write_text("print()\n")
    assert main(["check", ".", "--add-ignores", "--reason", "old code"]) == 0
    assert "silenced 1 finding in 1 file\n" in capfd.readouterr().err
    assert (tmp_path / "a.py").read_text() == FAULTY.replace(
        ".cuda()", ".cuda()  # hostside: ignore[GPU201] old code"
    )
    assert (tmp_path / "b.py").read_text() == "print()\n"
    assert main(["check", ".", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["findings"] == []
    assert main(["check", ".", "--add-ignores"]) == 0
    assert capfd.readouterr().err == ""


def test_standard_input_is_a_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FAULTY.encode())))
    assert main(["check", "-", "--add-ignores"]) == 0
    assert capfd.readouterr().out == FAULTY.replace(".cuda()", f".cuda()  {ADDED}")


def test_with_fix_only_what_cannot_be_mended_is_silenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(FAULTY)
    assert main(["check", "a.py", "--fix", "--add-ignores"]) == 0
    assert (tmp_path / "a.py").read_text() == FAULTY.replace(
        "zeros(n).cuda()", 'zeros(n, device="cuda")'
    )
    capfd.readouterr()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--reason", "x"], "give both", id="a reason alone"),
        pytest.param(["--add-ignores", "--diff", "HEAD"], "leave out --diff", id="a difference"),
        pytest.param(["--add-ignores", "--reason", "a # noqa"], "one line of text", id="a comment"),
        pytest.param(["--add-ignores", "--reason", "a\nb"], "one line of text", id="two lines"),
        pytest.param(["--add-ignores", "--reason", "a\u2028b"], "one line", id="lines elsewhere"),
        pytest.param(["--add-ignores", "--reason", "a\udcffb"], "one line", id="no letter"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, capfd: Capture, options: list[str], said: str) -> None:
    (tmp_path / "a.py").write_text(FAULTY)
    assert main(["check", str(tmp_path / "a.py"), *options]) == 2
    assert said in capfd.readouterr().err
    assert (tmp_path / "a.py").read_text() == FAULTY


def test_what_the_baseline_knows_by_a_line_that_changes_is_silenced_too() -> None:
    text = "import torch\n\n\ndef f(n):\n    for i in range(n):\n"
    text += "        print(torch.zeros(n).cuda())\n        g(torch.ones(n).cuda())\n"
    (result,) = examine_all([Job("m.py", CONFIG.for_file("m.py"), text=text.encode())])
    first, second, third = result.items
    assert first.finding.span.line == second.finding.span.line == third.finding.span.line - 1
    known = Baseline((entry("m.py", first.key, 1, first.fingerprint),))
    places = wanted(result, replace(CONFIG, confidence=Confidence.POSSIBLE), known)
    assert {rule for rule, span in places if span.line == 6} == {
        first.finding.rule,
        second.finding.rule,
    }
    alone = Baseline((entry("m.py", third.key, 1, third.fingerprint),))
    places = wanted(result, replace(CONFIG, confidence=Confidence.POSSIBLE), alone)
    assert {span.line for _, span in places} == {6}, "its line stays as it is"


def test_what_could_not_be_silenced_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"# -*- coding: latin-1 -*-\n{FAULTY}"
    (tmp_path / "a.py").write_text(text, "latin-1")
    assert main(["check", ".", "--add-ignores", "--reason", "\u540d"]) == 1
    assert capfd.readouterr().err == (
        "hostside: a.py: 1 finding could not be silenced: the file's encoding (iso-8859-1) lacks a "
        "letter of the reason\n"
    )
    assert (tmp_path / "a.py").read_text("latin-1") == text


def test_a_possible_finding_that_is_shown_is_not_hinted_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("import torch\n\nx = torch.zeros(3).cuda()\n")
    assert main(["check", "."]) == 0
    assert "1 possible finding more (--confidence possible)." in capfd.readouterr().out
    assert main(["check", ".", "--confidence", "possible"]) == 0
    output = capfd.readouterr().out
    assert "a.py:3:5 GPU201" in output
    assert "1 possible finding more.\n" in output


def test_a_file_without_room_on_the_disk_stays_whole(tmp_path: Path) -> None:
    text = FAULTY + "# padding\n" * 3_000  # more than anything else that the command writes
    (tmp_path / "a.py").write_text(text)
    size = len(text) + 5
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    call = "from bot.cli import main; raise SystemExit(main(['check', 'a.py', '--add-ignores']))"
    done = subprocess.run(
        [sys.executable, "-c", f"{limit}; import sys; sys.path.insert(0, {str(ROOT)!r}); {call}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "a.py cannot be written (File too large) and stays as it is" in done.stderr
    assert (tmp_path / "a.py").read_text() == text
