"""Writes go one after the other, with pauses, and stop when GitHub says so."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.github_calls import failure, said
from bot.github_errors import (
    DeniedError,
    GitHubError,
    GoneError,
    LimitedError,
    TryAgainError,
    UnsureError,
)
from bot.github_turns import Clock, FileTurns, Governor, MemoryTurns, Turns, penalty


@dataclass
class Wrist:
    """A clock that only sleeping moves."""

    time: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(lambda: self.time, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.time += seconds


def governor(wrist: Wrist, turns: Turns | None = None, patience: float = 30.0) -> Governor:
    return Governor(turns or MemoryTurns(), 1.0, patience, wrist.clock())


@pytest.fixture(params=["memory", "files"])
def turns(request: pytest.FixtureRequest, tmp_path: Path) -> Turns:
    return MemoryTurns() if request.param == "memory" else FileTurns(tmp_path)


def test_writes_are_a_second_apart(turns: Turns) -> None:
    wrist = Wrist()
    master = governor(wrist, turns)
    for _ in range(3):
        master.write("k", lambda: None)
    assert wrist.slept == [1.0, 1.0]


def test_a_clock_that_is_set_back_holds_no_write_up(turns: Turns) -> None:
    wrist = Wrist(time=10_000.0)
    one = governor(wrist, turns)
    one.write("me", lambda: None)
    wrist.time -= 7_200
    one.write("me", lambda: wrist.clock().sleep(-3_600))
    one.write("me", lambda: None)
    assert wrist.slept == [1.0, -3_600, 1.0]


def test_another_installation_does_not_wait(turns: Turns) -> None:
    wrist = Wrist()
    master = governor(wrist, turns)
    master.write("one", lambda: None)
    master.write("two", lambda: None)
    assert wrist.slept == []


def test_a_short_pause_is_waited_out_and_the_write_sent_again(turns: Turns) -> None:
    wrist, answers = Wrist(), [LimitedError("slow down", 403, 7.0)]

    def send() -> str:
        if answers:
            raise answers.pop()
        return "done"

    assert governor(wrist, turns).write("k", send) == "done"
    assert wrist.slept == [7.0]


def test_a_long_pause_is_left_to_the_queue_and_binds_the_other_writers(turns: Turns) -> None:
    wrist = Wrist()
    master = governor(wrist, turns)

    def refused() -> None:
        raise LimitedError("slow down", 403, 100.0)

    with pytest.raises(LimitedError) as caught:
        master.write("k", refused)
    assert caught.value.after == 100.0
    wrist.time += 40
    with pytest.raises(LimitedError) as caught:
        governor(wrist, turns).write("k", lambda: pytest.fail("it was sent"))
    assert caught.value.after == 60.0
    wrist.time += 61
    assert governor(wrist, turns).write("k", lambda: "done") == "done"


def test_refusals_that_name_no_time_cost_longer_and_longer_pauses(turns: Turns) -> None:
    wrist, waits = Wrist(), []

    def refused() -> None:
        raise LimitedError("abuse", 422)

    for _ in range(6):
        with pytest.raises(LimitedError) as caught:
            governor(wrist, turns).write("k", refused)
        waits.append(caught.value.after)
        wrist.time += caught.value.after
    assert waits == [60, 120, 240, 480, 900, 900]
    governor(wrist, turns).write("k", lambda: None)
    with pytest.raises(LimitedError) as caught:
        governor(wrist, turns, patience=90).write("k", refused)
    assert penalty(1) == 60


def test_a_failure_also_counts_as_a_write(turns: Turns) -> None:
    wrist = Wrist()
    master = governor(wrist, turns)

    def broken() -> None:
        raise UnsureError("502", 502)

    with pytest.raises(UnsureError):
        master.write("k", broken)
    master.write("k", lambda: None)
    assert wrist.slept == [1.0]


def test_threads_write_one_at_a_time(turns: Turns) -> None:
    inside, most = [0], [0]

    def send() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1

    master = Governor(turns, 0.0)
    threads = [threading.Thread(target=master.write, args=("k", send)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_turn_that_others_keep_is_waited_for_only_so_long(turns: Turns) -> None:
    with turns.take("k", 1.0), pytest.raises(TryAgainError):
        Governor(turns, 0.0, patience=0.1).write("k", lambda: None)


def _write_lines(directory: str, log: str) -> None:
    master = Governor(FileTurns(Path(directory)), gap=0.05)
    for _ in range(3):
        master.write("k", lambda: _note(log))


def _note(log: str) -> None:
    with open(log, "a") as file:
        file.write(f"{time.time()}\n")


def test_processes_share_their_turns(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    arguments = (str(tmp_path / "turns"), str(log))
    workers = [context.Process(target=_write_lines, args=arguments) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    times = [float(line) for line in log.read_text().split()]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(times) == 6
    assert min(gaps) >= 0.049


def test_a_file_cut_off_by_a_crash_is_no_obstacle(tmp_path: Path) -> None:
    turns = FileTurns(tmp_path)
    with turns.take("k", 1.0):
        pass
    next(tmp_path.glob("*.turn")).write_text('{"next": 12')
    with turns.take("k", 1.0) as turn:
        assert turn.next == 0.0


REFUSALS = [
    pytest.param(403, "Resource not accessible by integration", {}, DeniedError, 0, id="denied"),
    pytest.param(401, "Bad credentials", {}, DeniedError, 0, id="bad credentials"),
    pytest.param(403, "This installation has been suspended", {}, GoneError, 0, id="suspended"),
    pytest.param(404, "Not Found", {}, GoneError, 0, id="not found"),
    pytest.param(410, "Gone", {}, GoneError, 0, id="gone"),
    pytest.param(422, "must be part of the diff", {}, GitHubError, 0, id="refused"),
    pytest.param(500, "", {}, UnsureError, 0, id="broken"),
    pytest.param(403, "x", {"retry-after": "30"}, LimitedError, 30, id="retry-after"),
    pytest.param(429, "x", {"retry-after": "5"}, LimitedError, 5, id="429"),
    pytest.param(429, "x", {"retry-after": "0"}, LimitedError, 1, id="retry-after 0"),
    pytest.param(
        403, "API rate limit exceeded",
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1090"}, LimitedError, 90,
        id="nothing left",
    ),
    pytest.param(
        403, "You have exceeded a secondary rate limit", {"x-ratelimit-remaining": "4771"},
        LimitedError, 0, id="secondary with budget left",
    ),
    pytest.param(422, "was submitted too quickly", {}, LimitedError, 0, id="422 too quickly"),
    pytest.param(422, "Validation Failed; abuse", {}, LimitedError, 0, id="422 abuse"),
    pytest.param(403, "rate limit", {"retry-after": "soon"}, LimitedError, 0, id="no number"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message", "headers", "kind", "after"), REFUSALS)
def test_a_refusal_is_told_from_a_limit(
    status: int, message: str, headers: dict[str, str], kind: type[GitHubError], after: float
) -> None:
    problem = failure(status, message, headers, now=1000.0)
    assert type(problem) is kind
    assert problem.status == status
    assert getattr(problem, "after", 0) == after


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b'{"message": "No", "errors": ["a", {"code": "abuse"}]}',
                     "No; a; {'code': 'abuse'}", id="a list"),
        pytest.param(b'{"message": "No"}', "No", id="only a message"),
        pytest.param(b"<html>", "no message", id="a page"),
        pytest.param(b"[]", "no message", id="a list of nothing"),
    ],
)  # fmt: skip
def test_githubs_own_words_are_kept(content: bytes, words: str) -> None:
    assert said(content) == words
