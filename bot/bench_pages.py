"""What a browser may see of benchmarks: a run's page, its files, its timeline, and badges.

A run is named by 32 hex digits that nobody can guess, so whoever has the link from the pull
request's comment may read it. A badge's address holds a keyed hash of its repository's name.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import HTMLResponse

from bot.bench_records import BenchRecords
from bot.bench_result import FILE_NAME
from bot.bench_work import BenchState, Stage
from bot.reports.badge import verdict_badge
from bot.reports.bench_page import Download, page, timeline, trace_download
from gpu_runner.errors import FormatError
from gpu_runner.models import BenchReport

_TOKEN = re.compile(r"[0-9a-f]{32}\Z")
_TRACE = re.compile(rf"{FILE_NAME}\Z")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
TRACE_HEADERS = HEADERS | {"Access-Control-Allow-Origin": "https://ui.perfetto.dev"}
BADGE_HEADERS = HEADERS | {"Cache-Control": "no-cache, max-age=0"}


def add_pages(
    app: FastAPI, records: BenchRecords, secrets: Sequence[bytes], public_url: str = ""
) -> None:
    """Add the routes; `public_url` is where browsers find this service, if that is known.

    A badge answers under each of the secrets, so that it outlives their rotation.
    """

    def run(token: str) -> Response:
        bench = _found(records, token)
        downloads = _downloads(records, bench, public_url)
        badge = f"{public_url}{badge_path(secrets[0], bench.order.repo)}"
        html = page(bench, read_report(records, bench), downloads, badge)
        again = {} if not bench.active else {"Refresh": "15"}
        return HTMLResponse(html, headers=HEADERS | again)

    def result(token: str) -> Response:
        bench = _found(records, token)
        if not bench.has_report:
            raise HTTPException(404, "this run has no report")
        named = HEADERS | {"Content-Disposition": 'attachment; filename="report.json"'}
        return Response(records.report(bench.id), media_type="application/json", headers=named)

    def drawn(token: str) -> Response:
        report = read_report(records, _found(records, token))
        drawings = [timeline(each) for each in report.run.benchmarks] if report else []
        svg = next(filter(None, drawings), "")
        if not svg:
            raise HTTPException(404, "this run has no timeline")
        return Response(svg, media_type="image/svg+xml", headers=HEADERS)

    def trace(token: str, name: str) -> Response:
        content = records.file(_found(records, token).id, name) if _TRACE.match(name) else None
        if content is None:
            raise HTTPException(404, "this run has no such file")
        return Response(content, media_type="application/gzip", headers=TRACE_HEADERS)

    def badge(key: str, owner: str, name: str) -> Response:
        repo = f"{owner}/{name}"
        known = [
            hmac.compare_digest(key.encode(), badge_key(secret, repo).encode())
            for secret in secrets
        ]
        if not any(known):
            raise HTTPException(404, "there is no such badge")
        done = (each for each in records.history(repo) if each.stage is Stage.DONE)
        latest = next(done, None)
        svg = verdict_badge(read_report(records, latest) if latest else None)
        return Response(svg, media_type="image/svg+xml", headers=BADGE_HEADERS)

    app.add_api_route("/r/{token}.json", result)
    app.add_api_route("/r/{token}.svg", drawn)
    app.add_api_route("/r/{token}/{name}", trace)
    app.add_api_route("/r/{token}", run)
    app.add_api_route("/badge/{key}/{owner}/{name}.svg", badge)


def run_path(bench: BenchState) -> str:
    """Where the run's page is, from the service's root."""
    return f"/r/{bench.token}"


def badge_path(secret: bytes, repo: str) -> str:
    """Where the repository's badge is, from the service's root."""
    return f"/badge/{badge_key(secret, repo)}/{repo}.svg"


def badge_key(secret: bytes, repo: str) -> str:
    """What keeps strangers from asking for the badges of private repositories."""
    return hmac.new(secret, f"badge:{repo}".encode(), hashlib.sha256).hexdigest()[:32]


def read_report(records: BenchRecords, bench: BenchState) -> BenchReport | None:
    """The run's report; None when there is none or when it is of another version."""
    if not bench.has_report:
        return None
    try:
        return BenchReport.from_json(records.report(bench.id))
    except FormatError:
        return None


def _found(records: BenchRecords, token: str) -> BenchState:
    bench = records.by_token(token) if _TOKEN.match(token) else None
    if bench is None:
        raise HTTPException(404, "there is no such run")
    return bench


def _downloads(records: BenchRecords, bench: BenchState, public_url: str) -> list[Download]:
    here = bench.token  # as seen from its page, whatever path a proxy puts before it
    files = [
        trace_download(name, f"{here}/{name}", f"{public_url}/r/")
        for name in records.files(bench.id)
        if _TRACE.match(name)
    ]
    report = [Download("report.json", f"{here}.json")] if bench.has_report else []
    return [*report, *files]
