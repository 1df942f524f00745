from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bot import upkeep, wishes
from bot.store import Store, Terms
from bot.work import Delivery, Drop, Job, JobSpec, Kind, State, Work

SPEC = JobSpec("review:o/r#1@a", Kind.REVIEW, "o/r", 1, 5, {"head": "a"}, "2026-01-01T00:00:01Z")
NEWER = replace(SPEC, key="review:o/r#1@b", arguments={"head": "b"}, stamp="2026-01-01T00:00:02Z")
OTHER = replace(SPEC, key="review:o/r#2@c", number=2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    # The same tests hold on PostgreSQL: HOSTSIDE_TEST_DATABASE_URL names an empty database.
    url = os.environ.get("HOSTSIDE_TEST_DATABASE_URL") or f"sqlite:///{tmp_path / 'jobs.db'}"
    opened = Store(url, Terms(lease_seconds=60, max_attempts=2, retry_seconds=0.01))
    yield opened
    if not url.startswith("sqlite"):
        from bot.tables import Base

        Base.metadata.drop_all(opened.engine)
    opened.close()


def delivery(name: str, *jobs: JobSpec, drops: tuple[Drop, ...] = ()) -> Delivery:
    return Delivery(name, "pull_request", "opened", Work(jobs, drops))


def queued(store: Store, *specs: JobSpec, name: str = "d1") -> list[int]:
    (bells,) = store.accept([delivery(name, *specs)])
    return [bell.job for bell in bells]


def claimed(store: Store, number: int) -> Job:
    job = store.claim(number)
    assert job is not None
    return job


def states(store: Store) -> dict[str, int]:
    return {state: number for (_, state), number in upkeep.counts(store).items()}


def expire(store: Store, job: Job) -> None:
    """Let the job's lease run out."""
    from sqlalchemy import update

    from bot.tables import JobRow

    with store.engine.begin() as connection:
        connection.execute(update(JobRow).where(JobRow.id == job.id).values(lease_until=1.0))


def test_a_delivery_is_stored_with_its_jobs_and_rings_once(store: Store) -> None:
    (number,) = queued(store, SPEC)
    job = claimed(store, number)
    assert (job.subject, job.arguments, job.attempts) == ("o/r#1", {"head": "a"}, 1)
    assert store.claim(number) is None
    assert store.finish(job, State.DONE, "reviewed") == ()
    assert states(store) == {"done": 1}


def test_a_redelivery_repeats_nothing_that_is_done(store: Store) -> None:
    (number,) = queued(store, SPEC)
    store.finish(claimed(store, number), State.DONE, "reviewed")
    assert queued(store, SPEC) == []
    assert states(store) == {"done": 1}


@pytest.mark.parametrize("parked", [False, True], ids=["never started", "given up"])
def test_a_redelivery_finishes_what_was_never_finished(store: Store, parked: bool) -> None:
    (number,) = queued(store, SPEC)
    if parked:
        store.finish(claimed(store, number), State.PARKED, "GitHub was away")
        assert [p.outcome for p in upkeep.parked(store)] == ["GitHub was away"]
    assert queued(store, SPEC) == [number]
    assert claimed(store, number).attempts == 1


def test_the_same_head_by_another_delivery_is_the_same_job(store: Store) -> None:
    (number,) = queued(store, SPEC)
    assert queued(store, SPEC, name="d2") == []
    store.finish(claimed(store, number), State.DONE, "reviewed")
    assert queued(store, SPEC, name="d3") == []


def test_a_head_that_comes_back_is_reviewed_again_and_a_redelivery_is_not(store: Store) -> None:
    push = replace(SPEC, anew=True)
    (number,) = queued(store, push)
    store.finish(claimed(store, number), State.DONE, "reviewed")
    assert queued(store, push) == []
    assert queued(store, SPEC, name="edited") == []
    assert queued(store, push, name="forced back") == [number]
    store.finish(claimed(store, number), State.DONE, "reviewed")
    assert states(store) == {"done": 1}


def test_a_dropped_job_is_revived_by_a_new_delivery(store: Store) -> None:
    (number,) = queued(store, SPEC)
    store.finish(claimed(store, number), State.DROPPED, "a draft")
    assert queued(store, SPEC, name="d2") == [number]


@pytest.mark.parametrize("end", [State.DROPPED, State.PARKED])
def test_a_job_asked_for_again_while_it_ends_without_a_review_runs_again(
    store: Store, end: State
) -> None:
    (number,) = queued(store, SPEC)
    job = claimed(store, number)
    assert queued(store, SPEC, name="ready for review") == []
    bells = store.finish(job, end, "a draft")
    assert [bell.job for bell in bells] == [number]
    store.finish(claimed(store, number), State.DONE, "reviewed")
    assert states(store) == {"done": 1}


@pytest.mark.parametrize("state", ["queued", "running", "dropped"])
def test_a_job_goes_to_the_installation_that_asked_last(store: Store, state: str) -> None:
    (number,) = queued(store, SPEC)
    if state == "dropped":
        store.finish(claimed(store, number), State.DROPPED, "the App was removed")
    job = claimed(store, number) if state == "running" else None
    queued(store, replace(SPEC, installation=6, stamp=NEWER.stamp), name="installed anew")
    queued(store, SPEC, name="late word of the old one")
    if job:
        store.finish(job, State.DROPPED, "the App is no longer installed there")
    assert claimed(store, number).installation == 6


def test_a_late_push_drops_no_newer_head_that_failed_and_waits(store: Store) -> None:
    (number,) = queued(store, SPEC)
    job = claimed(store, number)
    back = replace(SPEC, anew=True, stamp="2026-01-01T00:00:03Z")
    queued(store, back, name="forced back")
    store.retry(job, "GitHub was away")
    late = Drop("superseded", 5, "o/r", 1, NEWER.stamp)
    store.accept([delivery("between", NEWER, drops=(late,))])
    assert states(store) == {"queued": 2}


def test_a_newer_push_drops_what_waits_for_an_older_head_but_never_the_other_way(
    store: Store,
) -> None:
    queued(store, SPEC)
    drop = Drop("superseded", 5, "o/r", 1, NEWER.stamp)
    store.accept([delivery("d2", NEWER, drops=(drop,))])
    assert states(store) == {"dropped": 1, "queued": 1}
    late = Drop("superseded", 5, "o/r", 1, SPEC.stamp)
    store.accept([delivery("d0", drops=(late,))])
    assert states(store) == {"dropped": 1, "queued": 1}


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "in one transaction"])
def test_a_later_word_on_the_same_head_does_not_drop_what_waits_for_it(
    store: Store, together: bool
) -> None:
    later = replace(SPEC, stamp=NEWER.stamp)
    both = [
        delivery("ready", later, drops=(Drop("superseded", 5, "o/r", 1, later.stamp),)),
        delivery("opened", SPEC, drops=(Drop("superseded", 5, "o/r", 1, SPEC.stamp),)),
    ]
    if together:
        store.accept(both)
    else:
        store.accept(both[1:])
        store.accept(both[:1])
    assert states(store) == {"queued": 1}


