"""The run that posts for a fork believes nothing of what the fork's run left."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.action_scene import READ, Stage, stage
from tests.github_scene import HEAD


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.from_fork()
        yield made


def note(forked: Stage, **changes: Any) -> dict[str, Any]:
    head = forked.github.pull.head_sha
    return {"version": 1, "pull_request": 2, "head_sha": head} | changes


def folder(forked: Stage, content: str | bytes) -> Path:
    made = forked.directory / "note"
    made.mkdir(exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    (made / "pull-request.json").write_bytes(data)
    return made


def nothing_was_said(forked: Stage) -> bool:
    world = forked.github.world
    return not (world.reviews or world.line_comments or world.issue_comments)


HOSTILE = [
    pytest.param(lambda n: json.dumps(n | {"body": "@everyone"}), id="a field more"),
    pytest.param(lambda n: json.dumps({k: n[k] for k in ("version",)}), id="fields less"),
    pytest.param(lambda n: json.dumps(n | {"pull_request": "2"}), id="a number as text"),
    pytest.param(lambda n: json.dumps(n | {"pull_request": True}), id="a truth as a number"),
    pytest.param(lambda n: json.dumps(n | {"pull_request": 2.0}), id="a fraction"),
    pytest.param(lambda n: json.dumps(n | {"pull_request": -2}), id="below zero"),
    pytest.param(lambda n: json.dumps(n | {"pull_request": 10**30}), id="without end"),
    pytest.param(lambda n: json.dumps(n | {"pull_request": "../../issues/1"}), id="a path"),
    pytest.param(lambda n: json.dumps(n | {"head_sha": "HEAD"}), id="no commit"),
    pytest.param(lambda n: json.dumps(n | {"version": 2}), id="another version"),
    pytest.param(lambda n: json.dumps([n]), id="a list"),
    pytest.param(lambda n: json.dumps(n) + " " * 2000, id="too long"),
    pytest.param(lambda n: "[" * 1000, id="nested"),
    pytest.param(lambda n: "", id="empty"),
    pytest.param(lambda n: b"\xff\xfe\x00", id="no text"),
]


@pytest.mark.parametrize("forge", HOSTILE)
def test_a_note_that_is_not_ours_posts_nothing(
    forked: Stage, forge: Callable[[dict[str, Any]], str | bytes]
) -> None:
    left = folder(forked, forge(note(forked)))
    done = forked.act("workflow_run", {"artifact": str(left)})
    assert done.code == 2
    assert "nothing was posted" in done.log
    assert "@everyone" not in done.log + done.summary
    assert nothing_was_said(forked)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_only_a_regular_file_is_read(forked: Stage, kind: str, tmp_path: Path) -> None:
    left = tmp_path / "note"
    left.mkdir()
    file = left / "pull-request.json"
    if kind == "link":
        (tmp_path / "elsewhere.json").write_text(json.dumps(note(forked)))
        file.symlink_to(tmp_path / "elsewhere.json")
    elif kind == "folder":
        file.mkdir()
    else:
        os.mkfifo(file)
    done = forked.act("workflow_run", {"artifact": str(left)})
    assert done.code == 2
    assert "pull-request.json of the artifact" in done.log
    assert nothing_was_said(forked)


def run_of(forked: Stage, **changes: Any) -> dict[str, Any]:
    event = json.loads(forked.event("workflow_run").read_text())
    return {"workflow_run": event["workflow_run"] | changes}


def test_a_note_that_names_another_pull_request_posts_nothing(forked: Stage) -> None:
    left = folder(forked, json.dumps(note(forked, pull_request=1)))
    done = forked.act("workflow_run", {"artifact": str(left)})
    assert (done.code, done.outputs["conclusion"]) == (0, "skipped")
    assert "does not stand at the commit" in done.log
    assert nothing_was_said(forked)


def test_a_commit_that_the_note_claims_counts_for_nothing(forked: Stage) -> None:
    first = forked.github.world.pulls[0]
    left = folder(forked, json.dumps(note(forked, pull_request=1, head_sha=first.head_sha)))
    forked.act("workflow_run", {"artifact": str(left)})
    assert nothing_was_said(forked)


REFUSED = [
    pytest.param({"event": "push"}, "started by push", id="a run of another event"),
    pytest.param({"head_branch": "main"}, "does not stand at the commit", id="another branch"),
    pytest.param({"head_sha": "b" * 40}, "does not stand at the commit", id="another commit"),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_the_run_that_is_followed_must_be_of_the_pull_request(
    forked: Stage, changes: dict[str, str], said: str
) -> None:
    left = folder(forked, json.dumps(note(forked)))
    done = forked.act("workflow_run", {"artifact": str(left)}, **run_of(forked, **changes))
    assert (done.code, done.outputs["conclusion"]) == (0, "skipped")
    assert said in done.log
    assert nothing_was_said(forked)


def test_a_push_after_the_run_leaves_the_posting_to_its_own(forked: Stage) -> None:
    left = folder(forked, json.dumps(note(forked)))
    run = run_of(forked)
    forked.github.world.push(forked.github.pull, {"train.py": HEAD + "\n# more\n"})
    assert forked.act("workflow_run", {"artifact": str(left)}, **run).outputs["findings"] == "0"
    assert nothing_was_said(forked)


def test_a_closed_pull_request_is_left_alone(forked: Stage) -> None:
    left = folder(forked, json.dumps(note(forked)))
    forked.github.world.close(forked.github.pull)
    assert forked.act("workflow_run", {"artifact": str(left)}).outputs["conclusion"] == "skipped"
    assert nothing_was_said(forked)


def test_words_of_the_artifact_are_never_posted(forked: Stage) -> None:
    left = forked.act("pull_request", permissions=READ, event="pull_request_fork")
    report = Path(left.outputs["artifact"]) / "review.json"
    report.write_text(report.read_text().replace("GPU201", "forged words"))
    forked.act("workflow_run", {"artifact": left.outputs["artifact"]})
    assert len(forked.comments) == 2
    assert "forged" not in "".join(forked.comments + forked.summaries)
