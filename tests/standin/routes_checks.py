"""Check runs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from tests.standin import app_shapes
from tests.standin.model import CheckRun, RefusedError, invalid
from tests.standin.paging import paged

router = APIRouter()
_BATCH, _LONGEST = 50, 65_535
_ACTIONS, _LABEL, _DESCRIPTION = 3, 20, 40


def _take(check: CheckRun, given: dict[str, Any]) -> None:
    output = given.get("output") or {}
    annotations = output.get("annotations") or []
    if len(annotations) > _BATCH:
        raise invalid(f"No more than {_BATCH} annotations can be sent at once.")
    for note in annotations:
        several = note["start_line"] != note["end_line"]
        if several and ("start_column" in note or "end_column" in note):
            raise invalid("Columns can only be given for annotations of one line.")
        if note["start_line"] > note["end_line"] or note["start_line"] < 1:
            raise invalid("Annotations must start at a line and end at it or a later one.")
    if len(output.get("summary") or "") > _LONGEST:
        raise invalid("The summary is too long.")
    actions = given.get("actions") or []
    if len(actions) > _ACTIONS or any(
        len(a["label"]) > _LABEL or len(a["identifier"]) > _LABEL
        or len(a["description"]) > _DESCRIPTION
        for a in actions
    ):  # fmt: skip
        raise invalid("There are too many actions, or one is too long.")
    if given.get("status") == "completed" and not given.get("conclusion"):
        raise invalid("A completed check run needs a conclusion.")
    check.annotations += annotations  # GitHub adds them to those that are there
    check.title = output.get("title", check.title)
    check.summary = output.get("summary", check.summary)
    check.actions = actions or check.actions
    check.external_id = given.get("external_id", check.external_id)
    check.conclusion = given.get("conclusion", check.conclusion)
    check.status = "completed" if given.get("conclusion") else given.get("status", check.status)


@router.post("/repos/{owner}/{name}/check-runs", status_code=201)
async def create(request: Request):
    world, repo, given = request.app.state.world, request.state.repo, await request.json()
    if request.state.token.installation is None:
        raise RefusedError(403, "You must authenticate via a GitHub App.")
    if not repo.git.tip(given["head_sha"]):
        raise invalid("No commit found for SHA: " + given["head_sha"])
    check = CheckRun(next(world.ids), repo, given["name"], given["head_sha"])
    _take(check, given)
    world.checks.append(check)
    return app_shapes.check_run(world, check)


def _find(request: Request, number: int) -> CheckRun:
    world, repo = request.app.state.world, request.state.repo
    found = next((c for c in world.checks if c.id == number and c.repo is repo), None)
    if found is None:
        raise RefusedError(404, "Not Found")
    return found


@router.get("/repos/{owner}/{name}/check-runs/{number}")
async def read(request: Request, number: int):
    return app_shapes.check_run(request.app.state.world, _find(request, number))


@router.patch("/repos/{owner}/{name}/check-runs/{number}")
async def update(request: Request, number: int):
    check = _find(request, number)
    _take(check, await request.json())
    return app_shapes.check_run(request.app.state.world, check)


@router.get("/repos/{owner}/{name}/commits/{sha}/check-runs")
async def of_commit(request: Request, sha: str, check_name: str = ""):
    world, repo = request.app.state.world, request.state.repo
    found = [c for c in world.checks_on(sha) if c.repo is repo and check_name in ("", c.name)]
    found.sort(key=lambda check: check.id, reverse=True)
    if request.query_params.get("filter", "latest") == "latest":
        found = list({check.name: check for check in reversed(found)}.values())
    return paged(request, [app_shapes.check_run(world, check) for check in found], "check_runs")
