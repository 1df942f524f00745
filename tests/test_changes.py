"""What changed in a git checkout, in every shape that a file can have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bot.changes import Ends, changed_files
from bot.diff import Change, ChangedFile
from bot.errors import UsageError
from bot.git import Checkout, open_checkout
from tests.repository import Repository, make_repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "project")


def between(repository: Repository, base: str, head: str) -> dict[str, ChangedFile]:
    checkout = open_checkout(str(repository.root))
    start = checkout.merge_base(checkout.commit(base), checkout.commit(head))
    found = changed_files(checkout, Ends(start, checkout.commit(head)))
    return {file.path: file for file in found}


def test_a_modified_file_comes_with_both_texts_and_its_added_lines(repository: Repository) -> None:
    repository.commit({"m.py": "a\nb\nc\n"})
    repository.commit({"m.py": "a\nB\nc\nd\n"})
    file = between(repository, "HEAD~1", "HEAD")["m.py"]
    assert (file.base, file.text) == (b"a\nb\nc\n", b"a\nB\nc\nd\n")
    assert file.added == {2, 4}


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="apt-get install util-linux")
def test_a_small_commit_of_very_many_files_does_not_fill_the_memory(repository: Repository) -> None:
    base = repository.commit({"m.py": "a\n"})
    many = repository.commit_very_many()
    checkout = Checkout(repository.root, most_memory=64 << 20)
    assert changed_files(checkout, Ends(base, base)) == ()
    with pytest.raises(UsageError, match="git diff failed"):
        changed_files(checkout, Ends(base, many))


def test_the_base_is_where_head_left_it(repository: Repository) -> None:
    repository.commit({"m.py": "a\n"})
    repository.git("switch", "--quiet", "--create", "feature")
    repository.commit({"new.py": "x\n"})
    repository.git("switch", "--quiet", "main")
    repository.commit({"later.py": "y\n"})
    assert set(between(repository, "main", "feature")) == {"new.py"}


def test_new_deleted_renamed_and_mode_changed_files_are_told_apart(repository: Repository) -> None:
    body = "".join(f"line {n}\n" for n in range(20))
    repository.commit({"gone.py": "x\n", "old.py": body, "mode.py": "y\n"})
    repository.git("mv", "old.py", "moved.py")
    repository.git("rm", "--quiet", "gone.py")
    (repository.root / "mode.py").chmod(0o755)
    repository.commit({"moved.py": body + "more\n", "new.py": "n\n"})
    files = between(repository, "HEAD~1", "HEAD")
    assert {path: file.change for path, file in files.items()} == {
        "gone.py": Change.DELETED,
        "moved.py": Change.RENAMED,
        "mode.py": Change.MODIFIED,
        "new.py": Change.ADDED,
    }
    assert (files["moved.py"].old_path, files["moved.py"].added) == ("old.py", {21})
    assert files["moved.py"].base == body.encode()
    assert files["mode.py"].hunks == ()
    assert files["gone.py"].base == b"x\n"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("café.py", id="accents"),
        pytest.param("with blank.py", id="a blank"),
        pytest.param('quo"te.py', id="a quote"),
        pytest.param("back\\slash.py", id="a backslash"),
        pytest.param("tab\tname.py", id="a tab"),
        pytest.param("line\nend.py", id="a line end"),
        pytest.param("-dash.py", id="like an option"),
        pytest.param(":(top)magic.py", id="like a pathspec"),
        pytest.param("star*.py", id="like a pattern"),
        pytest.param("dir b/a/b/x.py", id="like a diff prefix"),
        pytest.param(os.fsdecode(b"latin\xe9.py"), id="bytes that are no UTF-8"),
    ],
)
def test_any_file_name_is_found_again(repository: Repository, name: str) -> None:
    repository.commit({name: "a\n"})
    repository.commit({name: "a\nb\n"})
    file = between(repository, "HEAD~1", "HEAD")[name]
    assert (file.text, file.added) == (b"a\nb\n", {2})


@pytest.mark.parametrize(
    ("before", "after", "added"),
    [
        pytest.param(b"a\r\nb\r\n", b"a\r\nc\r\n", {2}, id="CRLF"),
        pytest.param(b"a\nb", b"a\nb\nc", {2, 3}, id="no line end at the end"),
        pytest.param(b"a\n", b"", set[int](), id="emptied"),
        pytest.param(b"a\nb\nc\n", b"a\nc\n", set[int](), id="only deleted"),
        pytest.param(b"a\n\x00\n", b"a\n\x00\nb\n", {3}, id="NUL bytes"),
        pytest.param(b"\xff\n", b"\xff\n\xfe\n", {2}, id="no UTF-8"),
        pytest.param(b"a\x0cb\n", b"a\x0cb\nc\n", {2}, id="a form feed"),
    ],
)
def test_any_text_has_the_right_added_lines(
    repository: Repository, before: bytes, after: bytes, added: set[int]
) -> None:
    repository.commit({"m.py": before})
    repository.commit({"m.py": after})
    file = between(repository, "HEAD~1", "HEAD")["m.py"]
    assert (file.text, file.added) == (after, added)


def test_links_and_submodules_are_named_and_not_read(
    repository: Repository, tmp_path: Path
) -> None:
    inner = make_repository(tmp_path / "inner")
    inner.commit({"x.py": "x\n"})
    repository.commit({"m.py": "a\n"})
    (repository.root / "link.py").symlink_to("m.py")
    repository.git("submodule", "--quiet", "add", str(inner.root), "vendored.py")
    repository.commit()
    files = between(repository, "HEAD~1", "HEAD")
    assert files["link.py"].unread == "It is a symbolic link."
    assert files["vendored.py"].unread == "It is a submodule."
    assert files["link.py"].text is None


def test_a_link_that_becomes_a_file_is_new_as_a_whole(repository: Repository) -> None:
    repository.write("m.py", "a\n")
    (repository.root / "x.py").symlink_to("m.py")
    repository.commit()
    (repository.root / "x.py").unlink()
    repository.commit({"x.py": "b\n"})
    file = between(repository, "HEAD~1", "HEAD")["x.py"]
    assert (file.text, file.added, file.base) == (b"b\n", {1}, None)


def test_a_huge_file_is_named_with_its_size(repository: Repository) -> None:
    repository.commit({"m.py": "a\n"})
    repository.commit({"huge.py": b"x = 1\n" * 1_000_000})
    file = between(repository, "HEAD~1", "HEAD")["huge.py"]
    assert file.text is None
    assert "6,000,000 bytes" in file.unread


def test_the_working_tree_counts_with_its_untracked_files(repository: Repository) -> None:
    repository.commit({"m.py": "a\n", ".gitignore": "ignored.py\n"})
    for path, text in {"m.py": "a\nb\n", "fresh.py": "x\n", "ignored.py": "y\n"}.items():
        repository.write(path, text)
    checkout = open_checkout(str(repository.root))
    files = {f.path: f for f in changed_files(checkout, Ends(checkout.commit("HEAD")))}
    assert set(files) == {"fresh.py", "m.py"}
    assert (files["fresh.py"].change, files["fresh.py"].added) == (Change.ADDED, {1})
    assert files["m.py"].text == b"a\nb\n"


def test_what_is_staged_is_read_from_the_index(repository: Repository) -> None:
    repository.commit({"m.py": "a\n"})
    repository.write("m.py", "a\nstaged\n")
    repository.git("add", "m.py")
    repository.write("m.py", "a\nlater\n")
    checkout = open_checkout(str(repository.root))
    (file,) = changed_files(checkout, Ends(checkout.commit("HEAD"), staged=True))
    assert file.text == b"a\nstaged\n"


def test_nothing_that_the_repository_configures_is_run(
    repository: Repository, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {witness}\ncat\n")
    program.chmod(0o755)
    repository.commit({"m.py": "a\n", ".gitattributes": "*.py diff=trap\n*.py -text\n"})
    for key in ("diff.external", "diff.trap.textconv", "diff.trap.command", "core.fsmonitor"):
        repository.git("config", key, str(program))
    repository.git("config", "diff.noprefix", "true")
    repository.git("config", "diff.context", "0")
    repository.git("config", "color.ui", "always")
    repository.write("m.py", "a\nb\n")
    witness.unlink(missing_ok=True)
    checkout = open_checkout(str(repository.root))
    (file,) = changed_files(checkout, Ends(checkout.commit("HEAD")))
    assert file.added == {2}
    assert len(file.hunks[0].after) == 2
    assert not witness.exists()


def test_attributes_cannot_hide_a_file_as_binary(repository: Repository) -> None:
    repository.commit({"m.py": "a\n"})
    repository.commit({"m.py": "a\nb\n", ".gitattributes": "*.py -diff binary\n"})
    assert between(repository, "HEAD~1", "HEAD")["m.py"].added == {2}


def test_a_bare_repository_is_read_too(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"m.py": "a\n"})
    repository.commit({"m.py": "b\n"})
    repository.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    checkout = open_checkout(str(tmp_path / "bare.git"))
    base, head = checkout.commit("main~1"), checkout.commit("main")
    assert checkout.bare
    assert [file.path for file in changed_files(checkout, Ends(base, head))] == ["m.py"]


def test_a_shallow_clone_is_told_what_to_fetch(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit({"m.py": "a\n"})
    repository.git("switch", "--quiet", "--create", "feature")
    repository.commit({"m.py": "b\n"})
    clone = tmp_path / "clone"
    source = f"file://{repository.root}"
    repository.git("clone", "--quiet", "--depth=1", "--no-single-branch", source, str(clone))
    checkout = open_checkout(str(clone))
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        checkout.commit(first + "~1")
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        checkout.merge_base(checkout.commit("origin/main"), checkout.commit("origin/feature"))


def test_unrelated_histories_have_no_base(repository: Repository) -> None:
    repository.commit({"m.py": "a\n"})
    repository.git("switch", "--quiet", "--orphan", "other")
    repository.commit({"n.py": "b\n"})
    with pytest.raises(UsageError, match="no common ancestor"):
        between(repository, "main", "other")


def test_a_file_with_merge_conflicts_is_named(repository: Repository) -> None:
    repository.commit({"m.py": "a\n"})
    repository.git("switch", "--quiet", "--create", "feature")
    repository.commit({"m.py": "b\n"})
    repository.git("switch", "--quiet", "main")
    repository.commit({"m.py": "c\n"})
    with pytest.raises(Exception, match="merge"):
        repository.git("merge", "feature")
    checkout = open_checkout(str(repository.root))
    (file,) = changed_files(checkout, Ends(checkout.commit("HEAD")))
    assert file.unread == "It has unresolved merge conflicts."
