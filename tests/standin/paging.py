"""Lists page by page, with the links that lead on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import JSONResponse


def paged(request: Request, items: Sequence[Any], inside: str = "") -> JSONResponse:
    """One page of the items; `inside` wraps it as check runs are."""
    query = dict(request.query_params)
    size = min(max(int(query.get("per_page", 30)), 1), 100)
    page = max(int(query.get("page", 1)), 1)
    part = list(items[(page - 1) * size : page * size])
    body: Any = {"total_count": len(items), inside: part} if inside else part
    answer = JSONResponse(body)
    last = max(-(-len(items) // size), 1)
    links = []
    if page < last:
        links = [_link(request, query, page + 1, "next"), _link(request, query, last, "last")]
    if page > 1:
        links += [_link(request, query, page - 1, "prev"), _link(request, query, 1, "first")]
    if links:
        answer.headers["Link"] = ", ".join(links)
    return answer


def _link(request: Request, query: dict[str, str], page: int, rel: str) -> str:
    address = request.url.replace(query=urlencode(query | {"page": str(page)}))
    return f'<{address}>; rel="{rel}"'
