"""`check`, `review`, `explain`, `rules`, `config` and `demo` as a user runs them."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyzers.rule import all_rules
from bot.cli import main
from tests.repository import Repository, make_repository

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "review.schema.json").read_text())
FAULTY = "import torch\n\n\ndef f(n: int) -> torch.Tensor:\n    return torch.zeros(n).cuda()\n"
MENDED = FAULTY.replace("zeros(n).cuda()", 'zeros(n, device="cuda")')
CLEAN = "import torch\n\n\ndef f(n: int) -> torch.Tensor:\n    return n\n"
FUNCTIONS = [f"\n\ndef g{n}():\n    return torch.ones({n + 1}).cuda()\n" for n in range(5)]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def repository(here: Path) -> Repository:
    return make_repository(here)


def found(capfd: Capture, *command: str) -> tuple[int, Any]:
    code = main([*command, "--format", "json"])
    document = json.loads(capfd.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    return code, document


def places(document: Any) -> list[tuple[str, str, int, str]]:
    return [(f["rule"], f["path"], f["line"], f["placement"]) for f in document["findings"]]


def test_a_tree_is_checked_and_fails(here: Path, capfd: Capture) -> None:
    (here / "src").mkdir()
    (here / "src" / "a.py").write_text(FAULTY)
    (here / "src" / "b.py").write_text("print('no gpu')\n")
    (here / "src" / ".venv").mkdir()
    (here / "src" / ".venv" / "c.py").write_text(FAULTY)
    code, document = found(capfd, "check", "src")
    assert code == 1
    assert places(document) == [("GPU201", "src/a.py", 5, "inline")]
    assert [(f["path"], f["status"]) for f in document["files"]] == [
        ("src/a.py", "analysed"),
        ("src/b.py", "skipped"),
    ]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param([], 1, id="a warning fails by default"),
        pytest.param(["--fail-on", "error"], 0, id="unless only errors do"),
        pytest.param(["--fail-on", "never"], 0, id="or nothing does"),
        pytest.param(["--exit-zero"], 0, id="or the exit code is asked to be zero"),
        pytest.param(["--ignore", "GPU2"], 0, id="or its family is ignored"),
        pytest.param(["--select", "GPU105"], 0, id="or another rule is selected"),
        pytest.param(["--objective", "readability"], 0, id="or another objective"),
        pytest.param(["--severity", "error"], 0, id="or it is below the severity"),
    ],
)
def test_the_exit_code_follows_the_options(
    here: Path, capfd: Capture, options: list[str], code: int
) -> None:
    (here / "a.py").write_text(FAULTY)
    assert main(["check", "a.py", *options]) == code
    capfd.readouterr()


def test_a_snippet_comes_from_standard_input(
    here: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FAULTY.encode())))
    code, document = found(capfd, "check", "-")
    assert (code, places(document)) == (1, [("GPU201", "<stdin>", 5, "inline")])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(FAULTY, MENDED, id="LF"),
        pytest.param(FAULTY.replace("\n", "\r\n"), MENDED.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(FAULTY.rstrip(), MENDED.rstrip(), id="no line end at the end"),
        pytest.param("\ufeff" + FAULTY, "\ufeff" + MENDED, id="a byte order mark"),
        pytest.param(FAULTY + "# é\n", MENDED + "# é\n", id="not only ASCII"),
    ],
)
def test_fix_writes_the_mended_file_and_nothing_else(
    here: Path, capfd: Capture, before: str, after: str
) -> None:
    file = here / "a.py"
    file.write_bytes(before.encode())
    file.chmod(0o750)
    assert main(["check", "a.py", "--fix"]) == 0
    assert file.read_bytes() == after.encode()
    assert file.stat().st_mode & 0o777 == 0o750
    assert "applied 1 proven fix in 1 file\n" in capfd.readouterr().err


def test_fix_keeps_the_encoding(here: Path, capfd: Capture) -> None:
    file = here / "a.py"
    file.write_bytes(b"# coding: latin-1\n# \xe9\n" + FAULTY.encode())
    assert main(["check", "a.py", "--fix"]) == 0
    assert file.read_bytes() == b"# coding: latin-1\n# \xe9\n" + MENDED.encode()


def test_fix_of_standard_input_prints_the_mended_text(
    here: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FAULTY.encode())))
    assert main(["check", "-", "--fix"]) == 0
    assert capfd.readouterr().out == MENDED


def test_explain_adds_the_pages_of_the_reported_rules(here: Path, capfd: Capture) -> None:
    (here / "a.py").write_text(FAULTY)
    main(["check", "a.py", "--explain"])
    output = capfd.readouterr().out
    assert "# GPU201 `create-on-cpu-then-move`" in output
    assert "# GPU105" not in output


def test_diff_reports_only_what_is_new_since_a_revision(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"old.py": FAULTY, "sub/new.py": CLEAN, "sub/same.py": CLEAN})
    repository.write("sub/new.py", FAULTY)
    repository.write("elsewhere.py", FAULTY)
    code, document = found(capfd, "check", "sub", "--diff", "HEAD")
    assert (code, places(document)) == (1, [("GPU201", "sub/new.py", 5, "inline")])


def test_the_configuration_of_the_tree_is_followed(here: Path, capfd: Capture) -> None:
    (here / "pyproject.toml").write_text(
        "[tool.hostside]\nexclude = ['gen']\n[tool.hostside.per-path-ignores]\n'b.py' = ['GPU2']\n"
    )
    for name in ("a.py", "b.py", "gen/c.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(FAULTY)
    assert [f["path"] for f in found(capfd, "check", ".")[1]["findings"]] == ["a.py"]
    assert len(found(capfd, "check", ".", "--no-config")[1]["findings"]) == 3
    assert len(found(capfd, "check", "gen/c.py")[1]["findings"]) == 1, "named, so it is read"


def test_a_review_reports_what_the_change_brings(repository: Repository, capfd: Capture) -> None:
    repository.commit({"old.py": FAULTY, "new.py": CLEAN})
    repository.git("switch", "--quiet", "--create", "feature")
    repository.commit({"old.py": FAULTY + "\n\nx = 1\n", "new.py": FAULTY, "README.md": "hi\n"})
    code, document = found(capfd, "review", "--base", "main", "--head", "feature")
    assert (code, places(document)) == (1, [("GPU201", "new.py", 5, "inline")])
    assert document["findings"][0]["suggestion"]["replacement"] == MENDED.splitlines(True)[-1]
    assert document["summary"]["subject"] == "main...feature"


def test_a_finding_has_one_fingerprint_wherever_it_is_reported(
    repository: Repository, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"sub/m.py": CLEAN})
    repository.commit({"sub/m.py": FAULTY})
    review = found(capfd, "review", "--base", "HEAD~1", "--head", "HEAD")[1]
    monkeypatch.chdir(repository.root / "sub")
    whole = found(capfd, "check", "m.py")[1]
    since = found(capfd, "check", ".", "--diff", "HEAD~1")[1]
    marks = {document["findings"][0]["fingerprint"] for document in (review, whole, since)}
    assert len(marks) == 1
    assert whole["findings"][0]["path"] == since["findings"][0]["path"] == "m.py"


def test_the_working_tree_and_the_index_are_reviewed(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"a.py": CLEAN, "b.py": CLEAN})
    repository.write("a.py", FAULTY)
    repository.git("add", "a.py")
    repository.write("b.py", FAULTY)
    repository.write("c.py", FAULTY)
    assert [p for _, p, *_ in places(found(capfd, "review", "--staged")[1])] == ["a.py"]
    assert [p for _, p, *_ in places(found(capfd, "review")[1])] == ["a.py", "b.py", "c.py"]


def test_a_commit_hook_sees_exactly_what_is_committed(repository: Repository) -> None:
    repository.commit({"a.py": CLEAN, "b.py": CLEAN})
    hook = repository.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec {sys.executable} -m bot review --base HEAD --staged\n")
    hook.chmod(0o755)
    repository.write("a.py", FAULTY)
    repository.write("b.py", CLEAN + "\n")
    repository.git("commit", "--quiet", "--message", "only b", "b.py")
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("commit", "--quiet", "--all", "--message", "a too")


def test_code_moved_between_files_brings_nothing_new(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"a.py": FAULTY, "b.py": CLEAN})
    repository.git("rm", "--quiet", "a.py")
    repository.commit({"b.py": CLEAN + FAULTY})
    assert found(capfd, "review", "--base", "HEAD~1", "--head", "HEAD")[0] == 0


def test_a_change_cannot_switch_its_reviewer_off(repository: Repository, capfd: Capture) -> None:
    repository.commit({"a.py": CLEAN, "pyproject.toml": "[project]\nname = 'x'\n"})
    repository.commit({"a.py": FAULTY, "pyproject.toml": "[tool.hostside]\nignore = ['GPU2']\n"})
    assert found(capfd, "review", "--base", "HEAD~1", "--head", "HEAD")[0] == 1
    repository.commit({"a.py": FAULTY + FUNCTIONS[0]})
    assert found(capfd, "review", "--base", "HEAD~1", "--head", "HEAD")[0] == 0


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied yet"])
def test_a_patch_is_reviewed_beside_its_files(
    repository: Repository, capfd: Capture, tmp_path: Path, applied: bool
) -> None:
    repository.commit({"a.py": CLEAN, "old name.py": FAULTY})
    repository.git("mv", "old name.py", "é.py")
    repository.commit({"a.py": FAULTY, "é.py": FAULTY + FUNCTIONS[0]})
    patch = repository.git("diff", "HEAD~1", "HEAD")
    if not applied:
        repository.git("checkout", "--quiet", "HEAD~1")
    repository.write("change.patch", patch + "\n")
    code, document = found(capfd, "review", "--patch", "change.patch")
    assert code == 1
    assert places(document) == [
        ("GPU201", "a.py", 5, "inline"),
        ("GPU201", "é.py", 9, "inline"),
    ]


def test_a_patch_whose_files_are_others_says_so(repository: Repository, capfd: Capture) -> None:
    repository.commit({"a.py": CLEAN})
    repository.commit({"a.py": FAULTY})
    repository.write("change.patch", repository.git("diff", "HEAD~1", "HEAD") + "\n")
    repository.write("a.py", "import torch\n")
    code, document = found(capfd, "review", "--patch", "change.patch")
    assert code == 2, "nobody knows what is in there"
    assert document["summary"]["conclusion"] == "neutral"
    assert "neither the one before the patch nor the one after" in document["files"][0]["reason"]


def test_more_comments_than_allowed_are_folded(repository: Repository, capfd: Capture) -> None:
    lines = "".join(FUNCTIONS)
    config = "[tool.hostside]\nmax-comments = 2\n"
    repository.commit({"a.py": "import torch\n", "pyproject.toml": config})
    repository.commit({"a.py": f"import torch\n{lines}"})
    _, document = found(capfd, "review", "--base", "HEAD~1", "--head", "HEAD")
    assert document["summary"]["placement"] == {"inline": 2, "file": 0, "summary": 3}


def test_suggestions_of_one_review_work_as_one_batch(
    repository: Repository, capfd: Capture
) -> None:
    lines = "".join(FUNCTIONS)
    repository.commit({"a.py": "import torch\n"})
    repository.commit({"a.py": f"import torch\n{lines}"})
    _, document = found(capfd, "review", "--base", "HEAD~1", "--head", "HEAD")
    ranges = [
        (f["suggestion"]["start_line"], f["suggestion"]["end_line"]) for f in document["findings"]
    ]
    assert ranges == [(5, 5), (9, 9), (13, 13), (17, 17), (21, 21)]


def test_every_rule_has_a_page_and_a_line(capfd: Capture) -> None:
    assert main(["rules"]) == 0
    listing = capfd.readouterr().out
    for rule in all_rules():
        assert rule.code in listing
        assert main(["explain", rule.code.lower()]) == main(["explain", rule.name]) == 0
        page = capfd.readouterr().out
        assert page.count(rule.title) == 2
        assert "## Why it matters" in page
    assert main(["explain", "GPU000"]) == 0
    assert "unused-suppression" in capfd.readouterr().out


def test_rules_are_listed_as_json_too(capfd: Capture) -> None:
    assert main(["rules", "--format", "json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert [row["rule"] for row in rows] == [rule.code for rule in all_rules()]


def test_a_right_configuration_is_spelled_out(here: Path, capfd: Capture) -> None:
    (here / "pyproject.toml").write_text("[tool.hostside]\nignore = ['item-in-hot-loop']\n")
    assert main(["config", "check"]) == 0
    output = capfd.readouterr().out
    assert "pyproject.toml is right" in output
    assert "ignore            GPU105" in output


def test_the_demo_reviews_the_example_and_says_where_the_page_is(
    here: Path, capfd: Capture
) -> None:
    assert main(["demo"]) == 0
    output = capfd.readouterr().out
    assert "GPU105" in output
    assert "hostside-demo/review.html" in output
    assert (here / "hostside-demo" / "review.html").read_text().startswith("<!doctype html>")


def in_terminal(*command: str, **environment: str) -> str:
    """What the command writes to a terminal."""
    reading, writing = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "bot", *command],
            stdin=writing, stdout=writing, stderr=writing, cwd=ROOT,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100"} | environment,
        )  # fmt: skip
        os.close(writing)
        data = b""
        while True:
            try:
                part = os.read(reading, 65536)
            except OSError:  # what Linux answers when the other end was closed
                break
            if not part:
                break
            data += part
        child.wait()
    finally:
        os.close(reading)
    return data.decode()


def test_a_terminal_gets_colours_and_progress(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"m{number}.py").write_text(FAULTY)
    shown = in_terminal("check", str(tmp_path))
    assert "\x1b[" in shown
    assert "of 60 files checked" in shown


def test_no_color_is_respected(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(FAULTY)
    assert "\x1b[" not in in_terminal("check", str(tmp_path), NO_COLOR="1")


def test_a_pipe_gets_neither(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"m{number}.py").write_text(FAULTY)
    done = subprocess.run(
        [sys.executable, "-m", "bot", "check", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "60 findings" in done.stdout
