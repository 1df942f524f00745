"""Requests and answers held against GitHub's published API description."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

FILE = Path(__file__).parents[3] / "shared" / "contract" / "github-openapi.json"


@dataclass(frozen=True)
class _Request:
    host_url: str
    path: str
    method: str
    parameters: RequestParameters
    body: bytes | None
    content_type: str


@dataclass(frozen=True)
class _Response:
    data: bytes
    status_code: int
    content_type: str
    headers: Headers


@cache
def _description() -> OpenAPI:
    description = json.loads(FILE.read_text())
    description["servers"] = [{"url": "https://api.github.com"}]
    _allow_null(description)
    return OpenAPI.from_dict(description)


# Where GitHub sends null although its description leaves that out: a comment that is outdated
# stands on no line, and a deleted fork is no repository. By a field beside it.
_NULL_IN_TRUTH = {"line": "diff_hunk", "position": "diff_hunk", "repo": "label"}


def _allow_null(part: Any) -> None:
    """Where a field may be null, its list of values leaves null out; JSON Schema wants it there."""
    if isinstance(part, dict):
        values = part.get("enum")
        if isinstance(values, list) and part.get("nullable") and None not in values:
            values.append(None)
        for name, beside in _NULL_IN_TRUTH.items():
            if beside in part and isinstance(part.get(name), dict):
                nothing = {"type": "object", "nullable": True, "enum": [None]}
                part[name] = {"anyOf": [part[name], nothing]}
    for inner in part.values() if isinstance(part, dict) else part:
        if isinstance(inner, dict | list):
            _allow_null(inner)


@dataclass
class Contract:
    """Collects what does not fit the description; empty when all does."""

    complaints: list[str] = field(default_factory=list)

    @staticmethod
    def available() -> bool:
        return FILE.is_file()

    def check(
        self, method: str, target: str, headers: dict[str, str], body: bytes, answer: Any
    ) -> None:
        """Hold one exchange against the description."""
        request = _request(method, target, headers, body)
        wrong_request = [_words(e) for e in _description().iter_request_errors(request)]
        refused = answer is not None and answer[0] == 422
        if wrong_request and not refused:
            self.complaints.append(f"request {method} {target}: {wrong_request[:3]}")
        if answer is None or wrong_request:
            return
        status, kind, content = answer
        if "json" not in kind:
            return
        response = _Response(content, status, kind.partition(";")[0], Headers())
        wrong = [_words(e) for e in _description().iter_response_errors(request, response)]
        if wrong:
            self.complaints.append(f"answer {status} to {method} {target}: {wrong[:3]}")


def _request(method: str, target: str, headers: dict[str, str], body: bytes) -> _Request:
    path, _, query = target.partition("?")
    if "/contents/" in path:  # one parameter for the description, several segments for the world
        start, _, name = path.partition("/contents/")
        path = f"{start}/contents/{quote(unquote(name), safe='')}"
    parameters = RequestParameters(
        query=ImmutableMultiDict(parse_qsl(query, keep_blank_values=True)),
        header=Headers(list(headers.items())),
        cookie=ImmutableMultiDict(),
    )
    kind = headers.get("content-type", "").partition(";")[0]
    return _Request("https://api.github.com", path, method.lower(), parameters, body or None, kind)


def _words(error: Exception) -> str:
    """What is wrong, without the whole body that it is wrong in."""
    details = [type(error).__name__]
    cause: BaseException | None = error
    while cause is not None:
        inner = getattr(cause, "schema_errors", ())
        details += [f"{'/'.join(map(str, e.path))}: {e.message[-200:]}" for e in inner]
        details += [] if inner else [str(cause)[:160]]
        cause = cause.__cause__
    return " | ".join(details)
