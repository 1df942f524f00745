"""A benchmark on its way through a workflow run of the stand-in, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bot.bench_dispatch import Seen, look
from bot.bench_outside import OutsideBenches
from bot.bench_result import request_of
from bot.bench_work import BenchState, Order, Way
from bot.github import Access, connect_workflows
from bot.github_actions import Workflows
from bot.github_turns import MemoryTurns
from bot.store import Store
from gpu_runner.models import BenchmarkRun, BenchReport, BenchRun
from gpu_runner.records import Backend, Correctness, Device, Environment, Process, Round, Variant
from gpu_runner.verdict import report
from tests.standin.actions import FOLDER, Actions, Run, actions_of
from tests.standin.model import Installation, Pull, Repo
from tests.standin.routes_actions import blob_server
from tests.standin.running import Running, running, served
from tests.standin.world import APP_ID, PERMISSIONS, World

WORKFLOW = "gpu-bench.yml"
SHIPPED = Path(__file__).parents[1] / "deploy" / "workflows" / WORKFLOW
GRANTED = {**PERMISSIONS, "actions": "write"}
GZIP = b"\x1f\x8bsome trace"


@dataclass
class Outside:
    """One repository with the shipped workflow, and the table of benchmarks."""

    running: Running
    repo: Repo
    pull: Pull
    installation: Installation
    access: Access
    store: Store
    blob_headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def world(self) -> World:
        return self.running.world

    @property
    def actions(self) -> Actions:
        return actions_of(self.world)

    @property
    def benches(self) -> OutsideBenches:
        return OutsideBenches(self.store)

    def order(self, **changes: object) -> BenchState:
        order = Order(
            repo=self.repo.full_name, number=self.pull.number, installation=self.installation.id,
            base_sha=self.pull.base_sha, head_sha=self.pull.head_sha, author="ada",
            way=Way.WORKFLOW, workflow=WORKFLOW,
        )  # fmt: skip
        order = replace(order, **changes)  # type: ignore[arg-type]
        made = self.benches.order(order, f"key-{order.number}")
        assert isinstance(made, BenchState), made
        return made

    def workflows(self, **changes: object) -> Workflows:
        access = replace(self.access, **changes)  # type: ignore[arg-type]
        return connect_workflows(access, self.installation.id, repository=self.repo.full_name)

    def look(self, bench: BenchState, workflows: Workflows | None = None) -> Seen:
        """One step, as a job takes it."""
        ours = workflows or self.workflows()
        try:
            return look(self.benches, ours, bench.token)
        finally:
            ours.close()

    def started(self, bench: BenchState) -> Run:
        """The only run, once it was started and found."""
        for _ in range(3):
            if self.benches.get(bench.id).external <= 0:
                self.look(bench)
        (run,) = self.actions.runs
        assert self.benches.get(bench.id).external == run.id
        return run

    def result(self, bench: BenchState) -> bytes:
        """What an honest machine would report."""
        return honest(bench).to_json().encode()


def honest(bench: BenchState, head_ns: float = 800_000.0) -> BenchReport:
    """A report on one benchmark whose head is faster."""
    rounds = tuple(
        Round(
            number,
            (
                Process(Variant.BASE, (1e6 + number, 1.01e6)),
                Process(Variant.HEAD, (head_ns + number, head_ns * 1.01)),
            ),
        )
        for number in range(10)
    )
    measured = BenchmarkRun(
        "gpu_bench/a.py::total",
        "gpu_bench",
        correctness=(Correctness(Variant.HEAD, True, (1, 2)),),
        rounds=rounds,
    )
    run = BenchRun(
        request_of(bench), Backend.CPU, "2026-11-30", 1.0,
        Environment("3.11", "Linux", sandbox="bubblewrap"), Device("cpu", "a CPU"),
        benchmarks=(measured,),
    )  # fmt: skip
    return report(run)


@contextmanager
def outside(
    directory: Path,
    permissions: dict[str, str] | None = None,
    workflow: str | None = None,
    files: dict[str, str | bytes | None] | None = None,
    head: dict[str, str | bytes | None] | None = None,
) -> Iterator[Outside]:
    """A running stand-in; fails if anything broke GitHub's description of its API."""
    with running(directory / "standin") as stand_in:
        world = stand_in.world
        blobs = blob_server(world)
        with served(blobs) as port:
            actions_of(world).blobs = f"http://127.0.0.1:{port}"
            text = SHIPPED.read_text() if workflow is None else workflow
            own = {f"{FOLDER}/{WORKFLOW}": text} if text else {}
            repo = world.repository("acme/train", {"train.py": "1\n", **(files or {}), **own})
            repo.roles["ada"] = "write"
            installation = world.install([repo], GRANTED if permissions is None else permissions)
            pull = world.open_pull(repo, head or {"train.py": "2\n"})
            access = Access(
                api_url=world.url, app_id=str(APP_ID), private_key=world.private_key,
                timeout=10.0, turns=MemoryTurns(), write_gap=0.0, patience=1.0,
            )  # fmt: skip
            store = Store(f"sqlite:///{directory / 'hostside.db'}")
            yield Outside(stand_in, repo, pull, installation, access, store, blobs.state.headers)
            store.close()
        assert not stand_in.complaints, "\n".join(stand_in.complaints)[:4000]