def test_a_removed_installation_drops_all_it_waits_for(store: Store) -> None:
    queued(store, SPEC, OTHER, replace(OTHER, key="x", repo="o/s", installation=6))
    store.accept([delivery("d2", drops=(Drop("installation removed", 5),))])
    assert states(store) == {"dropped": 2, "queued": 1}


def test_two_jobs_of_one_pull_request_never_run_at_once(store: Store) -> None:
    first, second, other = queued(store, SPEC, NEWER, OTHER)
    job = claimed(store, first)
    assert store.claim(second) is None
    assert store.claim(other) is not None
    assert [bell.job for bell in store.finish(job, State.DONE, "")] == [second]
    assert store.claim(second) is not None


def test_eight_workers_that_hear_the_same_bell_do_the_job_once(store: Store) -> None:
    numbers = queued(store, SPEC, *(replace(OTHER, key=str(n), number=n) for n in range(2, 12)))
    with ThreadPoolExecutor(8) as pool:
        got = [job for job in pool.map(store.claim, numbers * 8) if job]
    assert sorted(job.id for job in got) == numbers


def test_a_lease_that_ran_out_comes_back_and_its_old_holder_can_change_nothing(
    store: Store,
) -> None:
    (number,) = queued(store, SPEC)
    lost = claimed(store, number)
    assert store.renew(lost)
    assert upkeep.due(store) == ()
    expire(store, lost)
    assert [bell.job for bell in upkeep.due(store)] == [number]
    again = claimed(store, number)
    assert again.attempts == 2
    assert not store.renew(lost)
    store.finish(lost, State.DONE, "by a dead worker")
    assert states(store) == {"running": 1}
    store.finish(again, State.DONE, "")
    assert states(store) == {"done": 1}


