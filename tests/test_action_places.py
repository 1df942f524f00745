"""Where the Action works: GHES, large changes, odd paths, the tree, events as GitHub sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.action_event import Trigger, read
from bot.errors import UsageError
from tests.action_scene import EVENTS, Stage, stage
from tests.github_scene import BASE, HEAD
from tests.standin.running import served

RECORDED = Path(__file__).parents[2] / "shared" / "payloads"
READ_ONLY = {"contents": "read", "metadata": "read", "pull_requests": "read"}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


@pytest.mark.parametrize("event", ["pull_request", "merge_group"])
def test_an_enterprise_server_is_found_by_the_addresses_of_its_runner(
    opened: Stage, event: str
) -> None:
    inner = opened.github.running.app
    asked: list[str] = []

    async def server(scope: dict[str, Any], receive: Any, send: Any) -> None:
        """The API below /api/v3, GraphQL beside it, as an Enterprise Server has them."""
        asked.append(scope["path"])
        path = scope["path"].removeprefix("/api/v3").removeprefix("/api")
        await inner(scope | {"path": path, "raw_path": path.encode()}, receive, send)

    with served(server) as port:  # type: ignore[arg-type]  # any ASGI application will do
        opened.github.world.url = f"http://127.0.0.1:{port}/api/v3"
        done = opened.act(event)
    assert done.outputs["findings"] == "2"
    assert [path for path in asked if not path.startswith(("/api/v3/", "/api/graphql"))] == []
    if event == "pull_request":
        assert "/api/graphql" in asked
        assert len(opened.comments) == 2


def test_a_change_of_three_megabytes_is_reviewed(tmp_path: Path) -> None:
    line = "VALUE = 'a line of some length, so that few of them make a large file'  # {}\n"
    padding = "".join(line.format(n) for n in range(5_000))
    head: dict[str, str | bytes | None] = {f"pack age/data {n}.py": padding for n in range(8)}
    head["pack age/train.py"] = HEAD
    assert sum(len(text or "") for text in head.values()) > 3_000_000
    with stage(tmp_path, head=head) as made:
        done = made.act()
    assert (done.code, done.outputs["findings"], done.outputs["conclusion"]) == (1, "2", "failure")
    assert "train.py" in done.log
    assert "not judged" not in done.summary


def test_a_large_push_is_reviewed_too(tmp_path: Path) -> None:
    head: dict[str, str | bytes | None] = {f"data/{n}.py": f"N = {n}\n" for n in range(320)}
    with stage(tmp_path, head=head | {"train.py": HEAD}) as made:
        done = made.act("push")
    assert (done.code, done.outputs["findings"]) == (1, "2")


def test_a_path_with_blanks_and_marks_is_escaped_in_annotations(tmp_path: Path) -> None:
    path = "my dir/trä,in:50%.py"
    with stage(tmp_path, head={path: HEAD}) as made:
        done = made.act()
    assert done.outputs["findings"] == "2"
    (first, *_) = [line for line in done.annotations if "GPU201" in line]
    assert "file=my dir/trä%2Cin%3A50%25.py,line=" in first
    assert len(made.comments) == 2


def test_nothing_of_a_change_can_speak_to_the_runner(tmp_path: Path) -> None:
    path = "a\n::error::owned\n##[add-mask]x.py"
    broken = "import torch\n\ndef broken(:\n"
    with stage(tmp_path, head={path: broken, "b.py": HEAD}) as made:
        done = made.act()
    lines = done.log.splitlines()
    assert not any(line.startswith("::error::") for line in lines)
    assert not any(line.startswith("##[") for line in lines)


def test_the_whole_tree_is_scanned_where_it_is_checked_out(opened: Stage) -> None:
    environment = opened.environment("push", {})
    workspace = Path(environment["GITHUB_WORKSPACE"])
    (workspace / "sub dir").mkdir()
    (workspace / "sub dir" / "train.py").write_text(HEAD)
    (workspace / "clean.py").write_text(BASE)
    done = opened.act("push", {"scan": "tree", "fail-on": "never"})
    assert (done.code, done.outputs["findings"]) == (0, "2")
    results = json.loads(Path(done.outputs["sarif"]).read_text())["runs"][0]["results"]
    places = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results}
    assert places == {"sub%20dir/train.py"}
    (workspace / "sub dir" / "pyproject.toml").write_text("[tool.hostside]\nignore = ['GPU2']\n")
    assert opened.act("push", {"scan": "tree"}).outputs["findings"] == "0"
    (workspace / "sub dir" / "pyproject.toml").unlink()
    elsewhere = opened.act("schedule", {"scan": "tree", "working-directory": "sub dir"})
    assert elsewhere.outputs["findings"] == "2"


def test_a_tree_that_is_not_checked_out_is_named(opened: Stage) -> None:
    done = opened.act("push", {"scan": "tree"})
    assert done.code == 2
    assert "needs actions/checkout first" in done.log


def test_a_pull_request_cannot_bring_the_settings_of_its_own_scan(opened: Stage) -> None:
    environment = opened.environment("pull_request", {})
    workspace = Path(environment["GITHUB_WORKSPACE"])
    (workspace / "train.py").write_text(HEAD)
    (workspace / "pyproject.toml").write_text("[tool.hostside]\nignore = ['ALL']\n")
    assert opened.act("pull_request", {"scan": "tree"}).outputs["findings"] == "2"


def test_links_of_a_checkout_lead_nowhere(opened: Stage, tmp_path: Path) -> None:
    workspace = Path(opened.environment("push", {})["GITHUB_WORKSPACE"])
    outside = tmp_path / "of the machine"
    outside.mkdir()
    (outside / "secret.py").write_text(HEAD)
    (outside / "precious").write_text("kept")
    (workspace / "clean.py").write_text(BASE)
    (workspace / "train.py").symlink_to(outside / "secret.py")
    (workspace / "package").symlink_to(outside)
    (workspace / "report.sarif").symlink_to(outside / "precious")
    scanned = opened.act("push", {"scan": "tree"})
    assert (scanned.code, scanned.outputs["findings"]) == (0, "0")
    named = opened.act("push", {"scan": "tree", "working-directory": "package"})
    assert (named.code, named.outputs["conclusion"]) == (2, "neutral")
    for place in ("report.sarif", "package/new.sarif", "../new.sarif", str(outside / "new")):
        done = opened.act("push", {"sarif-file": place})
        assert (done.code, done.outputs["sarif"]) == (2, "")
        assert "does not lie below the workspace" in done.log
    assert (outside / "precious").read_text() == "kept"
    assert sorted(file.name for file in outside.iterdir()) == ["precious", "secret.py"]


# The events as GitHub publishes them.


def told(tmp_path: Path, name: str, payload: object) -> dict[str, str]:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(payload))
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(file), "GITHUB_SHA": "c" * 40}


@pytest.mark.skipif(not RECORDED.is_dir(), reason="recorded payloads are not here")
@pytest.mark.parametrize(
    ("file", "trigger"),
    [
        pytest.param(
            f"pull_request.{action}",
            ("Codertocat/Hello-World", 2, "ec26c3e57ca3a959ca5aad62de7213c562f8c821"),
            id=action,
        )
        for action in ("opened",)
    ],
)
def test_recorded_pull_requests_are_understood(
    tmp_path: Path, file: str, trigger: tuple[str, int, str]
) -> None:
    payload = json.loads((RECORDED / f"{file}.json").read_text())
    found = read(told(tmp_path, "pull_request", payload))
    assert (found.repository, found.number, found.head_sha) == trigger


@pytest.mark.skipif(not RECORDED.is_dir(), reason="recorded payloads are not here")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("pull_request", "pull_request.synchronize"), ("workflow_run", "workflow_run.completed")],
)
def test_our_events_have_no_field_that_github_does_not_send(ours: str, theirs: str) -> None:
    mine = json.loads((EVENTS / f"{ours}.json").read_text())
    real = json.loads((RECORDED / f"{theirs}.json").read_text())
    # Newer than the recordings.
    known = {"workflow_run.path", "workflow_run.actor", "workflow_run.display_title"}
    assert _unknown(mine, real, "") - known == set()


def _unknown(mine: object, real: object, place: str) -> set[str]:
    """The places of `mine` that `real` lacks, below objects that both have."""
    if not isinstance(mine, dict) or not isinstance(real, dict):
        return set()
    found: set[str] = set()
    for key, value in mine.items():
        inner = f"{place}.{key}".lstrip(".")
        found |= _unknown(value, real[key], inner) if key in real else {inner}
    return found


BROKEN = [
    pytest.param("push", [], "the event push cannot be read", id="a list"),
    pytest.param("push", {}, "names a repository", id="no repository"),
    pytest.param(
        "pull_request", {"repository": {"id": 1, "full_name": "a/b"}, "pull_request": {}},
        "pull_request.number", id="no number",
    ),
    pytest.param(
        "push", {"repository": {"id": 1, "full_name": "a/../b"}}, "full_name", id="no name",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "payload", "said"), BROKEN)
def test_a_broken_event_is_one_sentence(
    tmp_path: Path, name: str, payload: object, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        read(told(tmp_path, name, payload))


def test_an_event_without_its_part_names_no_change(tmp_path: Path) -> None:
    payload = {"repository": {"id": 1, "full_name": "a/b"}}
    found = read(told(tmp_path, "merge_group", payload))
    assert isinstance(found, Trigger)
    assert "names no change" in found.nothing
