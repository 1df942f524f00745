"""The source on its way to a runner: one pack of exactly two commits, or a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_project import needs_bubblewrap
from repository import Repository, make_repository

from bot.bench_source import LaterError, SourceError, Sources, sources
from bot.bench_work import Order
from bot.github_errors import DeniedError, GitHubError, GoneError, LimitedError
from bot.github_git import Origin
from bot.runner_source import OpenError, unpack
from gpu_runner.tree import Repository as Tree

LOCAL = (
    ("GIT_ALLOW_PROTOCOL", "file"), ("GIT_CONFIG_GLOBAL", os.devnull), ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "uploadpack.allowAnySHA1InWant"),
    ("GIT_CONFIG_VALUE_0", "true"),
)  # fmt: skip
NOWHERE = "1" * 40


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    made = make_repository(tmp_path / "origin")
    made.commit({"a.py": "old = 1\n"})
    made.commit({"a.py": "base = 1\n", "deep/b.py": "b = 1\n"})
    made.commit({"a.py": "head = 1\n"})
    return made


def order(repository: Repository, base: str = "HEAD~1", head: str = "HEAD") -> Order:
    shas = [repository.git("rev-parse", each) for each in (base, head)]
    return Order("ada/glue", 1, 1, *shas, "ada")


def of(repository: Repository, mib: int = 8) -> Sources:
    return sources(lambda _: Origin(f"file://{repository.root}", LOCAL), mib)


def packed(repository: Repository, asked: Order) -> bytes:
    with of(repository).pack(asked) as path:
        return path.read_bytes()


def opened(data: bytes, folder: Path, *commits: str) -> Tree:
    return Tree(unpack(pieces(data), folder, commits))


def pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 1000):
        yield data[start : start + 1000]


def test_both_commits_arrive_with_all_they_hold_and_nothing_older(
    origin: Repository, tmp_path: Path
) -> None:
    asked = order(origin)
    tree = opened(packed(origin, asked), tmp_path / "there.git", asked.base_sha, asked.head_sha)
    assert tree.read(asked.base_sha, "a.py") == b"base = 1\n"
    assert tree.read(asked.head_sha, "a.py") == b"head = 1\n"
    assert tree.read(asked.head_sha, "deep/b.py") == b"b = 1\n"
    (change,) = tree.changes(asked.base_sha, asked.head_sha)
    assert change.path == "a.py"
    with tree.laid_out([("head", asked.head_sha)]) as folders:
        assert (folders["head"] / "deep" / "b.py").read_text() == "b = 1\n"
    oldest = origin.git("rev-parse", "HEAD~2")
    found = subprocess.run(["git", "-C", tree.folder, "cat-file", "-e", oldest], check=False)
    assert found.returncode != 0


def test_base_and_head_may_be_the_same_commit(origin: Repository, tmp_path: Path) -> None:
    asked = order(origin, "HEAD", "HEAD")
    tree = opened(packed(origin, asked), tmp_path / "there.git", asked.base_sha, asked.head_sha)
    assert tree.read(asked.head_sha, "a.py") == b"head = 1\n"


def test_the_file_is_gone_afterwards_also_when_nobody_read_it(origin: Repository) -> None:
    with of(origin).pack(order(origin)) as path:
        folder = path.parents[2]
        assert (folder / "HEAD").exists()
    assert not folder.exists()


def test_a_commit_that_a_force_push_took_away_is_a_sentence(origin: Repository) -> None:
    asked = Order("ada/glue", 1, 1, origin.git("rev-parse", "HEAD"), NOWHERE, "ada")
    with pytest.raises(SourceError, match=r"no longer has .* force push; ask again"):
        packed(origin, asked)


def test_a_repository_above_the_limit_ends_git_and_says_which_setting(origin: Repository) -> None:
    origin.commit({"data.bin": os.urandom(3 << 20)})
    with (
        pytest.raises(SourceError, match=r"larger than the 1 MiB .* HOSTSIDE_BENCH_SOURCE_MIB"),
        of(origin, mib=1).pack(order(origin)),
    ):
        pass


@pytest.mark.parametrize(
    ("problem", "kind", "words"),
    [
        pytest.param(GoneError("the App is no longer installed there"), SourceError,
                     "cannot be read any more .* install the App", id="gone"),
        pytest.param(DeniedError("no"), SourceError, "cannot be fetched: no", id="denied"),
        pytest.param(GitHubError("odd"), SourceError, "odd", id="anything else"),
        pytest.param(LimitedError("slow down"), LaterError, "slow down", id="a rate limit"),
    ],
)  # fmt: skip
def test_what_github_says_first_is_passed_on(
    origin: Repository, problem: Exception, kind: type[Exception], words: str
) -> None:
    def refuse(_: Order) -> Origin:
        raise problem

    with pytest.raises(kind, match=words), sources(refuse, 1).pack(order(origin)):
        pass


def test_a_repository_that_is_away_may_be_asked_again(origin: Repository, tmp_path: Path) -> None:
    away = sources(lambda _: Origin(f"file://{tmp_path / 'nowhere'}", LOCAL), 1)
    with pytest.raises(LaterError), away.pack(order(origin)):
        pass


def test_one_source_is_made_at_a_time(origin: Repository) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def slowly(_: Order) -> Origin:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.05)
        with lock:
            inside -= 1
        return Origin(f"file://{origin.root}", LOCAL)

    shared = sources(slowly, 8)

    def make() -> None:
        with shared.pack(order(origin)) as path:
            assert path.exists()

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


# --- what a runner makes of what comes


def spoilt(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: b"", id="nothing"),
        pytest.param(lambda data: b"<html>sign in</html>", id="a page"),
        pytest.param(lambda data: data[:-30], id="cut off"),
        pytest.param(spoilt, id="a bit turned"),
        pytest.param(lambda data: data[:12], id="a head alone"),
        pytest.param(lambda data: b"PACK\0\0\0\2\xff\xff\xff\xff" + data[12:], id="a false count"),
    ],
)
def test_what_is_no_sound_pack_is_refused(origin: Repository, tmp_path: Path, spoil) -> None:
    asked = order(origin)
    data = spoil(packed(origin, asked))
    with pytest.raises(OpenError, match="no sound git pack"):
        opened(data, tmp_path / "there.git", asked.base_sha, asked.head_sha)


def test_the_pack_of_other_commits_is_refused(origin: Repository, tmp_path: Path) -> None:
    asked = order(origin, "HEAD~2", "HEAD~1")
    wanted = origin.git("rev-parse", "HEAD")
    with pytest.raises(OpenError, match=f"does not hold the commit {wanted[:12]}"):
        opened(packed(origin, asked), tmp_path / "there.git", asked.head_sha, wanted)


def test_a_pack_with_a_file_missing_is_refused(origin: Repository, tmp_path: Path) -> None:
    head = origin.git("rev-parse", "HEAD")
    names = origin.git("rev-list", "--objects", "--no-walk", head).split("\n")
    kept = "".join(f"{line.split()[0]}\n" for line in names if not line.endswith("b.py"))
    data = subprocess.run(
        ["git", "-C", origin.root, "pack-objects", "--stdout", "-q"],
        input=kept.encode(), capture_output=True, check=True,
    ).stdout  # fmt: skip
    with pytest.raises(OpenError):
        opened(data, tmp_path / "there.git", head)


def test_a_small_pack_of_very_many_files_is_refused(origin: Repository, tmp_path: Path) -> None:
    bomb = origin.commit_very_many()
    data = packed(origin, order(origin, "HEAD", bomb))
    assert len(data) < 10_000
    with pytest.raises(OpenError, match="more than 300,000 or than 16 GiB"):
        opened(data, tmp_path / "there.git", origin.git("rev-parse", "HEAD"), bomb)


@pytest.mark.parametrize("name", [b".git", b"..", b".GIT", b"a/b"])
def test_a_tree_with_a_name_that_leads_elsewhere_is_refused(
    origin: Repository, tmp_path: Path, name: bytes
) -> None:
    def store(kind: str, data: bytes) -> str:
        line = ["git", "-C", origin.root, "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
        return subprocess.run(line, input=data, capture_output=True, check=True).stdout.decode()[
            :40
        ]

    blob = store("blob", b"#!/bin/sh\n")
    tree = store("tree", b"100755 " + name + b"\0" + bytes.fromhex(blob))
    who = "A <a@invalid> 1700000000 +0000"
    commit = store("commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
    origin.git("update-ref", "refs/heads/evil", commit)
    asked = Order("ada/glue", 1, 1, commit, commit, "ada")
    with pytest.raises(SourceError, match="malformed"):
        packed(origin, asked)
    data = subprocess.run(
        ["git", "-C", origin.root, "pack-objects", "--stdout", "-q"],
        input=f"{commit}\n{tree}\n{blob}\n".encode(), capture_output=True, check=True,
    ).stdout  # fmt: skip
    with pytest.raises(OpenError, match="no sound git pack"):
        opened(data, tmp_path / "there.git", commit)


def test_neither_filters_nor_hooks_nor_submodules_of_the_source_do_anything(
    origin: Repository, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    origin.write(".gitattributes", "*.py filter=evil diff=evil\n")
    origin.write(".gitmodules", f'[submodule "x"]\n\tpath = x\n\turl = file://{tmp_path}\n')
    origin.write(".git/hooks/post-checkout", f"#!/bin/sh\ntouch {mark}\n")
    origin.write(".lfsconfig", "[lfs]\n\turl = file:///nowhere\n")
    origin.commit({"c.py": "version https://git-lfs.github.com/spec/v1\n"})
    asked = order(origin)
    tree = opened(packed(origin, asked), tmp_path / "there.git", asked.base_sha, asked.head_sha)
    with tree.laid_out([("head", asked.head_sha)]) as folders:
        assert (folders["head"] / "c.py").exists()
    assert not mark.exists()
    assert not (tree.folder / "hooks").exists()


FULL = """
import sys, tempfile
from pathlib import Path
from bot.bench_source import SourceError, sources
from bot.bench_work import Order
from bot.github_git import Origin
from bot.runner_source import OpenError, unpack
from test_gpu_runner_source import LOCAL

