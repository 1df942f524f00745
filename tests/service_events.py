"""Webhook bodies for tests, made of the few fields that are read."""

from __future__ import annotations

from typing import Any

REPO = {"id": 11, "full_name": "acme/train"}
ADA = {"id": 21, "login": "ada", "type": "User"}
ROBOT = {"id": 22, "login": "robot[bot]", "type": "Bot"}
HEAD, BASE = "a" * 40, "b" * 40


def pull_request(
    action: str, number: int = 1, head: str = HEAD, at: str = "2026-01-01T00:00:01Z", **more: Any
) -> dict[str, Any]:
    made = {
        "number": number,
        "updated_at": at,
        "head": {"sha": head, "ref": "faster", "repo": REPO},
        "base": {"sha": BASE, "ref": "main", "repo": REPO},
        "user": ADA,
    }
    return _event(action) | {"pull_request": made | more}


def issue_comment(
    body: str, action: str = "created", user: dict[str, Any] = ADA, on_pull: bool = True
) -> dict[str, Any]:
    issue = {"number": 1} | ({"pull_request": {"url": "x"}} if on_pull else {})
    comment = {"id": 71, "body": body, "user": user}
    return _event(action) | {"issue": issue, "comment": comment, "sender": user}


def line_comment(body: str) -> dict[str, Any]:
    event = pull_request("created")
    return event | {"comment": {"id": 72, "body": body, "user": ADA}}


def check_run(action: str, identifier: str = "benchmark", **changed: Any) -> dict[str, Any]:
    run = {"id": 81, "name": "Hostside", "head_sha": HEAD, "pull_requests": [{"number": 1}]}
    return _event(action) | {
        "check_run": run | changed,
        "requested_action": {"identifier": identifier},
    }


def _event(action: str) -> dict[str, Any]:
    return {"action": action, "repository": REPO, "installation": {"id": 5}, "sender": ADA}
