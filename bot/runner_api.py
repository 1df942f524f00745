"""The service's side of the talk with runners: they ask for work, fetch its source, and report.

A runner signs in with a secret of its own, holds a lease for one benchmark at a time, and is
believed nothing: bodies are capped while they arrive, shapes are checked, results are held against
what was asked. Every refusal is one sentence.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from bot.bench_files import check_name, keep
from bot.bench_result import LARGEST_FILE, LARGEST_RESULT, ResultError, accepted, request_of
from bot.bench_source import LaterError, SourceError, Sources
from bot.bench_work import BenchState, RunnerState, Stage
from bot.benches import LEASE_SECONDS, Benches
from bot.logs import say
from bot.runner_wire import LARGEST_WORD, LEASE, PROTOCOL, Beat, Claim, Trouble, WireError
from gpu_runner.plain import one_line

log = logging.getLogger(__name__)
CHUNK = 1 << 18
_NUMBER = re.compile(r"[0-9]{1,18}")
_OTHERS = "another machine has this benchmark now, or nobody; ask for new work"
_UNTAKEN = "the result of {} was not taken: {}"


@dataclass(frozen=True)
class Desk:
    """What is needed to serve runners."""

    benches: Benches
    sources: Sources
    tokens: tuple[bytes, ...]  # empty: there is no such service
    lease_seconds: float = LEASE_SECONDS


class _RefusalError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


Work = Callable[[Request, Desk], Awaitable[Response]]


def router(desk: Desk) -> APIRouter:
    """The routes, all of them behind the runner's secret."""
    routes = APIRouter()

    def add(path: str, method: str, work: Work) -> None:
        async def endpoint(request: Request) -> Response:
            try:
                _sign_in(request, desk)
                return await work(request, desk)
            except WireError as problem:
                return _said(422, f"the message was not understood ({problem})")
            except _RefusalError as refusal:
                return _said(refusal.status, refusal.reason)

        routes.add_route(path, endpoint, methods=[method])

    one = "/runner/benches/{bench}"
    add("/runner/claim", "POST", _claim)
    add(f"{one}/source", "GET", _source)
    add(f"{one}/beat", "POST", _beat)
    add(f"{one}/files/{{name}}", "PUT", _file)
    add(f"{one}/result", "POST", _result)
    add(f"{one}/problem", "POST", _problem)
    return routes


