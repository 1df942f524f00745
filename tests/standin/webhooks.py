"""Webhooks: the payloads, their signature, their delivery and redelivery."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import uuid
from dataclasses import replace
from typing import Any

import httpx

from tests.standin import app_shapes, shapes
from tests.standin.model import CheckRun, Delivery, IssueComment, LineComment, Pull, RefusedError
from tests.standin.world import World


def payload(world: World, pull: Pull, event: str, action: str, more: dict[str, Any]) -> bytes:
    found = world.installation_of(pull.repo)
    sender = pull.user
    body: dict[str, Any] = {"action": action, "repository": shapes.repository(world, pull.repo)}
    if event.startswith("pull_request"):
        body |= {"pull_request": shapes.pull(world, pull), "number": pull.number}
    if event == "issue_comment":
        page = f"{world.url}/repos/{pull.repo.full_name}/pulls/{pull.number}"
        body["issue"] = {
            "number": pull.number,
            "state": pull.state,
            "title": pull.title,
            "user": shapes.user(world, pull.user),
            "pull_request": {"url": page},
        }
    if isinstance(comment := more.get("comment"), IssueComment | LineComment):
        shape = shapes.issue_comment if event == "issue_comment" else shapes.line_comment
        body["comment"], sender = shape(world, comment), comment.user
    if isinstance(check := more.get("check"), CheckRun):
        body |= {
            "check_run": app_shapes.check_run(world, check),
            "requested_action": {"identifier": more["button"]},
        }
        sender = world.user(more["by"])
    body |= {name: more[name] for name in ("before", "after") if name in more}
    body["sender"] = shapes.user(world, sender)
    if found:
        body["installation"] = {"id": found.id, "node_id": shapes.node("I", found.id)}
    return json.dumps(body).encode()


def deliver(world: World, pull: Pull, event: str, action: str, more: dict[str, Any]) -> None:
    """Make the event known; a listener that fails is not asked again."""
    found = world.installation_of(pull.repo)
    if world.deliver is None or found is None:
        return
    made = Delivery(
        next(world.ids), str(uuid.uuid4()), event, action,
        payload(world, pull, event, action, more), time.time(),
        installation=found.id, repository=pull.repo.id,
    )  # fmt: skip
    _send(world, made)


def _send(world: World, delivery: Delivery) -> None:
    assert world.deliver is not None
    world.deliveries.append(delivery)
    delivery.status_code = world.deliver(delivery)


def redeliver(world: World, number: int) -> None:
    """Another attempt of the same delivery: a new number, the same guid."""
    found = next((d for d in world.deliveries if d.id == number), None)
    if found is None:
        raise RefusedError(404, "Not Found")
    again = replace(found, id=next(world.ids), at=time.time(), redelivery=True, status_code=0)
    _send(world, again)


def headers(delivery: Delivery, secret: str) -> dict[str, str]:
    """What GitHub sends along."""
    signature = hmac.new(secret.encode(), delivery.body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/standin",
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Hook-ID": "1",
        "X-Hub-Signature-256": f"sha256={signature}",
    }


def to_address(url: str, secret: str):
    """A `World.deliver` that posts to this address; 0 when nobody answers."""

    def send(delivery: Delivery) -> int:
        try:
            found = httpx.post(
                url, content=delivery.body, headers=headers(delivery, secret), timeout=10
            )
        except httpx.HTTPError:
            return 0
        return found.status_code

    return send
