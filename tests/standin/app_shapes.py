"""GitHub's JSON about the App: itself, its check runs, installations and deliveries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.standin.model import CheckRun, Delivery, Installation
from tests.standin.shapes import WHEN, node, user
from tests.standin.world import APP_ID, World

EVENTS = ["check_run", "issue_comment", "pull_request", "pull_request_review_comment"]


def app(world: World) -> dict[str, Any]:
    return {
        "id": APP_ID,
        "slug": "hostside",
        "node_id": node("A", APP_ID),
        "client_id": "Iv1.standin",
        "owner": user(world, world.user("maker")),
        "name": "Hostside",
        "description": "",
        "external_url": "https://hostside.invalid",
        "html_url": f"{world.url}/apps/hostside",
        "created_at": WHEN,
        "updated_at": WHEN,
        "permissions": {"metadata": "read", "checks": "write", "pull_requests": "write"},
        "events": EVENTS,
        "installations_count": len(world.installations),
    }


def check_run(world: World, it: CheckRun) -> dict[str, Any]:
    api = f"{world.url}/repos/{it.repo.full_name}/check-runs/{it.id}"
    done = it.status == "completed"
    return {
        "id": it.id,
        "head_sha": it.head_sha,
        "node_id": node("CR", it.id),
        "external_id": it.external_id,
        "url": api,
        "html_url": f"{world.url}/{it.repo.full_name}/runs/{it.id}",
        "details_url": "https://hostside.invalid",
        "status": it.status,
        "conclusion": it.conclusion,
        "started_at": WHEN,
        "completed_at": WHEN if done else None,
        "output": {
            "title": it.title,
            "summary": it.summary,
            "text": None,
            "annotations_count": len(it.annotations),
            "annotations_url": f"{api}/annotations",
        },
        "name": it.name,
        "check_suite": {"id": it.repo.id},
        "app": app(world),
        "pull_requests": [],
    }


def installation(world: World, it: Installation) -> dict[str, Any]:
    api = f"{world.url}/app/installations/{it.id}"
    return {
        "id": it.id,
        "account": user(world, it.account),
        "repository_selection": "selected",
        "access_tokens_url": f"{api}/access_tokens",
        "repositories_url": f"{world.url}/installation/repositories",
        "html_url": f"{world.url}/settings/installations/{it.id}",
        "app_id": APP_ID,
        "app_slug": "hostside",
        "target_id": it.account.id,
        "target_type": "Organization",
        "permissions": it.permissions,
        "events": EVENTS,
        "created_at": WHEN,
        "updated_at": WHEN,
        "single_file_name": None,
        "suspended_by": None,
        "suspended_at": WHEN if it.suspended else None,
    }


def delivery(it: Delivery) -> dict[str, Any]:
    return {
        "id": it.id,
        "guid": it.guid,
        "delivered_at": datetime.fromtimestamp(it.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "redelivery": it.redelivery,
        "duration": 0.1,
        "status": "OK" if 200 <= it.status_code < 300 else "Invalid HTTP Response",
        "status_code": it.status_code,
        "event": it.event,
        "action": it.action,
        "installation_id": it.installation or None,
        "repository_id": it.repository or None,
    }
