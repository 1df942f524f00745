"""The service's side for runners with a real table and a real repository, for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from repository import Repository, make_repository

from bot.bench_result import request_of
from bot.bench_source import sources
from bot.bench_work import BenchState, Order
from bot.benches import Benches
from bot.github_git import Origin
from bot.runner_api import Desk, router
from bot.store import Store
from gpu_runner.model import ModelGpu
from gpu_runner.model_run import run_on_model
from gpu_runner.models import BenchReport
from gpu_runner.records import Variant
from gpu_runner.verdict import report

TOKEN, OLDER = "a runner's newest token", "a runner's older token"
LOCAL = (
    ("GIT_ALLOW_PROTOCOL", "file"), ("GIT_CONFIG_GLOBAL", os.devnull), ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "uploadpack.allowAnySHA1InWant"),
    ("GIT_CONFIG_VALUE_0", "true"),
)  # fmt: skip


@dataclass(frozen=True)
class Caller:
    """Asks an application without a network, signed in unless told otherwise."""

    app: FastAPI

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            headers = {"Authorization": f"Bearer {TOKEN}"} | more.pop("headers", {})
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(method, path, headers=headers, **more)

        return asyncio.run(ask())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def put(self, path: str, **more: Any) -> httpx.Response:
        return self.request("PUT", path, **more)


@dataclass(frozen=True)
class Scene:
    """A desk, its application, and the repository whose commits are measured."""

    desk: Desk
    app: FastAPI
    client: Caller
    repository: Repository
    base: str
    head: str

    @property
    def benches(self) -> Benches:
        return self.desk.benches

    def order(self, key: str = "k", number: int = 1, **more: object) -> BenchState:
        """A benchmark of the repository's two commits."""
        asked = Order("ada/glue", number, 3, self.base, self.head, "ada", **more)
        made = self.benches.order(asked, key)
        assert isinstance(made, BenchState)
        return made


@contextmanager
def scene(directory: Path, files: tuple[dict[str, str], dict[str, str]]) -> Generator[Scene]:
    """A desk over a repository with these two commits."""
    repository = make_repository(directory / "origin")
    base, head = (repository.commit(dict(each)) for each in files)
    store = Store(f"sqlite:///{directory / 'hostside.db'}")
    made = sources(lambda _: Origin(f"file://{repository.root}", LOCAL), 8)
    desk = Desk(Benches(store), made, (TOKEN.encode(), OLDER.encode()))
    app = FastAPI()
    app.include_router(router(desk))
    try:
        yield Scene(desk, app, Caller(app), repository, base, head)
    finally:
        store.close()


def a_report(bench: BenchState, base_ns: int = 40_000, head_ns: int = 20_000) -> BenchReport:
    """What an honest machine reports: modelled times of base and head."""

    def program(nanoseconds: int):
        def run(gpu: ModelGpu) -> None:
            gpu.launch("k", nanoseconds)
            gpu.synchronize()

        return run

    programs = {Variant.BASE: program(base_ns), Variant.HEAD: program(head_ns)}
    run = run_on_model(request_of(bench), {"bench_kernel": programs})
    boxed = replace(run.environment, sandbox="bubblewrap")
    return report(replace(run, environment=boxed))
