"""Webhooks at a steady rate against the App on one machine, with GitHub's stand-in behind it.

    python benchmarks/load.py [--rate 200] [--seconds 30] [--pulls 100]

Every delivery is a push to one of the pull requests, ten of which are pushed to at a time; the last
push of each is its head, so that there is always something to review. Prints how fast they were
answered meanwhile, what that cost, how long the rest took, and whether every pull request has
exactly its review. The stand-in gives way to the App, for GitHub is on another machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
_IDLE_SECONDS = 3  # the server closes a connection after five


@dataclass(frozen=True)
class Request:
    """One delivery as bytes for the wire."""

    head: bytes
    body: bytes


def main() -> int:
    """Exit code 1 when a delivery was refused or a review is missing, doubled or wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=int, default=200, help="deliveries in a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--pulls", type=int, default=100)
    parser.add_argument("--patience", type=int, default=1800, help="seconds for the reviews")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hostside-load-") as name:
        return _measured(options, Path(name))


def _measured(options: argparse.Namespace, directory: Path) -> int:
    from service_project import is_reviewed_once, open_faulty, repository
    from service_running import serving

    from tests.standin.running import running

    with running(directory / "github", checked=False) as github:
        world = github.world
        repo = repository(world)
        pulls = [open_faulty(world, repo) for _ in range(options.pulls)]
        with serving(world, directory, LEASE_SECONDS="60") as service:
            _wait_ready(service)
            requests = _requests(world, pulls, options.rate * options.seconds)
            port = int(service.url.rpartition(":")[2])
            with multiprocessing.get_context("spawn").Pool(1) as sender:
                sender.apply(time.sleep, (0,))  # started, and as important as the App
                os.nice(10)
                before = _cpu_seconds(service.process.pid)
                results = sender.apply(_send, (port, options.rate, requests))
                cost = _cpu_seconds(service.process.pid) - before
            sent = time.monotonic()
            counts = service.counts()
            _report(results, options.rate)
            print(f"CPU time of the web process: {cost / len(results) * 1e6:.0f} us a delivery")
            print(f"reviews done meanwhile: {counts.get('done', 0)}")
            final = service.settle(patience=options.patience)
            print(f"the rest was done {time.monotonic() - sent:.0f} s later: {final}")
        right = sum(is_reviewed_once(world, pull) for pull in pulls)
        print(f"{right} of {len(pulls)} pull requests have exactly the right review")
    refused = sum(status != 202 for status, _ in results)
    return 0 if right == len(pulls) and not refused else 1


def _wait_ready(service: Any) -> None:
    from service_running import wait_until

    wait_until(lambda: service.get("/readyz").status_code == 200, "it is ready")


def _cpu_seconds(pid: int) -> float:
    """What the process has used up so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _requests(world: Any, pulls: list[Any], count: int) -> list[Request]:
    """Pushes to ten pull requests in turn, then to the next ten; each one's last is its head."""
    import hashlib

    from service_running import SECRET

    from tests.standin.model import Delivery
    from tests.standin.webhooks import headers, payload

    made: list[Request] = []
    groups = [pulls[first : first + 10] for first in range(0, len(pulls), 10)]
    order = [
        (pull, turn)
        for group in groups
        for turn in reversed(range(max(count // len(pulls), 1)))
        for pull in group
    ]
    for number, (pull, to_come) in enumerate(order):
        said = json.loads(payload(world, pull, "pull_request", "synchronize", {}))
        if to_come:
            said["pull_request"]["head"]["sha"] = hashlib.sha1(b"%d" % number).hexdigest()
        minute, second = divmod(number // 200, 60)
        said["pull_request"]["updated_at"] = f"2026-01-01T{minute:02d}:{second:02d}:00Z"
        body = json.dumps(said).encode()
        delivery = Delivery(number, f"load-{number}", "pull_request", "synchronize", body, 0.0)
        lines = {**headers(delivery, SECRET), "Host": "load", "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        made.append(Request(f"POST /webhooks/github HTTP/1.1\r\n{head}\r\n".encode(), body))
    return made


def _send(port: int, rate: int, requests: list[Request]) -> list[tuple[int, float]]:
    """Status and seconds of each delivery, sent at its own time whatever became of the others."""
    return asyncio.run(_all(port, rate, requests))


async def _all(port: int, rate: int, requests: list[Request]) -> list[tuple[int, float]]:
    start = time.perf_counter()
    free: asyncio.LifoQueue[Any] = asyncio.LifoQueue()

    async def one(number: int, request: Request) -> tuple[int, float]:
        await asyncio.sleep(max(start + number / rate - time.perf_counter(), 0))
        begun = time.perf_counter()
        reader, writer = await _connection(free, port)
        writer.write(request.head + request.body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        free.put_nowait((reader, writer, time.perf_counter()))
        return int(answer.split(b" ")[1]), time.perf_counter() - begun

    return list(await asyncio.gather(*(one(n, r) for n, r in enumerate(requests))))


async def _connection(free: asyncio.LifoQueue[Any], port: int) -> Any:
    while not free.empty():
        reader, writer, used = free.get_nowait()
        if time.perf_counter() - used < _IDLE_SECONDS:
            return reader, writer
        writer.close()
    return await asyncio.open_connection("127.0.0.1", port)


def _report(results: list[tuple[int, float]], rate: int) -> None:
    times = sorted(seconds for _, seconds in results)
    accepted = sum(status == 202 for status, _ in results)
    cut = statistics.quantiles(times, n=1000)
    print(f"{len(results)} deliveries at {rate}/s: {accepted} accepted")
    print(
        f"answered in ms: median {cut[499] * 1000:.1f}, p99 {cut[989] * 1000:.1f}, "
        f"p99.9 {cut[998] * 1000:.1f}, most {times[-1] * 1000:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