which, origin, base, head, small, pack = sys.argv[1:]
tempfile.tempdir = small
try:
    if which == "service":
        asked = Order("ada/glue", 1, 1, base, head, "ada")
        with sources(lambda _: Origin("file://" + origin, LOCAL), 8).pack(asked):
            pass
    else:
        unpack([Path(pack).read_bytes()], Path(small) / "there.git", (base, head))
except (SourceError, OpenError) as problem:
    print(problem)
"""


@pytest.mark.sandbox
@needs_bubblewrap
@pytest.mark.parametrize(
    ("which", "words"),
    [
        pytest.param("service", "the service has no room for the source", id="on the service"),
        pytest.param("runner", "this machine has no room for the source", id="on the runner"),
    ],
)
def test_a_full_disk_is_told_as_one(
    origin: Repository, tmp_path: Path, which: str, words: str
) -> None:
    origin.commit({"data.bin": os.urandom(1 << 20)})
    asked = order(origin)
    (tmp_path / "pack").write_bytes(packed(origin, asked))
    small = tmp_path / "small"
    small.mkdir()
    given = (which, str(origin.root), asked.base_sha, asked.head_sha, small, tmp_path / "pack")
    box = ("bwrap", "--dev-bind", "/", "/", "--size", str(1 << 18), "--tmpfs", small)
    done = subprocess.run(
        [*box, sys.executable, "-c", FULL, *given], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout.startswith(words), done.stderr
