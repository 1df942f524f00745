"""The stand-in as an ASGI application: who may ask, how fast, and what goes wrong on purpose."""

from __future__ import annotations

import asyncio
import json
import re
import time
import traceback
from dataclasses import dataclass

import jwt
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from tests.standin import (
    routes_actions,
    routes_app,
    routes_checks,
    routes_comments,
    routes_git,
    routes_pulls,
)
from tests.standin.contract import Contract
from tests.standin.faults import Fault
from tests.standin.model import RefusedError, Token
from tests.standin.world import APP_ID, World

HANG = 1.5  # seconds until a request that "times out" is answered after all
_DOCS = "https://docs.github.com/rest"
# What a token needs, by the path below the repository.
_NEEDS = (
    (r"^(contents|git|compare)/", "contents"),
    (r"^actions/", "actions"),
    (r"^check-runs|^commits/[^/]+/check-runs", "checks"),
    (r"^(pulls|issues)(/|$)", "pull_requests"),
    (r"", "metadata"),
)
_APP_ROUTES = re.compile(r"^/app(/|$)|^/repos/[^/]+/[^/]+/installation$")


@dataclass(frozen=True)
class Logged:
    """One request that came in."""

    method: str
    path: str
    status: int
    at: float
    token: str


def create_app(world: World, contract: Contract | None = None) -> FastAPI:
    """The stand-in over this world."""
    app = FastAPI(openapi_url=None)
    app.state.world = world
    app.state.log = []
    app.state.broken = []
    for module in (
        routes_app, routes_pulls, routes_comments, routes_checks, routes_git, routes_actions,
    ):  # fmt: skip
        app.include_router(module.router)

    @app.exception_handler(RefusedError)
    async def refused(_: Request, problem: RefusedError) -> JSONResponse:
        return _error(problem.status, problem.message, problem.errors)

    @app.middleware("http")
    async def around(request: Request, call_next) -> Response:
        body = await request.body()
        path = request.url.path
        hook = f"?{request.url.query}" if request.url.query else ""
        fault = world.faults.strike(request.method, path)
        answer: Response | None = None
        if fault is None or fault.after:
            try:
                answer = await _answer(world, request, call_next)
            except Exception:
                app.state.broken.append(traceback.format_exc())
                answer = _error(500, "the stand-in itself is broken")
        if fault is not None:
            answer = await _spoil(fault, answer)
        assert answer is not None
        content = await _content(answer)
        token = request.headers.get("authorization", "").partition(" ")[2]
        app.state.log.append(Logged(request.method, path, answer.status_code, time.time(), token))
        if contract is not None and fault is None and not _elsewhere(path):
            raw = request.scope["raw_path"].decode().partition("?")[0]
            kind = answer.headers.get("content-type", "")
            said = (answer.status_code, kind, content)
            known = said if answer.status_code in _DESCRIBED else None
            contract.check(request.method, raw + hook, dict(request.headers), body, known)
        if isinstance(answer, StreamingResponse):
            return answer
        headers = {k: v for k, v in answer.headers.items() if k.lower() not in ("content-length",)}
        return Response(content, answer.status_code, headers | _budget(headers))

    return app


# Refusals that GitHub gives everywhere are not described at each endpoint.
_DESCRIBED = (200, 201, 202, 204, 406)


def _elsewhere(path: str) -> bool:
    return path == "/graphql" or ".git/" in path or path.endswith("/annotations")


async def _content(answer: Response) -> bytes:
    if hasattr(answer, "body"):
        return bytes(answer.body)
    if isinstance(answer, StreamingResponse):  # a connection that breaks off
        return b""
    return b"".join([part async for part in answer.body_iterator])  # pyright: ignore


async def _answer(world: World, request: Request, call_next) -> Response:
    problem = _who(world, request)
    if problem is not None:
        return problem
    if request.method == "GET" or _elsewhere(request.url.path) or "/app/" in request.url.path:
        return await call_next(request)
    if world.gap and (world.writing or time.time() - world.last_write < world.gap):
        return _limited(403, {"retry-after": "1"})
    world.writing += 1
    try:
        if world.gap:
            await asyncio.sleep(0.02)
        return await call_next(request)
    finally:
        world.writing -= 1
        world.last_write = time.time()


