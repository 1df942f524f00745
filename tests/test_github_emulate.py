"""The App's flow against `emulate`, a GitHub that none of us wrote.

Optional: `npm install emulate@0.11.2`, then HOSTSIDE_EMULATE=node_modules/.bin/emulate.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.github import Access, connect
from bot.pulls import Check, Plan, PullRef

PROGRAM = os.environ.get("HOSTSIDE_EMULATE", "")
SECRET = "a webhook secret"
INSTALLATION = 100

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PROGRAM,
        reason="npm install emulate@0.11.2; HOSTSIDE_EMULATE=node_modules/.bin/emulate",
    ),
]


class Listener(BaseHTTPRequestHandler):
    """Keeps the webhooks that arrive."""

    seen: list[tuple[dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(202)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def listening() -> Iterator[tuple[int, list[tuple[dict[str, str], bytes]]]]:
    seen: list[tuple[dict[str, str], bytes]] = []
    server = HTTPServer(("127.0.0.1", 0), type("Bound", (Listener,), {"seen": seen}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, seen
    finally:
        server.shutdown()
        server.server_close()


def key() -> str:
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


def seed(private_key: str, hook: int) -> dict[str, Any]:
    permissions = {
        "checks": "write", "contents": "read", "metadata": "read", "pull_requests": "write",
    }  # fmt: skip
    app = {
        "app_id": 12345, "slug": "hostside", "name": "Hostside", "private_key": private_key,
        "permissions": permissions, "events": ["pull_request"],
        "webhook_url": f"http://127.0.0.1:{hook}/webhooks/github", "webhook_secret": SECRET,
        "installations": [{
            "installation_id": INSTALLATION, "account": "octocat", "repository_selection": "all",
            "permissions": permissions, "events": ["pull_request"],
        }],
    }  # fmt: skip
    repo = {"owner": "octocat", "name": "train", "auto_init": True}
    return {
        "tokens": {"person": {"login": "octocat", "scopes": ["repo"]}},
        "github": {"users": [{"login": "octocat"}], "repos": [repo], "apps": [app]},
    }


@contextmanager
def emulated(directory: Path, config: dict[str, Any]) -> Iterator[str]:
    file = directory / "seed.json"
    file.write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [PROGRAM, "start", "-s", "github", "-p", str(port), "--seed", str(file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(200):
                try:
                    httpx.get(f"{url}/meta")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            yield url
        finally:
            process.terminate()


def open_pull(url: str) -> dict[str, Any]:
    with httpx.Client(base_url=f"{url}/repos/octocat/train", timeout=20) as http:
        http.headers["Authorization"] = "token person"
        tip = http.get("/git/ref/heads/main").json()["object"]["sha"]
        http.post("/git/refs", json={"ref": "refs/heads/feature", "sha": tip})
        body = {"message": "m", "branch": "feature", "content": "eCA9IDEK"}
        http.put("/contents/a.py", json=body).raise_for_status()
        made = http.post("/pulls", json={"title": "t", "head": "feature", "base": "main"})
        made.raise_for_status()
        return made.json()


def test_the_app_signs_in_and_works_on_a_github_that_we_did_not_write(tmp_path: Path) -> None:
    private_key = key()
    with (
        listening() as (hook, seen),
        emulated(tmp_path, seed(private_key, hook)) as url,
    ):
        pull = open_pull(url)
        access = Access(api_url=url, app_id="12345", private_key=private_key, write_gap=0.01)
        client = connect(access, INSTALLATION, repository="octocat/train")
        head, base = pull["head"]["sha"], pull["base"]["sha"]
        ref = PullRef("octocat", "train", pull["number"], base, head, INSTALLATION)
        now = client.pull(ref)
        assert (now.open, now.ref.head_sha, now.author) == (True, head, "octocat")
        number = client.start_check(ref)
        posted = client.post(ref, Plan(check=Check("neutral", "title", "summary")))
        assert posted.check == number
        assert client.reply(ref, "hello", "k") > 0
        client.close()
        run = httpx.get(
            f"{url}/repos/octocat/train/check-runs/{number}",
            headers={"Authorization": "token person"},
        ).json()
        assert (run["status"], run["conclusion"]) == ("completed", "neutral")
        headers, body = next(s for s in seen if s[0]["x-github-event"] == "pull_request")
        signed = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert headers["x-hub-signature-256"] == f"sha256={signed}"
        assert json.loads(body)["installation"]["id"] == INSTALLATION
