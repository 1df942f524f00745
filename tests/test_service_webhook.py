from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import service_events as events

from bot import upkeep
from bot.app import LARGEST, House, make_app
from bot.cli.serve import listen
from bot.intake import Intake
from bot.logs import JsonLines, about, say
from bot.store import Store
from bot.work import Bell, State

SECRETS = (b"new secret", b"old secret")


class Rung:
    """What was rung for; `broken` is a broker that is away."""

    def __init__(self) -> None:
        self.bells: list[Bell] = []
        self.broken = False
        self.busy = threading.Event()
        self.busy.set()

    def __call__(self, bell: Bell) -> None:
        self.busy.wait(30)
        if self.broken:
            raise OSError("connection refused")
        self.bells.append(bell)


@pytest.fixture
def rung() -> Rung:
    return Rung()


@pytest.fixture
def house(tmp_path: Path, rung: Rung) -> Iterator[House]:
    store = Store(f"sqlite:///{tmp_path / 'jobs.db'}")
    made = House(store, Intake(store, rung), SECRETS)
    yield made
    made.intake.close()
    store.close()


def sent(house: House, talk: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]) -> Any:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(make_app(house))
        async with httpx.AsyncClient(transport=transport, base_url="http://hostside") as client:
            return await talk(client)

    return asyncio.run(run())


def delivered(
    house: House,
    body: bytes,
    secret: bytes = SECRETS[0],
    event: str = "pull_request",
    **headers: str,
) -> httpx.Response:
    sum_ = "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
    named = {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": "11111111-aaaa",
        "X-Hub-Signature-256": sum_,
        "Content-Type": "application/json",
    }
    given = {name.replace("_", "-"): value.encode() for name, value in headers.items()}
    return sent(house, lambda c: c.post("/webhooks/github", content=body, headers=named | given))


OPENED = json.dumps(events.pull_request("opened")).encode()


@pytest.mark.parametrize("secret", SECRETS, ids=["the secret", "the one before it"])
def test_a_signed_delivery_is_stored_before_it_is_answered(
    house: House, rung: Rung, secret: bytes
) -> None:
    answer = delivered(house, OPENED, secret)
    assert (answer.status_code, answer.json()) == (202, {"jobs": 1})
    assert upkeep.counts(house.store) == {("review", "queued"): 1}
    house.intake.close()
    assert [bell.queue for bell in rung.bells] == ["review"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"X_Hub_Signature_256": "sha256=" + "0" * 64}, 401, id="wrong signature"),
        pytest.param({"X_Hub_Signature_256": ""}, 401, id="no signature"),
        pytest.param({"X_Hub_Signature_256": "sha256=é"}, 401, id="odd signature"),
        pytest.param({"X_GitHub_Delivery": ""}, 400, id="no delivery id"),
        pytest.param({"X_GitHub_Delivery": "../x"}, 400, id="a path for an id"),
        pytest.param({"X_GitHub_Event": "Pull Request"}, 400, id="no event"),
        pytest.param(
            {"Content_Type": "application/x-www-form-urlencoded"}, 415, id="a form's encoding"
        ),
    ],
)
def test_a_delivery_that_is_not_proper_is_refused(
    house: House, headers: dict[str, str], status: int
) -> None:
    assert delivered(house, OPENED, **headers).status_code == status
    assert upkeep.counts(house.store) == {}


def test_the_signature_is_over_the_bytes_as_they_came(house: House) -> None:
    spaced = OPENED.replace(b": ", b":   ")
    assert delivered(house, spaced).status_code == 202
    old = delivered(house, OPENED).request.headers["x-hub-signature-256"]
    assert delivered(house, spaced, X_Hub_Signature_256=old).status_code == 401


def test_a_body_beyond_the_limit_is_refused_whether_announced_or_not(house: House) -> None:
    async def pieces() -> Any:
        for _ in range(26):
            yield b" " * (1 << 20)

    headers = {"X-Hub-Signature-256": "sha256=" + "0" * 64}
    streamed = sent(house, lambda c: c.post("/webhooks/github", content=pieces(), headers=headers))
    assert streamed.status_code == 413
    announced = delivered(house, b"{}", Content_Length=str(LARGEST + 1))
    assert announced.status_code == 413


def test_who_has_no_signature_sends_his_body_in_vain(house: House) -> None:
    read: list[int] = []

    async def body() -> Any:
        for number in range(3):
            read.append(number)
            yield b"x" * 1000

    headers = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "d", "Content-Type": "text/plain"}
    answer = sent(house, lambda c: c.post("/webhooks/github", content=body(), headers=headers))
    assert answer.status_code == 401
    assert read == []


