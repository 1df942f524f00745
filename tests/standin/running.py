"""The stand-in as a server on this machine, for as long as a test takes."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from tests.standin.contract import Contract
from tests.standin.server import Logged, create_app
from tests.standin.world import World


@dataclass(frozen=True)
class Running:
    """A stand-in that answers at `world.url`."""

    world: World
    app: FastAPI
    contract: Contract | None

    @property
    def log(self) -> list[Logged]:
        return self.app.state.log

    def calls(self, method: str = "", path: str = "") -> list[Logged]:
        """The requests of this kind."""
        return [c for c in self.log if method in ("", c.method) and path in c.path]

    @property
    def complaints(self) -> list[str]:
        """What did not fit GitHub's description of its API, and the stand-in's own faults."""
        return [*self.app.state.broken, *(self.contract.complaints if self.contract else [])]


@contextmanager
def running(directory: Path, checked: bool = True) -> Iterator[Running]:
    """A stand-in on a free port; `checked` holds it against the contract where there is one."""
    world = World(directory)
    contract = Contract() if checked and Contract.available() else None
    app = create_app(world, contract)
    with served(app) as port:
        world.url = f"http://127.0.0.1:{port}"
        yield Running(world, app, contract)


@contextmanager
def served(app: FastAPI) -> Iterator[int]:
    """Any application on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    # Else the body of each answer waits 40 ms for the acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)  # faults are on purpose
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
