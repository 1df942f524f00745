"""Requests to GitHub with the patience each kind deserves.

Reads are repeated after an outage. Edits too: doing one twice changes nothing. What creates
something is never repeated before a look whether the lost attempt succeeded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.github_errors import (
    DeniedError,
    GitHubError,
    GoneError,
    LimitedError,
    TryAgainError,
    UnsureError,
)
from bot.github_turns import Governor

JSON = "application/vnd.github+json"
DIFF = "application/vnd.github.diff"
PER_PAGE = 100
_LONGEST_MESSAGE = 500
_READ_TRIES = _WRITE_TRIES = 3
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


class Shape(BaseModel):
    """The part of an answer that we read; anything else is let through."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Error(Shape):
    type: str = ""
    message: str = ""


class _Errors(Shape):
    errors: tuple[_Error, ...] | None = None


Shaped = TypeVar("Shaped", bound=Shape)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer:
    """What GitHub said."""

    content: bytes
    headers: Mapping[str, str]  # names in lower case

    def read(self, shape: type[Shaped]) -> Shaped:
        """The answer in this shape."""
        return self._checked(shape, lambda: shape.model_validate_json(self.content))

    def read_all(self, shape: type[Shaped], inside: str = "") -> Sequence[Shaped]:
        """The answer as a list of this shape, which may lie under a name."""

        def parse() -> Sequence[Shaped]:
            data = json.loads(self.content)
            return [shape.model_validate(item) for item in (data[inside] if inside else data)]

        return self._checked(shape, parse)

    def _checked(self, shape: type[Shape], parse: Callable[[], Result]) -> Result:
        try:
            return parse()
        except (ValidationError, ValueError, KeyError, TypeError) as problem:
            name = shape.__name__.lower()
            raise UnsureError(f"GitHub's answer is not the {name} that was asked for") from problem