def test_bodies_on_their_way_take_so_much_memory_together(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.app._TOGETHER", 5_000)
    assert delivered(house, b" " * 6_000 + OPENED).status_code == 503
    assert delivered(house, OPENED).status_code == 202


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.app._BODY_SECONDS", 0.01)

    async def body() -> Any:
        yield b"{"
        await asyncio.sleep(30)

    headers = {"X-Hub-Signature-256": "sha256=" + "0" * 64}
    answer = sent(house, lambda c: c.post("/webhooks/github", content=body(), headers=headers))
    assert answer.status_code == 408


def test_a_payload_that_is_not_understood_is_told_so(house: House) -> None:
    answer = delivered(house, b'{"action": "opened", "pull_request": {"number": 1}}')
    assert answer.status_code == 422
    assert "pull_request.head" in answer.json()["error"]


def test_what_nobody_asked_for_is_accepted_and_forgotten(house: House) -> None:
    assert delivered(house, b'{"zen": "x"}', event="ping").json() == {"jobs": 0}
    assert upkeep.counts(house.store) == {}


def test_the_same_delivery_twice_is_one_job(house: House, rung: Rung) -> None:
    for _ in range(2):
        assert delivered(house, OPENED).status_code == 202
    assert upkeep.counts(house.store) == {("review", "queued"): 1}
    house.intake.close()
    assert len({bell.job for bell in rung.bells}) == 1


def test_a_broker_that_is_away_costs_nothing_but_time(house: House, rung: Rung) -> None:
    rung.broken = True
    assert delivered(house, OPENED).status_code == 202
    house.intake.close()
    assert house.intake.unheard == 1
    assert len(upkeep.waiting(house.store)) == 1


def test_a_delivery_that_cannot_be_stored_is_not_accepted(house: House) -> None:
    from bot.tables import Base

    Base.metadata.drop_all(house.store.engine)
    answer = delivered(house, OPENED)
    assert answer.status_code == 503
    assert sent(house, lambda c: c.get("/readyz")).status_code == 503
    assert sent(house, lambda c: c.get("/healthz")).status_code == 200


def test_bells_for_what_was_superseded_meanwhile_are_not_rung(house: House, rung: Rung) -> None:
    pushes = [
        events.pull_request("synchronize", head=f"{n:040x}", at=f"2026-01-01T00:00:{n:02d}Z")
        for n in range(30)
    ]
    rung.busy.clear()
    for number, push in enumerate(pushes):
        answer = delivered(house, json.dumps(push).encode(), X_GitHub_Delivery=f"push-{number}")
        assert answer.status_code == 202
    rung.busy.set()
    house.intake.close()
    assert upkeep.counts(house.store) == {("review", "queued"): 1, ("review", "dropped"): 29}
    (newest,) = upkeep.waiting(house.store)
    assert len(rung.bells) <= 2  # one may have been in hand already
    assert rung.bells[-1] == newest


def test_an_answer_is_sent_without_waiting_for_an_acknowledgement() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_flood_is_stored_in_few_transactions_and_answered_one_by_one(house: House) -> None:
    async def flood(client: httpx.AsyncClient) -> httpx.Response:
        def one(number: int) -> Awaitable[httpx.Response]:
            body = json.dumps(events.pull_request("opened", number)).encode()
            sum_ = "sha256=" + hmac.new(SECRETS[0], body, hashlib.sha256).hexdigest()
            headers = {
                "X-GitHub-Event": "pull_request",
                "X-GitHub-Delivery": f"flood-{number}",
                "X-Hub-Signature-256": sum_,
                "Content-Type": "application/json",
            }
            return client.post("/webhooks/github", content=body, headers=headers)

        answers = await asyncio.gather(*(one(number) for number in range(1, 201)))
        assert {answer.status_code for answer in answers} == {202}
        return answers[0]

    sent(house, flood)
    assert upkeep.counts(house.store) == {("review", "queued"): 200}


def test_readiness_wants_workers_and_metrics_tell_of_jobs(house: House) -> None:
    assert sent(house, lambda c: c.get("/readyz")).text == "ready"
    lonely = House(house.store, house.intake, SECRETS, workers_alive=lambda: False)
    assert sent(lonely, lambda c: c.get("/readyz")).text == "no worker is running"

    async def both(client: httpx.AsyncClient) -> httpx.Response:
        sum_ = "sha256=" + hmac.new(SECRETS[0], OPENED, hashlib.sha256).hexdigest()
        headers = {
            "X-GitHub-Event": "pull_request",
            "X-GitHub-Delivery": "d",
            "X-Hub-Signature-256": sum_,
            "Content-Type": "application/json",
        }
        await client.post("/webhooks/github", content=OPENED, headers=headers)
        await client.post("/webhooks/github", content=b"", headers={"X-GitHub-Event": "odd\x7f"})
        return await client.get("/metrics")

    text = sent(house, both).text
    assert 'hostside_jobs{kind="review",state="queued"} 1.0' in text
    assert 'hostside_deliveries_total{answer="accepted",event="pull_request"} 1.0' in text
    assert 'hostside_deliveries_total{answer="401",event="other"} 1.0' in text
    assert "hostside_oldest_queued_seconds" in text
    (bell,) = upkeep.waiting(house.store)
    job = house.store.claim(bell.job)
    assert job is not None
    house.store.finish(job, State.DONE, "")


def test_a_log_line_names_the_delivery_and_no_secret(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        delivered(house, OPENED)
    line = next(record for record in caplog.records if record.name == "bot.app")
    with about(delivery="11111111-aaaa"):
        text = JsonLines().format(line)
    shown = json.loads(text)
    assert shown["message"] == "delivery accepted"
    assert shown["jobs"] == [f"review:acme/train#1@{events.HEAD}"]
    assert shown["delivery"] == "11111111-aaaa"


@pytest.mark.parametrize(
    "text",
    [
        "token ghs_12345_eyJhbGciOi.J9.abc here",
        "Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiI3In0.c2ln",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----",
        "postgresql://hostside:hunter2@db/x",
        "github_pat_11ABC_def",
    ],
    ids=["installation token", "signed token", "key", "address with a password", "own token"],
)
def test_what_looks_like_a_credential_never_reaches_the_log(
    caplog: pytest.LogCaptureFixture, text: str
) -> None:
    logger = logging.getLogger("bot.test")
    with caplog.at_level(logging.INFO):
        say(logger, text, detail=text)
        try:
            raise ValueError(text)
        except ValueError:
            logger.exception("it failed")
    lines = " ".join(JsonLines().format(record) for record in caplog.records)
    assert "[secret]" in lines
    for word in ("ghs_", "eyJ", "MIIE", "hunter2", "github_pat_"):
        assert word not in lines
