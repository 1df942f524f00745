"""Whatever is wrong with the input: one sentence with the way out, the right exit code."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.cli import main
from tests.repository import make_repository

GPU = "import torch\n\ndef f(xs: list[torch.Tensor]):\n    return [x.cuda() for x in xs]\n"


def directory(tmp_path: Path) -> Path:
    """A directory with something of everything."""
    project = make_repository(tmp_path / "project")
    project.commit({"m.py": GPU, "pyproject.toml": "[project]\nname = 'x'\n"})
    project.commit({"m.py": GPU + "\n"})
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "m.py").write_text(GPU)
    (tmp_path / "cut.patch").write_text("--- a/m.py\n+++ b/m.py\n@@ -1,9 +1,9 @@\n a\n")
    (tmp_path / "words.patch").write_text("no diff at all\n")
    (tmp_path / "evil.patch").write_text("--- a/x\n+++ b/../../x.py\n@@ -1 +1 @@\n-a\n+b\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pyproject.toml").write_text("[tool.hostside]\nselekt = []\n")
    (tmp_path / "broken" / "m.py").write_text(GPU)
    empty = make_repository(tmp_path / "empty")
    empty.write("m.py", GPU)
    return tmp_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(directory(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param("review --repo plain", "is not in a git repository", id="no repository"),
        pytest.param("review --repo nowhere", "is not a directory", id="no directory"),
        pytest.param("review --repo plain/m.py", "is not a directory", id="a file for a directory"),
        pytest.param(
            "review --repo project --base v9", "no revision 'v9'", id="an unknown revision"
        ),
        pytest.param(
            "review --repo project --base=-x --head=--all", "no revision '-x'", id="like an option"
        ),
        pytest.param("review --repo empty", "has no commit yet", id="no commit"),
        pytest.param("review --repo project --head HEAD", "--head needs --base", id="no base"),
        pytest.param(
            "review --base a --head b --staged", "two different changes", id="two changes"
        ),
        pytest.param("review --patch nowhere.patch", "cannot be read", id="no patch"),
        pytest.param("review --patch cut.patch", "not a unified diff", id="a cut patch"),
        pytest.param("review --patch words.patch", "no unified diff", id="words for a patch"),
        pytest.param("review --patch evil.patch", "outside the directory", id="a path outside"),
        pytest.param("review --patch cut.patch --staged", "leave out", id="a patch and a revision"),
        pytest.param("check nowhere.py", "no such file or directory", id="no file"),
        pytest.param("check plain/m.py --diff HEAD", "not in a git repo", id="no repo to compare"),
        pytest.param(
            "check project/m.py plain/m.py --diff HEAD", "outside the repository", id="half outside"
        ),
        pytest.param("check project --diff HEAD --fix", "leave out --diff", id="fix a comparison"),
        pytest.param("check project --unsafe-fixes", "give both", id="unsafe without fix"),
        pytest.param("check - project", "goes with no other path", id="stdin and a path"),
        pytest.param("check broken", "pyproject.toml:2: there is no key 'selekt'", id="bad config"),
        pytest.param("config check broken", "pyproject.toml:2: there is no key", id="the same"),
        pytest.param("config check nowhere", "is not a directory", id="no place for a config"),
        pytest.param("check plain --select GPU9999", "no rule 'GPU9999'", id="an unknown rule"),
        pytest.param("check plain --ignore itm-in-hot-loop", "did you mean item-in", id="a typo"),
        pytest.param("explain GPU9999", "no rule 'GPU9999'", id="a page that does not exist"),
        pytest.param("check plain -o nowhere/out.txt", "cannot be written", id="no place to write"),
        pytest.param("chekc plain", "no command 'chekc'", id="an unknown command"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    here: Path, capfd: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    assert main(command.split()) == 2
    output, error = capfd.readouterr()
    assert output == ""
    assert said in error
    assert error.startswith("hostside: ")
    assert error.count("\n") == 1


def test_an_unknown_option_is_explained(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--frobnicate", "plain"]) == 2
    error = capfd.readouterr().err
    assert "--frobnicate" in error
    assert "`hostside check --help`" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"import torch\nx = '\xff'\n", "isn't utf-8 text", id="undecodable"),
        pytest.param(b"# coding: klingon\nimport torch\n", "encoding", id="an unknown encoding"),
        pytest.param(b"import torch\n\0", "NUL", id="NUL bytes"),
        pytest.param(b"import torch\nprint 1\n", "Python 2", id="Python 2"),
        pytest.param(b"import torch\ndef f(:\n", "isn't valid Python", id="a syntax error"),
        pytest.param(b"import torch\n" + b"# \n" * 17_000_000, "bytes long", id="50 MB"),
    ],
)
def test_a_named_file_that_cannot_be_judged_is_an_error(
    here: Path, capfd: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (here / "odd.py").write_bytes(content)
    assert main(["check", "odd.py"]) == 2
    error = capfd.readouterr().err
    assert error.startswith("hostside: odd.py was not checked: ")
    assert said in error
    assert error.count("\n") == 1


def test_the_same_file_in_a_tree_costs_the_others_nothing(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "plain" / "odd.py").write_bytes(b"import torch\ndef f(:\n")
    assert main(["check", "plain", "--exit-zero"]) == 0
    output = capfd.readouterr().out
    assert "plain/odd.py was not judged: Line 2 isn't valid Python" in output
    assert "1 file analysed; 1 file not judged." in output


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda p: (p / "d.py").mkdir(), id="a directory named like a file"),
        pytest.param(lambda p: os.mkfifo(p / "d.py"), id="a pipe named like a file"),
        pytest.param(lambda p: (p / "d.py").symlink_to("gone"), id="a link to nowhere"),
        pytest.param(lambda p: (p / "d.py").symlink_to("d.py"), id="a link to itself"),
        pytest.param(lambda p: (p / "loop").symlink_to(p), id="a directory that holds itself"),
    ],
)
def test_a_tree_with_odd_entries_is_checked_all_the_same(
    here: Path, capfd: pytest.CaptureFixture[str], make: Callable[[Path], object]
) -> None:
    make(here / "plain")
    assert main(["check", "plain", "--exit-zero"]) == 0
    assert "1 file analysed." in capfd.readouterr().out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything: run as another user")
def test_a_file_that_may_not_be_read_is_named(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "plain" / "m.py").chmod(0)
    assert main(["check", "plain/m.py"]) == 2
    assert "cannot be read: Permission denied" in capfd.readouterr().err


def test_an_empty_directory_is_no_error(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "nothing").mkdir()
    assert main(["check", "nothing"]) == 0
    assert "0 files analysed." in capfd.readouterr().out