class Sender(Protocol):
    """Sends one request once; raises GitHubError and its kinds."""

    def __call__(
        self, method: str, path: str, *, body: Any = None, accept: str = JSON, **query: str
    ) -> Answer:
        """The answer to this one request."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


@dataclass(frozen=True)
class Calls:
    """The requests of one installation or token."""

    send: Sender
    governor: Governor
    key: str  # whose writes go one after the other

    def get(self, path: str, accept: str = JSON, **query: str) -> Answer:
        """The answer to a read."""
        return self._patient(lambda: self.send("GET", path, accept=accept, **query), _READ_TRIES)

    def pages(
        self, path: str, shape: type[Shaped], inside: str = "", **query: str
    ) -> Iterator[Shaped]:
        """Every item of a list, page by page."""
        answer = self.get(path, per_page=str(PER_PAGE), **query)
        while True:
            yield from answer.read_all(shape, inside)
            more = _NEXT.search(answer.headers.get("link", ""))
            if not more:
                return
            answer = self.get(more[1])

    def graphql(self, query: str, variables: dict[str, Any], shape: type[Shaped]) -> Shaped:
        """The answer to a GraphQL query; queries only, they may be sent twice."""
        body = {"query": query, "variables": variables}
        return self._patient(lambda: self._ask(body), _READ_TRIES).read(shape)

    def _ask(self, body: dict[str, Any]) -> Answer:
        answer = self.send("POST", "graphql", body=body)
        errors = list(answer.read(_Errors).errors or ())
        # Refusals come with status 200. What we may not see is simply absent from the data.
        if any(error.type == "RATE_LIMITED" or _is_limit(error.message, {}) for error in errors):
            raise LimitedError("GitHub limits our questions", 200)
        if any(not error.type for error in errors):
            raise UnsureError(f"GitHub could not answer: {errors[0].message}", 200)
        return answer

    def close(self) -> None:
        """Let go of the connection."""
        self.send.close()

    def edit(self, method: str, path: str, body: Any) -> Answer:
        """The answer to a write that may be repeated without harm."""
        return self._patient(lambda: self._write(method, path, body), _WRITE_TRIES, waited=True)

    def create(self, path: str, body: Any, find: Callable[[], Result | None]) -> Answer | Result:
        """The answer to a write that must happen once; `find` looks for its result."""
        return self._once("POST", path, body, find)

    def edit_once(self, path: str, body: Any, find: Callable[[], Result | None]) -> Answer | Result:
        """The same for an edit that adds to what is there."""
        return self._once("PATCH", path, body, find)

    def _once(
        self, method: str, path: str, body: Any, find: Callable[[], Result | None]
    ) -> Answer | Result:
        try:
            return self._write(method, path, body)
        except UnsureError:
            found = self._look(find)
            return found if found is not None else self._write_again(method, path, body, find)

    def _write_again(
        self, method: str, path: str, body: Any, find: Callable[[], Result | None]
    ) -> Answer | Result:
        try:
            return self._write(method, path, body)
        except UnsureError:
            found = self._look(find)
            if found is None:
                raise  # the next attempt of the job looks again before it writes
            return found

    def _look(self, find: Callable[[], Result | None]) -> Result | None:
        # GitHub may need a moment until its lists show what it has just accepted.
        self.governor.clock.sleep(self.governor.gap)
        return find()

    def _write(self, method: str, path: str, body: Any) -> Answer:
        return self.governor.write(self.key, lambda: self.send(method, path, body=body))

    def _patient(self, call: Callable[[], Answer], tries: int, waited: bool = False) -> Answer:
        """The first answer of several tries; `waited`: the governor has done its part already."""
        clock, patience = self.governor.clock, self.governor.patience
        for attempt in range(1, tries + 1):
            try:
                return call()
            except LimitedError as problem:
                wait = problem.after or 60.0
                if waited or attempt == tries or wait > patience:
                    raise LimitedError(str(problem), problem.status, wait) from problem
            except TryAgainError:
                wait = self.governor.gap * 2 ** (attempt - 1)
                if attempt == tries:
                    raise
            clock.sleep(wait)
        raise AssertionError("the loop returns or raises")


def said(content: bytes) -> str:
    """GitHub's own words in an error's answer, its list of errors included."""
    try:
        data = json.loads(content)
        errors = data.get("errors", [])
        details = [e if isinstance(e, str) else str(e.get("message") or e) for e in errors]
        return "; ".join([str(data.get("message", "")), *details])[:_LONGEST_MESSAGE]
    except (ValueError, AttributeError, TypeError):
        return "no message"


def failure(status: int, message: str, headers: Mapping[str, str], now: float) -> GitHubError:
    """The error that an answer with this status stands for, rate limits told from refusals."""
    after = _pause(headers, now)
    if status == 429 or (status in (403, 422) and _is_limit(message, headers)):
        return LimitedError(f"GitHub limits our requests: {message}", status, after)
    if status >= 500:
        return UnsureError(f"GitHub had a problem ({status}): {message}", status)
    if status in (404, 410, 451) or (status == 403 and "suspended" in message.lower()):
        return GoneError(f"GitHub does not show it to us ({status}): {message}", status)
    if status in (401, 403):
        return DeniedError(
            f"GitHub refused ({status}): {message}; the App or token needs the permission for it",
            status,
        )
    return GitHubError(f"GitHub refused the request ({status}): {message}", status)


def _is_limit(message: str, headers: Mapping[str, str]) -> bool:
    said = message.lower()
    return (
        "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or any(words in said for words in ("rate limit", "abuse", "submitted too quickly"))
    )


def _pause(headers: Mapping[str, str], now: float) -> float:
    """What GitHub asks for: `retry-after`, else the reset of a used-up budget, else 0."""
    try:
        if "retry-after" in headers:
            return max(float(headers["retry-after"]), 1.0)
        if headers.get("x-ratelimit-remaining") == "0":
            return max(float(headers["x-ratelimit-reset"]) - now, 1.0)
    except (KeyError, ValueError):
        pass
    return 0.0
