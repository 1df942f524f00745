"""A runner's connection to the service: every request, and how patiently each is repeated."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from bot.errors import BotError
from bot.logs import say
from bot.runner_wire import LEASE, Answer, Beat, Claim, Lent, Said, WireError

log = logging.getLogger(__name__)
T = TypeVar("T")
Message = TypeVar("Message", bound=Said)
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_SOURCE_TIMEOUT = httpx.Timeout(900.0, connect=10.0)  # until the service has fetched it itself
_UPLOAD_TIMEOUT = httpx.Timeout(300.0, connect=10.0)
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class AwayError(BotError):
    """The service does not answer, or cannot just now: worth repeating."""


class RefusedError(BotError):
    """The service answered no."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class StoppedError(BotError):
    """The runner is to end, or the benchmark is no longer its own."""


class Link:
    """The service, signed in to."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "hostside-gpu-runner"}
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=_TIMEOUT, transport=transport
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def claim(self, claim: Claim) -> Lent | None:
        """A benchmark to measure, if one waits."""
        answer = self._ask("POST", "/runner/claim", json=claim.model_dump(mode="json"))
        return None if answer.status_code == 204 else _understood(Lent, answer)

    def beat(self, lent: Lent, beat: Beat) -> Answer:
        """Whether the benchmark is still ours."""
        body = beat.model_dump(mode="json")
        return _understood(Answer, self._of(lent, "POST", "beat", json=body))

    @contextmanager
    def source(self, lent: Lent) -> Generator[Iterator[bytes]]:
        """The pack that holds its commits, in pieces as they come."""
        path = f"/runner/benches/{lent.bench}/source"
        headers = {LEASE: lent.lease, "Accept-Encoding": "identity"}
        with (
            _translated(),
            self._http.stream("GET", path, headers=headers, timeout=_SOURCE_TIMEOUT) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
                _check(answer)
            yield answer.iter_bytes()

    def file(self, lent: Lent, path: Path) -> None:
        """Send a raw trace."""
        content = path.read_bytes()
        self._of(lent, "PUT", f"files/{path.name}", content=content, timeout=_UPLOAD_TIMEOUT)

    def result(self, lent: Lent, report: bytes) -> None:
        """Send the report; to send it again does no harm."""
        self._of(lent, "POST", "result", content=report, timeout=_UPLOAD_TIMEOUT)

    def problem(self, lent: Lent, sentence: str) -> None:
        """Give the benchmark up."""
        self._of(lent, "POST", "problem", json={"problem": sentence})

    def _of(self, lent: Lent, method: str, what: str, **more: Any) -> httpx.Response:
        path = f"/runner/benches/{lent.bench}/{what}"
        return self._ask(method, path, headers={LEASE: lent.lease}, **more)

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        with _translated():
            answer = self._http.request(method, path, **more)
        _check(answer)
        return answer


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except httpx.HTTPError as problem:
        kind = type(problem).__name__
        raise AwayError(f"the service cannot be reached ({kind})") from problem


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    try:
        reason = Answer.read(answer.content).error
    except WireError:
        reason = ""
    reason = reason or f"the service answers {answer.status_code}"
    if answer.status_code >= 500 or answer.status_code in (408, 429):
        raise AwayError(reason)
    if answer.status_code == 404:  # it never says so itself
        reason = "there is no service for runners there; is HOSTSIDE_RUNNER_TOKEN set on it?"
        if LEASE in answer.request.headers:  # but there was: a proxy speaks while it restarts
            raise AwayError(reason)
    raise RefusedError(answer.status_code, reason)


def _understood(kind: type[Message], answer: httpx.Response) -> Message:
    try:
        return kind.read(answer.content)
    except WireError as problem:
        raise AwayError(f"the service's answer makes no sense ({problem})") from problem


def patiently(action: Callable[[], T], over: threading.Event, patience: float) -> T:
    """What `action` gives, repeated for so many seconds while the service is away."""
    until, pause = time.monotonic() + patience, _FIRST_PAUSE
    while True:
        try:
            return action()
        except AwayError as problem:
            if time.monotonic() + pause > until:
                raise
            say(log, "the service is away; it is asked again", logging.WARNING, why=str(problem))
        if over.wait(pause):
            raise StoppedError("stopped while the service was away")
        pause = min(2 * pause, _LONGEST_PAUSE)
