"""Suggestions as a patch: `git apply` takes it on the head, whatever the file looks like."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bot.bench_patch import Chosen, choose, listed, measurable
from bot.config import RepoConfig
from bot.diff import Change, ChangedFile, whole_file
from bot.errors import UsageError
from bot.quoting import quote, unquote
from bot.review import Review, build_review

TWO = """\
import torch


def first(n):
    return torch.zeros(n).cuda()


def second(n):
    return torch.ones(n, n).cuda()
"""
FIXED = TWO.replace("zeros(n).cuda()", 'zeros(n, device="cuda")').replace(
    "ones(n, n).cuda()", 'ones(n, n, device="cuda")'
)


def reviewed(*files: tuple[str, bytes]) -> tuple[Review, tuple[ChangedFile, ...]]:
    changed = tuple(ChangedFile(path, Change.ADDED, whole_file(text), text) for path, text in files)
    return build_review(changed, RepoConfig()), changed


def applied(directory: Path, path: str, text: bytes, patch: str) -> bytes:
    """The file after `git apply`, as the runner calls it."""
    file = directory / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
    git = ["git", "-C", str(directory), "-c", "core.autocrlf=false"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "apply", "--whitespace=nowarn", "-"], input=patch.encode(), check=True)
    return file.read_bytes()


@pytest.mark.parametrize(
    ("path", "change"),
    [
        pytest.param("train.py", lambda text: text, id="plain"),
        pytest.param("train.py", lambda text: text.removesuffix("\n"), id="no line end at the end"),
        pytest.param("train.py", lambda text: text.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(
            "train.py", lambda text: text.replace("import torch\n", "import torch\r\n"), id="mixed"
        ),
        pytest.param("train.py", lambda text: f"\ufeff{text}", id="a byte order mark"),
        pytest.param("train.py", lambda text: f"# é – \x0c\n{text}", id="beyond ASCII"),
        pytest.param("a b/tr ain.py", lambda text: text, id="blanks in the name"),
        pytest.param('caf\u00e9 "x"/tr\\ain\t1.py', lambda text: text, id="an odd name"),
    ],
)
def test_every_proven_edit_becomes_a_patch_that_git_applies(
    tmp_path: Path, path: str, change: object
) -> None:
    text = change(TWO).encode()  # type: ignore[operator]
    review, files = reviewed((path, text))
    assert len(measurable(review)) == 2
    now = text
    for number in ("1", "2"):
        chosen = choose(*reviewed((path, now)), wanted="1")
        now = applied(tmp_path / number, path, now, chosen.patch)
    assert now == change(FIXED).encode()  # type: ignore[operator]
    assert choose(review, files, "2").fingerprints == (measurable(review)[1].fingerprint,)


def test_all_suggestions_of_all_files_are_one_patch(tmp_path: Path) -> None:
    review, files = reviewed(("a.py", TWO.encode()), ("b/c.py", TWO.encode()))
    chosen = choose(review, files)
    assert chosen.words == "all 4 one-click suggestions"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.py").write_text(TWO)
    assert applied(tmp_path, "a.py", TWO.encode(), chosen.patch).decode() == FIXED
    assert (tmp_path / "b" / "c.py").read_text() == FIXED
    assert chosen == choose(review, files, "all")


def test_one_suggestion_leaves_the_others(tmp_path: Path) -> None:
    review, files = reviewed(("a.py", TWO.encode()))
    finding = measurable(review)[1]
    chosen = choose(review, files, finding=finding.fingerprint)
    assert chosen == choose(review, files, "2")
    assert chosen.words == "the suggestion of GPU201 at a.py:9"
    text = applied(tmp_path, "a.py", TWO.encode(), chosen.patch).decode()
    assert "zeros(n).cuda()" in text
    assert 'ones(n, n, device="cuda")' in text


def test_what_is_not_one_click_is_not_among_all_but_can_be_named() -> None:
    review, files = reviewed(("a.py", TWO.replace("\n", "\r\n").encode()))
    assert choose(review, files) == Chosen()
    assert choose(review, files, "1").patch
    with pytest.raises(UsageError, match="no one-click suggestion"):
        choose(review, files, "all")


def test_none_and_what_is_not_there() -> None:
    review, files = reviewed(("a.py", TWO.encode()))
    assert choose(review, files, "none", "f" * 16) == Chosen()
    with pytest.raises(UsageError, match="2 suggestions, and no number 3"):
        choose(review, files, "3")
    with pytest.raises(UsageError, match="no proven suggestion at this head"):
        choose(review, files, finding="f" * 16)


def test_a_file_of_another_encoding_is_a_sentence() -> None:
    text = f"# -*- coding: latin-1 -*-\n# \xe9\n{TWO}".encode("latin-1")
    with pytest.raises(UsageError, match=r"a\.py is not UTF-8 text"):
        choose(*reviewed(("a.py", text)))


def test_the_suggestions_are_numbered_as_they_are_measured() -> None:
    review, _ = reviewed(("a.py", TWO.encode()), ("b`c.py", TWO.encode()))
    lines = listed(review).splitlines()
    assert [line[:12] for line in lines] == [
        "1. `a.py:5` ",
        "2. `a.py:9` ",
        "3. ``b`c.py:",
        "4. ``b`c.py:",
    ]


@pytest.mark.parametrize("name", ["a/b.py", "caf\u00e9.py", 'x"y', "a\\b", "tab\there", "\udcff"])
def test_a_quoted_name_is_read_as_it_was(name: str) -> None:
    assert unquote(quote(name)) == name
