"""`hostside gpu-runner`: measures benchmarks that the service hands out, on this machine's GPU."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from bot.errors import BotError, ConfigError, UsageError

if TYPE_CHECKING:
    from bot.runner import Machine, Runner
    from bot.runner_settings import RunnerSettings

HELP = "measure the benchmarks that pull requests ask for, on this machine"
BACKENDS = ("auto", "cuda", "cpu", "model")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ASK_SECONDS = 5.0  # where no broker rings
_LONGEST = 3600.0
log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--name", help="what this machine is called (its host name)")
    parser.add_argument(
        "--label", action="append", default=[], metavar="L", help="`/gpu-bench gpu=L` finds it"
    )
    parser.add_argument("--backend", choices=BACKENDS, default="auto")
    parser.add_argument(
        "--device", metavar="GPU", help="index, UUID or part of the name (the first)"
    )
    parser.add_argument("--python", type=Path, metavar="FILE", help="interpreter of the benchmarks")
    parser.add_argument("--image", metavar="I", help="container image, where bubblewrap is missing")
    parser.add_argument(
        "--every",
        type=float,
        metavar="SECONDS",
        help="how often to ask without a bell (30; 5 where there is no broker)",
    )
    parser.add_argument(
        "--once", action="store_true", help="measure what waits now, and end (for a timer)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure until told to stop."""
    from bot.logs import say, set_up
    from bot.runner import Runner
    from bot.runner_link import Link
    from bot.runner_settings import load_runner_settings

    if arguments.every is not None and not 0 < arguments.every <= _LONGEST:
        raise UsageError(
            f"--every must be above 0 and at most {_LONGEST:g}; got {arguments.every:g}"
        )
    settings = load_runner_settings()
    set_up(settings.log_level)
    machine = _machine(arguments, settings)
    if settings.exposed:
        say(log, "the token travels unencrypted; use https", logging.WARNING)
    link = Link(settings.server_url, settings.runner_token.get_secret_value())
    runner = Runner(link, machine)
    say(log, "ready to measure", name=machine.name, device=machine.device, labels=machine.labels)
    try:
        _greet(runner)
        if arguments.once:
            _in_a_thread(runner, runner.ask)
        else:
            _serve(runner, settings, arguments.every)
    finally:
        runner.stop()
        link.close()
    return 0


def _greet(runner: Runner) -> None:
    """A service that refuses this machine is told before anything else."""
    from bot.logs import say
    from bot.runner_link import AwayError, RefusedError

    try:
        runner.greet()
    except RefusedError as problem:
        raise ConfigError(f"the service refuses this runner: {problem}") from problem
    except AwayError as problem:
        say(log, "the service is away; it is asked again", logging.WARNING, why=str(problem))


def _machine(arguments: argparse.Namespace, settings: RunnerSettings) -> Machine:
    """This machine, if it can measure at all."""
    from bot.cli import VERSION
    from bot.runner import Machine
    from bot.runner_settings import usual_name
    from gpu_runner.device import find
    from gpu_runner.errors import RunnerError
    from gpu_runner.records import Backend
    from gpu_runner.sandbox import bubblewrap_problem, container_problem
    from gpu_runner.workshop import interpreter

    name = arguments.name or usual_name()
    for each in (name, *arguments.label):
        if not _NAME.fullmatch(each):
            raise UsageError(f"{each!r} is no name: letters, digits, - _ . and at most 63 of them")
    image = arguments.image or settings.sandbox_image
    boxless = bubblewrap_problem()
    if boxless and container_problem(image or None):
        raise ConfigError(
            f"no sandbox works on this machine ({boxless}), and a runner measures in nothing less; "
            "install bubblewrap (apt-get install bubblewrap), or name a container image by --image"
        )
    gpu = arguments.device or _visible()
    backend = Backend(arguments.backend)
    try:
        found = find(backend, gpu)
        interpreter(arguments.python)
    except RunnerError as problem:
        raise UsageError(str(problem)) from problem
    device = found.device.name if found.device else found.backend.value
    labels = tuple(dict.fromkeys(arguments.label))
    return Machine(name, labels, device, backend, gpu, arguments.python, image, VERSION)


def _visible() -> str | None:
    """The one GPU that CUDA is told to see, if it is one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return visible if visible and "," not in visible else None


def _serve(runner: Runner, settings: RunnerSettings, every: float | None) -> None:
    """Ask now, at every bell, and every few seconds, for a bell may be lost."""
    from bot.benches import queue_of
    from bot.runner_wire import IDLE_SECONDS

    if not settings.broker:
        _in_a_thread(runner, lambda: _ask_often(runner, every or _ASK_SECONDS))
        return
    from bot.tasks import answer_for_gpu

    often = threading.Thread(target=_ask_often, args=(runner, every or IDLE_SECONDS), daemon=True)
    often.start()
    queues = ",".join(map(queue_of, ("", *runner.machine.labels)))
    answer_for_gpu(settings, queues, lambda: _ask(runner.ask), runner.stop)


def _ask_often(runner: Runner, every: float) -> None:
    while not runner.stopping.is_set():
        _ask(runner.ask_if_idle)
        runner.stopping.wait(every)


def _ask(ask: Callable[[], int]) -> None:
    """Ask once; whatever goes wrong, it is asked again, for a service may be mended."""
    from bot.logs import say

    try:
        if not ask():
            say(log, "asked, and nothing waits", logging.DEBUG)
    except BotError as problem:
        say(log, "the service gave no work", logging.WARNING, why=str(problem))


def _in_a_thread(runner: Runner, do: Callable[[], object]) -> None:
    """The main thread only waits: what a signal's handler touches, it must not hold."""

    def stop(_: int, __: FrameType | None) -> None:
        runner.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            do()
        except BaseException as problem:
            failed.append(problem)

    thread = threading.Thread(target=work, name="runner")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
