"""The App itself: tokens, installations, deliveries."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from tests.standin import app_shapes, webhooks
from tests.standin.model import RefusedError, Token, invalid
from tests.standin.paging import paged

router = APIRouter()


@router.get("/app")
async def app(request: Request):
    return app_shapes.app(request.app.state.world)


@router.get("/repos/{owner}/{name}/installation")
async def installation(request: Request, owner: str, name: str):
    world = request.app.state.world
    repo = world.repos.get(f"{owner}/{name}".lower())
    found = world.installation_of(repo) if repo else None
    if found is None:
        raise RefusedError(404, "Not Found")
    return app_shapes.installation(world, found)


@router.post("/app/installations/{number}/access_tokens", status_code=201)
async def access_token(request: Request, number: int):
    world = request.app.state.world
    found = world.installations.get(number)
    if found is None:
        raise RefusedError(404, "Not Found")
    if found.suspended:
        raise RefusedError(403, "This installation has been suspended")
    wanted = await request.json() if await request.body() else {}
    repos = found.repos
    if names := wanted.get("repositories"):
        repos = [repo for repo in found.repos if repo.name in names]
        if len(repos) < len(names):
            raise RefusedError(
                422,
                "There is at least one repository that does not exist or is not accessible to "
                "the parent installation.",
            )
    permissions = wanted.get("permissions") or found.permissions
    for name, level in permissions.items():
        if found.permissions.get(name) not in (level, "write"):
            raise RefusedError(
                422, "The permissions requested are not granted to this installation."
            )
    # Long, with dots: nobody may rely on the old length of 40.
    value = f"ghs_{app_shapes.APP_ID}_{'x' * 300}.{next(world.ids)}.{'y' * 80}"
    expires = time.time() + 3600
    world.tokens[value] = Token(value, world.bot, dict(permissions), repos, expires, found)
    at = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "token": value,
        "expires_at": at,
        "permissions": permissions,
        "repository_selection": "selected",
    }


@router.get("/app/hook/deliveries")
async def deliveries(request: Request) -> JSONResponse:
    world = request.app.state.world
    return paged(request, [app_shapes.delivery(d) for d in reversed(world.deliveries)])


@router.post("/app/hook/deliveries/{number}/attempts")
def again(request: Request, number: int) -> Response:  # in a thread: it sends the webhook itself
    world = request.app.state.world
    if world.deliver is None:
        raise invalid("There is no webhook.")
    webhooks.redeliver(world, number)
    return JSONResponse({}, 202)
