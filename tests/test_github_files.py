"""What a pull request changes, by whichever way GitHub still offers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import respx

from bot.diff import Change, ChangedFile
from bot.github import Access, connect
from bot.github_calls import DIFF
from bot.github_errors import GitHubError, TryAgainError
from bot.github_files import MOST_TEXTS, NO_TEXT
from bot.pulls import PullRef
from tests.github_scene import HEAD as FAULTY
from tests.github_scene import Scene, scene

LINES = "".join(f"x{n} = {n}\n" for n in range(40))
BASE: dict[str, str | bytes | None] = {
    "edited.py": LINES,
    "deleted.py": "gone = 1\n",
    "renamed.py": LINES + "kept = 1\n",
    "caf é.py": "a = 1\n",
    "data.bin": b"\0\1",
    "crlf.py": "a = 1\r\nb = 2\r\n",
    "notes.md": "words\n",
}
HEAD: dict[str, str | bytes | None] = {
    "edited.py": LINES.replace("x20 = 20\n", "x20 = 21\n"),
    "deleted.py": None,
    "renamed.py": None,
    "moved to/here.py": LINES.replace("x3 = 3", "x3 = 4") + "kept = 1\n",
    "caf é.py": "a = 2\n",
    "data.bin": b"\0\2",
    "crlf.py": "a = 1\r\nb = 3\r\n",
    "notes.md": "other words\n",
    "new.py": "y = 1",
    "empty.py": "",
}


@contextmanager
def changed(directory: Path) -> Iterator[Scene]:
    with scene(directory, base=BASE, head=HEAD) as made:
        yield made


def files_of(made: Scene) -> dict[str, ChangedFile]:
    client = made.client()
    try:
        return {file.path: file for file in client.changed_files(made.ref)}
    finally:
        client.close()


def facts(file: ChangedFile) -> tuple[object, ...]:
    hunks = [(h.first, h.last, sorted(h.added), sorted(h.removed)) for h in file.hunks]
    return (file.change, file.old_path, file.text, file.base, hunks)


WAYS = [
    pytest.param("diff", id="the diff"),
    pytest.param("listed", id="the list of files, when the diff is too large"),
    pytest.param("git", id="git, when a patch is missing"),
    pytest.param("git with 500", id="git, when the diff breaks GitHub"),
]


def spoil(made: Scene, way: str) -> None:
    made.pull.too_large = way in ("listed", "git")
    if way.startswith("git"):
        made.pull.hidden = {"edited.py"}
    if way.endswith("500"):
        made.world.faults.add("500", method="GET", path=r"/pulls/1$", call=2, times=3)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_files(tmp_path: Path, way: str) -> None:
    with changed(tmp_path) as made:
        spoil(made, way)
        files = files_of(made)
        assert set(files) == {p for p in HEAD if p != "renamed.py"}
        edited = files["edited.py"]
        assert edited.text == str(HEAD["edited.py"]).encode()
        assert edited.base == LINES.encode()
        assert [(h.first, h.last) for h in edited.hunks] == [(18, 24)]
        assert edited.added == {21}
        moved = files["moved to/here.py"]
        assert (moved.change, moved.old_path) == (Change.RENAMED, "renamed.py")
        assert moved.base == str(BASE["renamed.py"]).encode()
        assert moved.added == {4}
        gone = files["deleted.py"]
        assert (gone.change, gone.text, gone.base) == (Change.DELETED, None, b"gone = 1\n")
        assert files["caf é.py"].text == b"a = 2\n"
        assert files["crlf.py"].base == b"a = 1\r\nb = 2\r\n"
        assert files["new.py"].text == b"y = 1"
        assert files["new.py"].added == {1}
        assert files["notes.md"].text is None
        assert edited.shown is not way.startswith("git")


@pytest.mark.slow
def test_a_change_of_400_files_is_read(tmp_path: Path) -> None:
    head: dict[str, str | bytes | None] = {f"m{n}.py": f"x = {n}\n" for n in range(400)}
    with scene(tmp_path, head=head) as made:
        files = files_of(made)
        assert len(files) == 400
        assert files["m399.py"].text == b"x = 399\n"
        assert all(file.added == {1} for file in files.values())
        assert len(made.running.calls("GET", "/contents/")) == 0  # by git instead
        assert [c.status for c in made.running.calls("GET", "/pulls/1")][1] == 406


def test_many_texts_are_fetched_with_git_at_once(tmp_path: Path) -> None:
    head: dict[str, str | bytes | None] = {f"m{n}.py": "x = 1\n" for n in range(MOST_TEXTS + 1)}
    with scene(tmp_path, head=head) as made:
        assert all(file.shown and file.text for file in files_of(made).values())
        assert len(made.running.calls("POST", "git-upload-pack")) <= 3
        assert made.running.calls("GET", "/contents/") == []


def test_without_git_a_file_whose_patch_is_missing_is_named(tmp_path: Path) -> None:
    with changed(tmp_path) as made:
        made.pull.too_large = True
        made.pull.hidden = {"edited.py"}
        made.world.faults.add("500", path=r"\.git/", times=50)
        files = files_of(made)
        assert "could not be fetched" in files["edited.py"].unread
        assert files["new.py"].text == b"y = 1"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        pytest.param(1_500_000, "", id="over 1 MB: by its blob"),
        pytest.param(4_500_000, "at most", id="over our own limit"),
    ],
)
def test_a_large_file_is_read_or_named(tmp_path: Path, size: int, said: str) -> None:
    text = ("x = 1\n" * (size // 6)).encode()
    with scene(tmp_path, base={"big.py": text}, head={"big.py": text + b"y = 2\n"}) as made:
        file = files_of(made)["big.py"]
        assert said in file.unread
        assert (file.text == text + b"y = 2\n") is (said == "")


def test_a_file_that_may_not_be_read_is_named_and_the_others_are_reviewed(tmp_path: Path) -> None:
    head: dict[str, str | bytes | None] = {"train.py": FAULTY, "other.py": "x = 1\n"}
    with scene(tmp_path, head=head) as made:
        made.world.faults.add("403", method="GET", path=r"/contents/other\.py", times=50)
        review, plan, posted = made.review()
        assert [(f.path, f.reason) for f in review.files if f.unjudged] == [("other.py", NO_TEXT)]
        assert "other.py" in plan.summary
        assert posted.comments == 2
        assert len(made.running.calls("GET", "/contents/other.py")) == 1  # a refusal is final


def test_lines_of_a_file_that_github_does_not_show_are_not_commented_on(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        made.pull.too_large = True
        made.pull.hidden = {"train.py"}
        _, _, posted = made.review()
        assert (posted.comments, posted.files) == (0, 2)
        assert all(comment.whole_file for comment in made.comments)


def test_the_head_is_read_and_never_the_merge_commit(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        made.repo.git.commit(made.repo.ref("main"), {"train.py": "# moved on\n"})
        made.review()
        refs = {call.path for call in made.running.log}
        assert not any("merge" in path for path in refs)
        assert {c.commit for c in made.comments} == {made.pull.head_sha}


def test_a_diff_of_another_head_is_noticed(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        client, ref = made.client(), made.ref
        seen = client.pull(ref)
        made.world.push(made.pull, {"train.py": "import torch\n\nprint(1)\n"})
        files = client._files  # type: ignore[attr-defined]
        with pytest.raises(TryAgainError, match="moved on"):
            files.changed(seen)
        client.close()


def test_no_secret_is_on_a_command_line_or_in_a_message(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        made.pull.too_large = True
        made.pull.hidden = {"train.py"}
        files_of(made)
        token = next(iter(made.world.tokens))
        assert token not in repr(made.access)
        assert made.access.private_key not in repr(made.access)


def test_more_files_than_github_lists_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    listed = [{"filename": f"m{n}.py", "status": "added", "patch": "@@ -0,0 +1 @@\n+x"}
              for n in range(100)]  # fmt: skip
    base = "https://api.github.com/repos/o/r"
    pull = {"number": 1, "state": "open", "changed_files": 3000, "head": {"sha": "a"},
            "base": {"sha": "b", "repo": {"full_name": "o/r", "clone_url": ""}}}  # fmt: skip
    with respx.mock() as net:
        net.get(f"{base}/pulls/1", headers={"Accept": DIFF}).respond(406)
        net.get(f"{base}/pulls/1").respond(json=pull)
        more = {"Link": f'<{base}/pulls/1/files>; rel="next"'}
        page = httpx.Response(200, json=listed, headers=more)
        last = httpx.Response(200, json=listed)
        net.get(f"{base}/pulls/1/files").mock(side_effect=[page] * 29 + [last])
        net.get(url__startswith=f"{base}/compare/").respond(
            json={"base_commit": {"sha": "b"}, "merge_base_commit": {"sha": "c"}}
        )
        client = connect(Access(), token="t", repository="o/r")
        with pytest.raises(GitHubError, match="3,000"):
            client.changed_files(PullRef("o", "r", 1, "b", "a"))
        client.close()
