from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bot.errors import BotError
from bot.payloads import parse

RECORDED = Path(__file__).parents[2] / "shared" / "payloads"
FILES = sorted(RECORDED.glob("*.json"))
SHA = "0123456789abcdef0123456789abcdef01234567"

recorded = pytest.mark.skipif(not FILES, reason="the recorded payloads lie beside the repository")


@recorded
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_payload_parses(path: Path) -> None:
    event, _, action = path.stem.partition(".")
    payload = parse(event, path.read_bytes())
    assert payload.action == ("" if event == "ping" else action)
    assert payload.sender is not None
    if event == "pull_request":
        assert payload.pull_request is not None
        assert payload.pull_request.number > 0
        assert len(payload.pull_request.head.sha) == 40
    if event == "issue_comment":
        assert payload.comment is not None
        assert payload.issue is not None
    if event == "check_run":
        assert payload.check_run is not None


def pull(**changed: Any) -> bytes:
    made = {
        "number": 3,
        "draft": False,
        "head": {"sha": SHA, "ref": "fast", "repo": None},
        "base": {"sha": SHA, "ref": "main", "repo": {"id": 1, "full_name": "o/r"}},
        "user": None,
        "labels": 5,
    }
    return json.dumps({"action": "opened", "pull_request": made | changed}).encode()


def test_a_deleted_fork_and_a_deleted_author_are_no_obstacle() -> None:
    payload = parse("pull_request", pull())
    assert payload.pull_request is not None
    assert payload.pull_request.head.repo is None
    assert payload.pull_request.user is None


@pytest.mark.parametrize(
    ("event", "body", "words"),
    [
        pytest.param("pull_request", b"{", "the body", id="cut off"),
        pytest.param("pull_request", b"[]", "the body", id="a list"),
        pytest.param(
            "pull_request", pull(number="three"), "pull_request.number", id="a word for a number"
        ),
        pytest.param(
            "pull_request",
            pull(head={"sha": "../../x", "ref": "x"}),
            "pull_request.head.sha",
            id="a path for a commit",
        ),
    ],
)
def test_a_payload_of_wrong_shape_is_refused_in_one_sentence(
    event: str, body: bytes, words: str
) -> None:
    with pytest.raises(BotError) as caught:
        parse(event, body)
    assert words in str(caught.value)


def test_an_events_other_parts_are_not_even_read() -> None:
    body = json.dumps({"action": "created", "pull_request": "odd", "issue": 3}).encode()
    assert parse("ping", body).pull_request is None


@pytest.mark.slow
def test_every_pull_request_payload_that_github_published_parses(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm: apt-get install npm")
    package = "@octokit/webhooks-examples@7.6.1"
    got = subprocess.run([npm, "pack", package], cwd=tmp_path, capture_output=True, check=False)
    if got.returncode:
        pytest.skip(f"npm could not get {package}")
    (packed,) = tmp_path.glob("*.tgz")
    with tarfile.open(packed) as archive:
        file = archive.extractfile("package/api.github.com/index.json")
        assert file is not None
        events = {event["name"]: event["examples"] for event in json.load(file)}
    assert len(events["pull_request"]) == 29
    for name, examples in events.items():
        for example in examples:
            payload = parse(name, json.dumps(example).encode())
            assert payload.action == example.get("action", "")
