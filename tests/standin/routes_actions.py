"""Workflows: dispatched, listed, cancelled; their artifacts, which lie on another server."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from tests.standin.actions import actions_of, artifact_shape, shape
from tests.standin.model import RefusedError
from tests.standin.paging import paged
from tests.standin.world import World

router = APIRouter()
_HERE = "/repos/{owner}/{name}/actions"
_NEWEST = "2026-03-10"  # names the run without being asked


@router.post(_HERE + "/workflows/{workflow}/dispatches")
def dispatch(request: Request, workflow: str, given: dict):  # in a thread: a runner may start
    actions, repo = actions_of(request.app.state.world), request.state.repo
    run = actions.start(repo, workflow, given["ref"], given.get("inputs") or {})
    newest = request.headers.get("x-github-api-version") == _NEWEST
    if not (newest or given.get("return_run_details")):
        return Response(status_code=204)
    said = shape(actions.world, run)
    return JSONResponse(
        {"workflow_run_id": run.id, "run_url": said["url"], "html_url": said["html_url"]}
    )


@router.get(_HERE + "/workflows/{workflow}/runs")
async def runs(request: Request, workflow: str, event: str = ""):
    actions, repo = actions_of(request.app.state.world), request.state.repo
    actions.text_of(repo, workflow)
    shown = []
    for run in reversed(actions.runs):
        ours = run.repo is repo and run.workflow == workflow and event in ("", run.event)
        if run.hidden:
            run.hidden -= 1
        elif ours:
            shown.append(shape(actions.world, run))
    return paged(request, shown, "workflow_runs")


@router.get(_HERE + "/runs/{number}")
async def run(request: Request, number: int):
    actions = actions_of(request.app.state.world)
    return shape(actions.world, actions.find(request.state.repo, number))


@router.post(_HERE + "/runs/{number}/cancel", status_code=202)
async def cancel(request: Request, number: int):
    actions = actions_of(request.app.state.world)
    actions.cancel(actions.find(request.state.repo, number))
    return {}


@router.get(_HERE + "/runs/{number}/artifacts")
async def artifacts(request: Request, number: int):
    actions = actions_of(request.app.state.world)
    found = actions.find(request.state.repo, number)
    listed = [artifact_shape(actions.world, found, each) for each in found.artifacts]
    return paged(request, listed, "artifacts")


@router.get(_HERE + "/artifacts/{number}/zip")
async def download(request: Request, number: int):
    actions = actions_of(request.app.state.world)
    for found in actions.runs:
        for each in found.artifacts:
            if each.id == number and found.repo is request.state.repo:
                if each.expired:
                    raise RefusedError(410, "Artifact has expired")
                return RedirectResponse(f"{actions.blobs}/blobs/{number}?sig=secret", 302)
    raise RefusedError(404, "Not Found")


def blob_server(world: World) -> FastAPI:
    """The other server; it keeps what it was told, to see whether a token came along."""
    app = FastAPI(openapi_url=None)
    app.state.headers = []

    @app.get("/blobs/{number}")
    async def blob(request: Request, number: int, sig: str = ""):
        app.state.headers.append(dict(request.headers))
        for run in actions_of(world).runs:
            for each in run.artifacts:
                if each.id == number and sig == "secret":
                    return Response(each.content, media_type="application/zip")
        return Response(status_code=404)

    return app
