"""Celery, and nothing else about it anywhere: a bell that says "look at job N".

A task carries the number of a job and no more: no code, no token, no payload. Whether the job is
to be done is for the job table to say, so a lost or doubled message does no harm.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from multiprocessing import process
from pathlib import Path
from typing import Any, Protocol

import celery  # pyright: ignore[reportMissingTypeStubs]
import celery.signals  # pyright: ignore[reportMissingTypeStubs]

from bot.lifeline import die_with_parent
from bot.logs import set_up
from bot.settings import Settings
from bot.work import REVIEW_QUEUE, Bell

Celery: Any = celery.Celery  # it has no types of its own
signals: Any = celery.signals
QUEUES = (REVIEW_QUEUE,)  # that `hostside worker` answers; GPU queues are the runners'
TASK = "hostside.job"
BENCH_TASK = "hostside.bench"  # the number is a benchmark's, and the service knows the rest
POLL_SECONDS = 0.05
_PATIENCE = 2  # seconds for a broker to take a bell; the reaper rings again
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
_MAIN = process.current_process()
_MASTER = os.getpid()  # of the pool's processes, which are its forks
_GRACE = 30.0  # between the time limit a job can react to and the one that kills it


class Wires(Protocol):
    """Settings that say where the bell hangs."""

    @property
    def broker(self) -> str:
        """Its address."""
        ...

    @property
    def data_dir(self) -> Path:
        """Where it is when it is a folder."""
        ...

    @property
    def job_seconds(self) -> float:
        """How long it may take to do what a bell asks for."""
        ...


def make_celery(settings: Wires) -> Any:
    """The Celery application for these settings."""
    app = Celery("hostside", broker=settings.broker, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_transport_options=_transport(settings),
        task_acks_late=True,
        task_create_missing_queues=True,
        task_default_queue=REVIEW_QUEUE,
        task_ignore_result=True,
        # The job's lease and its count of attempts do what a redelivery would do endlessly.
        task_reject_on_worker_lost=False,
        task_serializer="json",
        task_soft_time_limit=settings.job_seconds,
        task_time_limit=settings.job_seconds + _GRACE,
        task_store_errors_even_if_ignored=False,
        worker_hijack_root_logger=False,
        worker_max_tasks_per_child=500,
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
    )
    return app


def _transport(settings: Wires) -> dict[str, Any]:
    kind = settings.broker.partition(":")[0]
    if kind == "filesystem":
        folder = settings.data_dir.absolute() / "bell"
        for name in ("messages", "control"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        return {
            "data_folder_in": str(folder / "messages"),
            "data_folder_out": str(folder / "messages"),
            "control_folder": str(folder / "control"),
            "polling_interval": POLL_SECONDS,
        }
    if kind.startswith("redis"):
        return {
            # Longer than the longest task, or Redis gives it to a second worker meanwhile.
            "visibility_timeout": settings.job_seconds + 2 * _GRACE,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "socket_connect_timeout": _PATIENCE,
            "socket_timeout": 2 * _PATIENCE,
        }
    return {"connect_timeout": _PATIENCE, "confirm_publish": True}


def bell(settings: Wires) -> Callable[[Bell], None]:
    """Something that rings for a job; it raises when the broker is away."""
    app = make_celery(settings)
    # Celery reads most of itself at the first message; now nobody waits for it.
    _ = app.amqp, app.backend

    def ring(which: Bell) -> None:
        task = TASK if which.queue in QUEUES else BENCH_TASK
        app.send_task(task, args=[which.job], queue=which.queue, retry=False)

    return ring


def work_off(settings: Settings, queues: str, concurrency: int, do: Callable[[int], None]) -> int:
    """Answer bells until told to stop; `do` gets the number of each job in a child process."""
    app = make_celery(settings)

    @app.task(name=TASK)
    def job(number: int) -> None:  # pyright: ignore[reportUnusedFunction]  # registered by name
        do(number)

    @signals.setup_logging.connect(weak=False)
    def lines(**_: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        set_up(settings.log_level)

    signals.worker_process_init.connect(_child, weak=False)
    # Messages are JSON numbers, so that running as root, as containers do, risks nothing more.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    options = [*_QUIET, "--pool=prefork"]
    options += [f"--queues={queues}", f"--concurrency={concurrency}"]
    app.worker_main(["--quiet", "worker", *options, f"--loglevel={settings.log_level}"])
    return 0


def answer_for_gpu(
    settings: Wires, queues: str, ask: Callable[[], object], stop: Callable[[], None]
) -> int:
    """Call `ask` at every bell of these queues, one at a time, until told to stop.

    The message is kept until `ask` returns, so that meanwhile another machine hears the next bell.
    """
    app = make_celery(settings)

    @app.task(name=BENCH_TASK)
    def bench(_: int) -> None:  # pyright: ignore[reportUnusedFunction]  # registered by name
        ask()

    @signals.setup_logging.connect(weak=False)
    def lines(**_: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        return  # set up already

    @signals.worker_shutting_down.connect(weak=False)
    def ending(**_: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        stop()

    app.conf.update(task_time_limit=None, task_soft_time_limit=None)  # the pool has no processes
    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    options = [*_QUIET, "--pool=threads", "--concurrency=1", f"--queues={queues}"]
    app.worker_main(["--quiet", "worker", *options, "--loglevel=WARNING"])
    return 0


def _child(**_: Any) -> None:
    """Let a pool process have children of its own, and die with its parent."""
    # Celery's pool puts a process of its own kind here, a daemon that may have no children. The
    # analysis needs some, made by the standard library.
    process._current_process = _MAIN  # type: ignore[attr-defined]
    die_with_parent(_MASTER)
