"""`hostside serve`: the GitHub App on one machine, web and worker, with nothing else to install."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys

from bot.errors import UsageError

# Threads that store and ring must not keep the one that answers waiting for Python's lock.
_SWITCH_SECONDS = 0.001
HELP = "run the GitHub App: webhooks, and a worker along with them"
log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--host", help="address to listen on (HOSTSIDE_HOST, 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (HOSTSIDE_PORT, 8000)")
    parser.add_argument(
        "--no-worker", action="store_true", help="start none; `hostside worker` runs elsewhere"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    import uvicorn

    from bot.app import House, make_app
    from bot.bench_care import BenchCare
    from bot.benches import Benches
    from bot.caretaker import Caretaker
    from bot.intake import Intake
    from bot.logs import say, set_up
    from bot.office import open_store
    from bot.runner_desk import open_desk
    from bot.settings import load_settings, unknown_names
    from bot.tasks import bell

    settings = load_settings()
    set_up(settings.log_level)
    sys.setswitchinterval(_SWITCH_SECONDS)
    for name in unknown_names(os.environ):
        say(log, "there is no such setting; is it misspelt?", logging.WARNING, setting=name)
    host, port = arguments.host or settings.host, settings.port
    listening = listen(host, port if arguments.port is None else arguments.port)
    store = open_store(settings)
    intake = Intake(store, bell(settings))
    benches = BenchCare(Benches(store), bell(settings), settings.lease_seconds)
    with_worker = not arguments.no_worker
    caretaker = Caretaker(settings, store, intake.ring, with_worker, benches)
    house = House(
        store,
        intake,
        settings.secrets,
        settings.allowed_bots,
        caretaker.workers_alive,
        open_desk(settings, store),
        settings.public_url,
    )
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(house), log_config=None, access_log=False, lifespan="off", server_header=False
        )
    )
    caretaker.start()
    say(log, "listening", address=f"http://{host}:{listening.getsockname()[1]}")
    try:
        server.run(sockets=[listening])
    finally:
        intake.close()
        caretaker.stop()
        store.close()
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send at once what is written to them."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=512)
    except OSError as problem:
        raise UsageError(
            f"cannot listen on {host}:{port} ({problem.strerror or problem}); give --host or --port"
        ) from problem
    # Inherited by every connection. asyncio sets it only on sockets that it made itself; without
    # it an answer's body waits 40 ms for the sender to acknowledge its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