def _said(status: int, reason: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": reason}, status, headers)


def _sign_in(request: Request, desk: Desk) -> None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip().encode("utf-8", "replace")
    matches = [hmac.compare_digest(known, given) for known in desk.tokens]
    if kind.lower() != "bearer" or not any(matches):
        raise _RefusalError(
            401,
            "the token is missing or unknown; HOSTSIDE_RUNNER_TOKEN must be what the service has",
        )


async def _body(request: Request, most: int = LARGEST_WORD) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise _RefusalError(413, f"at most {most >> 10} KiB are taken here")
    return bytes(body)


def _named(request: Request) -> tuple[int, str]:
    """The benchmark and the lease that the request is about."""
    bench, lease = request.path_params["bench"], request.headers.get(LEASE, "")
    if not _NUMBER.fullmatch(bench) or not lease.isalnum() or len(lease) > 64:
        raise _RefusalError(409, _OTHERS)
    return int(bench), lease


async def _claim(request: Request, desk: Desk) -> Response:
    told = Claim.read(await _body(request))
    if told.protocol != PROTOCOL:
        older = (
            "this runner is older than the service"
            if told.protocol < PROTOCOL
            else ("the service is older than this runner")
        )
        raise _RefusalError(426, f"{older}; install the same version of Hostside on both")
    return await run_in_threadpool(_lend, desk, told)


def _lend(desk: Desk, told: Claim) -> Response:
    desk.benches.seen(RunnerState(told.name, told.labels, one_line(told.device), time.time()))
    leased = None
    if told.wants:
        leased = desk.benches.claim(told.name, told.labels, desk.lease_seconds)
    if leased is None:
        return Response(status_code=204)
    say(log, "a runner took a benchmark", runner=told.name, bench=leased.bench.id)
    return JSONResponse(
        {
            "bench": leased.bench.id,
            "lease": leased.lease,
            "seconds": leased.seconds,
            "request": json.loads(request_of(leased.bench).to_json()),
        }
    )


async def _source(request: Request, desk: Desk) -> Response:
    return await run_in_threadpool(_packed, desk, *_named(request))


def _packed(desk: Desk, bench: int, lease: str) -> Response:
    held = _held(desk, bench, lease)
    with ExitStack() as stack:
        try:
            path = stack.enter_context(desk.sources.pack(held.order))
        except SourceError as problem:
            desk.benches.give_up(bench, lease, str(problem))
            raise _RefusalError(410, str(problem)) from problem
        except LaterError as problem:
            raise _RefusalError(503, str(problem)) from problem
        headers = {"Content-Length": str(path.stat().st_size)}
        chunks = _chunks(path, stack.pop_all())
    kind = "application/x-git-packed-objects"
    return StreamingResponse(chunks, headers=headers, media_type=kind)


def _chunks(path: Path, stack: ExitStack) -> Generator[bytes]:
    """The file in pieces; it goes when they are through, or nobody wants them any more."""
    with stack, path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _held(desk: Desk, bench: int, lease: str) -> BenchState:
    held = desk.benches.held(bench, lease)
    if held is None:
        raise _RefusalError(409, _OTHERS)
    return held


async def _beat(request: Request, desk: Desk) -> Response:
    bench, lease = _named(request)
    told = Beat.read(await _body(request))
    return await run_in_threadpool(_beaten, desk, bench, lease, told)


def _beaten(desk: Desk, bench: int, lease: str, told: Beat) -> Response:
    if desk.benches.beat(bench, lease, told.progress, desk.lease_seconds):
        return JSONResponse({"go_on": True, "why": ""})
    return JSONResponse({"go_on": False, "why": _lost(desk, bench)})


def _lost(desk: Desk, bench: int) -> str:
    try:
        now = desk.benches.get(bench)
    except KeyError:
        return _OTHERS
    return now.problem if now.stage in (Stage.CANCELLED, Stage.FAILED) else _OTHERS


async def _file(request: Request, desk: Desk) -> Response:
    bench, lease = _named(request)
    name = request.path_params["name"]
    try:
        check_name(name)
        await run_in_threadpool(_held, desk, bench, lease)  # before we take in so much
        content = await _body(request, LARGEST_FILE)
        kept = await run_in_threadpool(keep, desk.benches.store, bench, lease, name, content)
    except ResultError as problem:
        raise _RefusalError(422, str(problem)) from problem
    if not kept:
        raise _RefusalError(409, _OTHERS)
    return JSONResponse({"go_on": True})


async def _result(request: Request, desk: Desk) -> Response:
    bench, lease = _named(request)
    if await run_in_threadpool(desk.benches.delivered, bench, lease):
        return JSONResponse({"go_on": True})  # it did not hear that we had taken it
    held = await run_in_threadpool(_held, desk, bench, lease)
    try:
        body = await _body(request, LARGEST_RESULT)
    except _RefusalError as problem:
        await run_in_threadpool(_untaken, desk, held, lease, _TOO_LARGE)
        raise _RefusalError(413, _TOO_LARGE) from problem
    return await run_in_threadpool(_taken, desk, held, lease, body)


_TOO_LARGE = (
    f"it is larger than {LARGEST_RESULT >> 20} MiB; name fewer benchmarks: "
    "`/gpu-bench FILE::FUNCTION`"
)


def _taken(desk: Desk, held: BenchState, lease: str, body: bytes) -> Response:
    try:
        report = accepted(held, body)
    except ResultError as problem:
        _untaken(desk, held, lease, str(problem))
        raise _RefusalError(422, str(problem)) from problem
    if not desk.benches.deliver(held.id, lease, report):
        raise _RefusalError(409, _OTHERS)
    say(log, "a result was taken", runner=held.runner, bench=held.id)
    return JSONResponse({"go_on": True})


def _untaken(desk: Desk, held: BenchState, lease: str, why: str) -> None:
    say(log, "a result was not taken", logging.WARNING, runner=held.runner, bench=held.id)
    desk.benches.give_up(held.id, lease, _UNTAKEN.format(held.runner, why))


async def _problem(request: Request, desk: Desk) -> Response:
    bench, lease = _named(request)
    told = Trouble.read(await _body(request))
    problem = one_line(told.problem) or "the machine gave it up without a word"
    if not await run_in_threadpool(desk.benches.give_up, bench, lease, problem):
        raise _RefusalError(409, _OTHERS)
    return JSONResponse({"go_on": True})
