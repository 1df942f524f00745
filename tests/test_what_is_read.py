"""What is read, what is passed over, and what nobody could judge: said, and in the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli import main
from bot.examine import NOTEBOOK, STUB
from tests.repository import make_repository

GPU = "import torch\n"
FAULTY = "import torch\n\n\ndef f(n):\n    return torch.zeros(n).cuda()\n"
CELL = {"cell_type": "code", "metadata": {}, "source": [FAULTY], "outputs": []}
PAGE = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
BROKEN = "import torch\ndef f(:\n"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_notebooks_of_a_tree_are_counted_as_not_analysed(here: Path, capfd: Capture) -> None:
    (here / "a.py").write_text(GPU)
    (here / "b.ipynb").write_text(PAGE)
    (here / ".ipynb_checkpoints").mkdir()
    (here / ".ipynb_checkpoints" / "b.ipynb").write_text(PAGE)
    assert main(["check", "."]) == 0
    assert "1 file analysed; 1 notebook not analysed.\n" in capfd.readouterr().out
    assert main(["check", ".", "--format", "json"]) == 0
    files = json.loads(capfd.readouterr().out)["files"]
    assert [(f["path"], f["status"], f["reason"]) for f in files] == [
        ("a.py", "analysed", ""),
        ("b.ipynb", "skipped", NOTEBOOK),
    ]


def test_a_named_notebook_is_an_error_that_says_so(here: Path, capfd: Capture) -> None:
    (here / "b.ipynb").write_text(PAGE)
    assert main(["check", "b.ipynb"]) == 2
    assert capfd.readouterr().err == f"hostside: b.ipynb was not checked: {NOTEBOOK}\n"


def test_a_stub_file_is_passed_over(here: Path, capfd: Capture) -> None:
    (here / "a.pyi").write_text(FAULTY)
    assert main(["check", "a.pyi", "--format", "json"]) == 0
    (file,) = json.loads(capfd.readouterr().out)["files"]
    assert (file["status"], file["reason"]) == ("skipped", STUB)


def test_a_review_names_notebooks_without_calling_them_a_problem(
    here: Path, capfd: Capture
) -> None:
    repository = make_repository(here)
    repository.commit({"a.py": "x = 1\n"})
    repository.write("a.py", GPU)
    repository.write("b.ipynb", PAGE)
    repository.git("add", "--all")
    assert main(["review", "--staged"]) == 0
    assert "1 notebook not analysed" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        pytest.param([], 2, True, id="what nobody could judge is no success"),
        pytest.param(["--fail-on", "error"], 2, True, id="whatever would fail"),
        pytest.param(["--fail-on", "never"], 0, False, id="but where nothing is to fail"),
        pytest.param(["--exit-zero"], 0, False, id="or the exit code is asked to be zero"),
    ],
)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(BROKEN.encode(), id="no Python"),
        pytest.param(b"import torch\nx = '" + b"x" * 200_000 + b"'\n", id="a line too long"),
        pytest.param(b"import torch\n" + b"# \n" * 2_000_000, id="a file too large"),
    ],
)
def test_the_exit_code_says_that_something_was_not_judged(
    here: Path, capfd: Capture, content: bytes, options: list[str], code: int, said: bool
) -> None:
    (here / "good.py").write_text(GPU)
    (here / "odd.py").write_bytes(content)
    assert main(["check", ".", *options]) == code
    output, error = capfd.readouterr()
    assert "odd.py was not judged: " in " ".join(output.split())
    assert "Nothing found in what was judged." in output
    assert ("1 file was not judged, so nothing is known" in error) is said


def test_a_finding_counts_more_than_a_file_that_was_not_judged(here: Path, capfd: Capture) -> None:
    (here / "a.py").write_text(FAULTY)
    (here / "odd.py").write_text(BROKEN)
    assert main(["check", "."]) == 1
    assert capfd.readouterr().err == ""


def test_the_same_holds_for_what_is_new_since_a_revision(here: Path, capfd: Capture) -> None:
    repository = make_repository(here)
    repository.commit({"old.py": FAULTY, "odd.py": GPU})
    repository.write("odd.py", BROKEN)
    repository.write("old.py", FAULTY + "\n")
    for command in (["check", ".", "--diff", "HEAD"], ["review"]):
        assert main(command) == 2
        output, error = capfd.readouterr()
        assert "odd.py was not judged" in output
        assert error.startswith("hostside: 1 file was not judged")
    repository.write("odd.py", FAULTY)
    for command in (["check", ".", "--diff", "HEAD"], ["review"]):
        assert main([*command, "--format", "json"]) == 1
        findings = json.loads(capfd.readouterr().out)["findings"]
        assert [f["path"] for f in findings] == ["odd.py"], "the old finding is not new"


def test_a_commit_hook_leaves_out_what_is_excluded_though_it_names_it(
    here: Path, capfd: Capture
) -> None:
    (here / "pyproject.toml").write_text("[tool.hostside]\nexclude = ['gen']\n")
    (here / "gen").mkdir()
    (here / "gen" / "a.py").write_text(FAULTY)
    assert main(["check", "gen/a.py"]) == 1, "whoever names a file means it"
    assert main(["check", "gen/a.py", "--force-exclude"]) == 0
    assert "0 files analysed." in capfd.readouterr().out


def test_a_link_is_the_file_that_it_leads_to(here: Path, capfd: Capture) -> None:
    make_repository(here)
    (here / "z.py").write_text(FAULTY)
    (here / "a.py").symlink_to("z.py")
    assert main(["baseline"]) == 0
    assert '"path": "z.py"' in (here / "hostside-baseline.json").read_text()
    capfd.readouterr()
    for name in (".", "a.py", "z.py"):
        assert main(["check", name, "--baseline", "hostside-baseline.json"]) == 0
        assert "1 left out by the baseline" in capfd.readouterr().out
