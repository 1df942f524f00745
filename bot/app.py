"""The web side: takes webhooks, answers 202 once they are stored, and says how it is doing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from bot import handlers, payloads, upkeep
from bot.bench_pages import add_pages
from bot.bench_records import BenchRecords
from bot.errors import BotError
from bot.intake import FullError, Intake
from bot.logs import about, say
from bot.metrics import CONTENT_TYPE, Metrics
from bot.runner_api import Desk, router
from bot.store import Store
from bot.work import NOTHING, Delivery, Work

LARGEST = 25 * 1024 * 1024  # GitHub sends nothing larger
_TOGETHER = 8 * LARGEST  # bytes of all bodies that are being received
_BODY_SECONDS = 30  # GitHub waits no longer either
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}\Z")
_NAME = re.compile(r"[a-z][a-z_]{0,60}\Z")
_DELIVERY = re.compile(r"[A-Za-z0-9-]{1,80}\Z")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class House:
    """What the web side needs to do its work."""

    store: Store
    intake: Intake
    secrets: tuple[bytes, ...]
    allowed_bots: tuple[int, ...] = ()
    workers_alive: Callable[[], bool] = lambda: True  # those started along with this process
    desk: Desk | None = None  # for machines that measure
    public_url: str = ""  # where browsers find it


class _RefusalError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def make_app(house: House) -> FastAPI:
    """The ASGI application."""
    app = FastAPI(title="Hostside", docs_url=None, redoc_url=None, openapi_url=None)
    metrics = Metrics(house.store)
    bodies = _Bodies()
    app.state.house, app.state.metrics = house, metrics

    async def webhook(request: Request) -> Response:
        start = time.perf_counter()
        event = _known(request.headers.get("x-github-event", ""))
        try:
            jobs = await _receive(request, house, bodies)
            answer, status, body = "accepted", 202, {"jobs": jobs}
        except _RefusalError as refusal:
            answer, status, body = str(refusal.status), refusal.status, {"error": refusal.reason}
        metrics.deliveries.labels(event, answer).inc()
        metrics.intake.observe(time.perf_counter() - start)
        return JSONResponse(body, status)

    def readyz() -> Response:
        problem = _unready(house)
        return PlainTextResponse(problem or "ready", 503 if problem else 200)

    def healthz() -> Response:
        return PlainTextResponse("alive")

    def figures() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    # Without FastAPI's reading of arguments, of which there are none.
    app.add_route("/webhooks/github", webhook, methods=["POST"])
    app.add_api_route("/healthz", healthz)
    app.add_api_route("/readyz", readyz)
    app.add_api_route("/metrics", figures)
    if house.desk is not None:
        app.include_router(router(house.desk))
    add_pages(app, BenchRecords(house.store), house.secrets, house.public_url)
    return app


def signed(body: bytes, signature: str, secrets: tuple[bytes, ...]) -> bool:
    """Whether one of the secrets signed these very bytes."""
    given = signature.encode("utf-8", "replace")
    matches = [hmac.compare_digest(_signature(secret, body), given) for secret in secrets]
    return any(matches)  # after all of them, so that the time taken does not tell which


def _signature(secret: bytes, body: bytes) -> bytes:
    return b"sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


async def _receive(request: Request, house: House, bodies: _Bodies) -> int:
    """How many jobs follow; returns only when they are stored."""
    signature = request.headers.get("x-hub-signature-256", "")
    # Looked at first, so that who has no signature at all cannot fill the memory.
    if not _SIGNATURE.match(signature):
        raise _RefusalError(401, "the signature is missing or does not fit")
    body = await bodies.read(request)
    if not signed(body, signature, house.secrets):
        raise _RefusalError(401, "the signature is missing or does not fit")
    delivery = request.headers.get("x-github-delivery", "")
    name = request.headers.get("x-github-event", "")
    if not _DELIVERY.match(delivery) or not _NAME.match(name):
        raise _RefusalError(400, "X-GitHub-Delivery or X-GitHub-Event is missing or malformed")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise _RefusalError(415, "set the webhook's content type to application/json")
    with about(delivery=delivery, event=name):
        return await _store(house, delivery, name, body)


async def _store(house: House, delivery: str, name: str, body: bytes) -> int:
    try:
        payload = payloads.parse(name, body)
    except BotError as problem:
        say(log, "a payload was not understood", logging.WARNING, problem=str(problem))
        raise _RefusalError(422, str(problem)) from None
    event = handlers.Event(delivery, name, payload, house.allowed_bots)
    work = handlers.work(event)
    if work != NOTHING:
        await _keep(house, Delivery(delivery, name, payload.action, work))
    say(log, "delivery accepted", action=payload.action, jobs=_keys(work))
    return len(work.jobs)


async def _keep(house: House, delivery: Delivery) -> None:
    try:
        await house.intake.accept(delivery)
    except FullError:
        raise _RefusalError(
            503, "too many deliveries wait to be stored; deliver it again"
        ) from None
    except Exception:
        # GitHub notes the failure, and the sweep asks for it again.
        raise _RefusalError(503, "the delivery could not be stored; deliver it again") from None


def _keys(work: Work) -> list[str]:
    return [job.key for job in work.jobs]


class _Bodies:
    """Reads bodies, which together take so much memory and each so much time."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, request: Request) -> bytes:
        too_large = _RefusalError(413, f"a payload may have {LARGEST:,} bytes")
        announced = request.headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > LARGEST:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    self._held += len(chunk)
                    if len(body) > LARGEST:  # it need not be announced, or truly
                        raise too_large
                    if self._held > _TOGETHER:
                        raise _RefusalError(503, "too much is being sent; deliver it again")
        except TimeoutError:
            raise _RefusalError(408, f"a payload has {_BODY_SECONDS} seconds to arrive") from None
        finally:
            self._held -= len(body)
        return bytes(body)


def _known(event: str) -> str:
    """The event's name as a label; strangers' words must not fill the metrics."""
    return event if event in handlers.EVENTS else "other"


def _unready(house: House) -> str:
    try:
        upkeep.alive(house.store)
    except Exception as problem:
        return f"the database does not answer ({type(problem).__name__})"
    if not house.intake.alive:
        return "the intake has stopped"
    return "" if house.workers_alive() else "no worker is running"