def _who(world: World, request: Request) -> Response | None:
    """Finds out who asks; an answer when they may not."""
    path = request.url.path
    if ".git/" in path:
        return None
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if _APP_ROUTES.match(path):
        return _as_app(world, secret) if kind.lower() == "bearer" else _needs_jwt()
    return _by_token(world, request, secret)


def _by_token(world: World, request: Request, secret: str) -> Response | None:
    token = world.tokens.get(secret)
    if token is None or token.expires < time.time():
        return _error(401, "Bad credentials")
    request.state.token = token
    path = request.url.path
    match = re.match(r"^/repos/([^/]+/[^/]+)(?:/(.*))?$", path)
    if not match:
        return None
    repo = world.repos.get(match[1].lower())
    if repo is None or (token.repos is not None and repo not in token.repos):
        return _error(404, "Not Found")
    if token.installation and token.installation.suspended:
        return _error(403, "This installation has been suspended")
    request.state.repo = repo
    return _permitted(token, request.method, match[2] or "")


def _permitted(token: Token, method: str, below: str) -> Response | None:
    needed = next(name for pattern, name in _NEEDS if re.search(pattern, below))
    granted = token.permissions.get(needed, "")
    if granted == "write" or (granted == "read" and method == "GET"):
        return None
    return _error(403, "Resource not accessible by integration")


def _needs_jwt() -> Response:
    return _error(401, "A JSON web token could not be decoded")


def _as_app(world: World, secret: str) -> Response | None:
    try:
        claims = jwt.decode(secret, world.public_key, algorithms=["RS256"])
    except jwt.ExpiredSignatureError:
        return _error(401, "'Expiration time' claim ('exp') must be a numeric value in the future")
    except jwt.ImmatureSignatureError:
        return _error(401, "'Issued at' claim ('iat') must not be in the future")
    except jwt.PyJWTError:
        return _needs_jwt()
    if str(claims.get("iss")) != str(APP_ID):
        return _error(404, "Integration not found")
    if claims["exp"] - time.time() > 600:
        return _error(401, "'Expiration time' claim ('exp') is too far in the future")
    return None


def _error(status: int, message: str, errors: list | None = None) -> JSONResponse:
    said = {"message": message, "documentation_url": _DOCS, "status": str(status)}
    return JSONResponse(said | ({"errors": errors} if errors else {}), status)


def _limited(status: int, headers: dict[str, str]) -> JSONResponse:
    answer = _error(status, "You have exceeded a secondary rate limit. Please wait a few minutes.")
    answer.headers.update(headers)
    return answer


def _budget(given: dict[str, str]) -> dict[str, str]:
    said = {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": "4990",
        "x-ratelimit-reset": str(int(time.time()) + 3600),
        "x-ratelimit-resource": "core",
    }
    return {name: value for name, value in said.items() if name not in given}


async def _spoil(fault: Fault, answer: Response | None) -> Response:
    if fault.kind.isdigit():
        return _error(int(fault.kind), f"stand-in: {fault.kind}")
    if fault.kind == "timeout":
        await asyncio.sleep(HANG)
        return answer or _error(504, "too late")
    spoilt = {
        "garbage": lambda: Response(b'{"id": 1, "num', 200, {"content-type": "application/json"}),
        "drop": lambda: StreamingResponse(_broken(), 200, {"content-length": "100"}),
        "secondary": lambda: _limited(403, {"retry-after": str(fault.retry_after)}),
        "primary": lambda: _spent(fault.retry_after),
        "abuse": lambda: _error(422, "Validation Failed: was submitted too quickly", _ABUSE),
    }
    return spoilt[fault.kind]()


_ABUSE = [{"resource": "PullRequestReview", "code": "abuse", "field": "base"}]


def _spent(seconds: int) -> JSONResponse:
    answer = _error(403, "API rate limit exceeded for installation ID 1.")
    reset = str(int(time.time()) + seconds)
    answer.headers.update({"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset})
    return answer


async def _broken():
    yield json.dumps({"id": 1}).encode()