def test_a_job_that_kills_its_worker_is_parked_and_can_be_run_again(store: Store) -> None:
    (number,) = queued(store, SPEC)
    for _ in range(2):
        expire(store, claimed(store, number))
        upkeep.due(store)
    assert store.claim(number) is None
    (parked,) = upkeep.parked(store)
    assert (parked.key, parked.outcome) == (SPEC.key, "its worker died or hung 2 times")
    assert [bell.job for bell in upkeep.rerun(store, [number])] == [number]
    assert [bell.job for bell in upkeep.due(store)] == [number]
    assert claimed(store, number).attempts == 1


def test_a_failed_attempt_waits_and_is_parked_when_it_was_the_last(store: Store) -> None:
    (number,) = queued(store, SPEC)
    store.retry(claimed(store, number), "502 from GitHub", after=0.2)
    assert store.claim(number) is None
    assert upkeep.due(store) == ()
    time.sleep(0.25)
    assert [bell.job for bell in upkeep.due(store)] == [number]
    store.retry(claimed(store, number), "502 again")
    assert [p.outcome for p in upkeep.parked(store)] == ["502 again"]


def test_pauses_double_and_are_spread_so_that_what_failed_together_comes_back_apart(
    tmp_path: Path,
) -> None:
    from sqlalchemy import select, update

    from bot.tables import JobRow

    store = Store(f"sqlite:///{tmp_path / 'jobs.db'}", Terms(60, 9, retry_seconds=100))
    pauses: dict[int, list[float]] = {1: [], 2: []}
    for number in queued(store, SPEC, OTHER):
        for _ in range(3):
            job = store.claim(number)
            assert job is not None
            store.retry(job, "502")
            with store.engine.begin() as connection:
                later = connection.execute(select(JobRow.not_before).where(JobRow.id == number))
                pauses[number].append(later.scalar_one() - time.time())
                connection.execute(update(JobRow).values(not_before=0.0))
    store.close()
    for waits in pauses.values():
        assert all(75 <= wait / 2**turn <= 125 for turn, wait in enumerate(waits))
    assert pauses[1] != pauses[2]


def test_a_bell_that_nobody_heard_is_rung_again_ever_more_rarely(store: Store) -> None:
    from sqlalchemy import select, update

    from bot.tables import JobRow

    (number,) = queued(store, SPEC)
    assert upkeep.due(store) == ()
    assert [bell.job for bell in upkeep.waiting(store)] == [number]
    pauses: list[float] = []
    for _ in range(3):
        with store.engine.begin() as connection:
            connection.execute(update(JobRow).values(ring_at=1.0))
        assert [bell.job for bell in upkeep.due(store)] == [number]
        with store.read() as connection:
            pauses.append(connection.execute(select(JobRow.ring_at)).scalar_one() - time.time())
    assert [round(pause, -1) for pause in pauses] == [60, 120, 240]


def test_an_answer_of_the_store_survives_its_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    first = Store(url)
    (number,) = queued(first, SPEC)
    first.close()
    second = Store(url)
    assert [bell.job for bell in upkeep.waiting(second)] == [number]
    second.close()


def test_what_is_over_is_forgotten_and_what_is_not_is_kept(store: Store) -> None:
    first, _ = queued(store, SPEC, OTHER)
    store.finish(claimed(store, first), State.DONE, "")
    upkeep.purge(store, time.time() + 1)
    assert states(store) == {"queued": 1}


def test_pauses_and_ignored_rules_are_kept_for_each_pull_request(store: Store) -> None:
    wishes.pause(store, "o/r", 1, "ada")
    wishes.pause(store, "o/r", 1, "bob")
    assert wishes.paused_by(store, "o/r", 1) == "ada"
    assert wishes.paused_by(store, "o/r", 2) == ""
    assert wishes.resume(store, "o/r", 1)
    assert not wishes.resume(store, "o/r", 1)
    wishes.ignore(store, "o/r", 1, "GPU105", "once", by="ada")
    wishes.ignore(store, "o/r", 1, "GPU105", "twice", by="ada")
    assert wishes.ignored(store, "o/r", 1) == {"GPU105"}
    assert wishes.ignored(store, "o/r", 2) == frozenset()
