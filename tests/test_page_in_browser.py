"""The HTML report in a real browser: it fits, and a stranger's text in it runs nothing."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from test_bench_report import made

from bot.bench_work import BenchState, Order, Progress, Stage
from bot.reports import render
from bot.reports.bench_page import page
from tests.sample_review import EMPTY, REVIEW, finding, reported

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-quic",
)  # fmt: skip
WIDTH = 390  # pixels: a telephone
# Reports into the title whether the page is wider than its window.
PROBE = "<script>document.title = 'wide: ' + (document.documentElement.scrollWidth > innerWidth)"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium"),
]


def opened(page: str, directory: Path) -> str:
    """The page's document after the browser has run it."""
    file = directory / "page.html"
    file.write_text(page)
    profile = f"--user-data-dir={directory / 'profile'}"
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, profile, f"--window-size={WIDTH},800", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout


def test_the_page_is_no_wider_than_a_telephone(tmp_path: Path) -> None:
    page = render(REVIEW, "html").replace("</body>", f"{PROBE}</script></body>")
    assert "<title>wide: false</title>" in opened(page, tmp_path)


def test_a_strangers_text_runs_nothing(tmp_path: Path) -> None:
    evil = "`</code><img src=x onerror=\"document.title='run'\">` <script>document.title='run'"
    shown = reported(finding(message=evil), path=f"{evil.replace('/', '')}.py")
    shown = replace(shown, excerpt=replace(shown.excerpt, lines=(evil,) * 4))
    document = opened(render(replace(EMPTY, comments=(shown,)), "html"), tmp_path)
    assert "<title>Hostside review: main...feature</title>" in document
    assert "<script" not in document


def test_a_benchmark_run_fits_a_telephone_and_runs_nothing(tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
    order = Order("ada/glue", 7, 3, "b" * 40, "a" * 40, "ada", suggestion=evil)
    bench = BenchState(
        id=1, token="0" * 32, order=order, stage=Stage.DONE, progress=Progress(), problem="",
        runner=evil, external=0, attempts=1, created=1e9, started=1e9, finished=1e9, version=3,
        has_report=True,
    )  # fmt: skip
    html = page(bench, made((f"{evil}{'x' * 200}",), name=evil))
    html = html.replace("</body>", f"{PROBE}</script></body>")
    assert "<title>wide: false</title>" in opened(html, tmp_path)
