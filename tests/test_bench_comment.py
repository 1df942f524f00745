"""`/gpu-bench` on the stand-in, from a comment to what stands on the pull request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from test_bench_report import made

from bot import upkeep
from bot.bench_work import Progress, Quota, Stage
from bot.jobs import CLOSED, PUSHED
from bot.pulls import PullRef
from bot.tables import JobRow
from bot.work import Kind, State
from tests.bench_scene import BenchScene, bench_scene, reactions
from tests.github_scene import BASE, CLEAN, HEAD
from tests.standin.webhooks import redeliver

QUICK = "/gpu-bench suggestion=none"  # needs no second review


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchScene]:
    with bench_scene(tmp_path_factory.mktemp("bench")) as made:
        made.github.world.user("reader")
        made.github.repo.roles["reader"] = "read"
        yield made


@pytest.fixture
def bench(opened: BenchScene) -> Iterator[BenchScene]:
    opened.quota = Quota()
    opened.fresh()  # only what needs its review has one made
    yield opened
    pull = opened.github.pull
    opened.benches.cancel_of(pull.repo.full_name, pull.number, "the test is over")
    opened.settle()


def test_a_comment_is_seen_queued_measured_and_ended_in_one_comment(bench: BenchScene) -> None:
    asked = bench.say("Is it worth it?\n\n/gpu-bench")
    assert reactions(asked) == ["eyes"]
    assert "queued, position 1" in bench.sticky
    assert "No GPU runner is connected at present" in bench.sticky
    order, pull = bench.latest.order, bench.github.pull
    assert (order.head_sha, order.base_sha) == (pull.head_sha, pull.base_sha)
    assert (order.suggestion, len(order.fingerprints)) == ("all 2 one-click suggestions", 2)
    bench.connect()
    leased = bench.claim()
    bench.settle()
    assert "preparing on `box`" in bench.sticky
    assert bench.benches.beat(leased.bench.id, leased.lease, Progress(3, 40, "round 1", 100.0))
    bench.settle()
    assert "running on `box`" in bench.sticky
    assert "3 of at most 40 processes have run; about 2 min left." in bench.sticky
    bench.benches.give_up(leased.bench.id, leased.lease, "no benchmark here; add `gpu_bench/x.py`")
    bench.settle()
    assert "### GPU benchmark: failed" in bench.sticky
    assert "No benchmark here; add `gpu_bench/x.py`." in bench.sticky
    assert reactions(asked) == ["eyes", "confused"]
    assert bench.replies == []


# --- who may, and what counts


@pytest.mark.parametrize(
    "login", [pytest.param("reader", id="a reader"), pytest.param("stranger", id="a stranger")]
)
def test_who_may_not_write_gets_a_sentence_and_no_benchmark(bench: BenchScene, login: str) -> None:
    asked = bench.say("/gpu-bench", login)
    assert bench.orders == 0
    assert "needs write access" in bench.replies[0]
    assert reactions(asked) == ["eyes", "confused"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("> /gpu-bench\n\nWhy?", id="quoted"),
        pytest.param("```\n/gpu-bench\n```", id="in a code block"),
        pytest.param("Please /gpu-bench", id="in a sentence"),
    ],
)
def test_what_only_mentions_the_command_is_left_alone(bench: BenchScene, body: str) -> None:
    asked = bench.say(body)
    assert (bench.orders, reactions(asked), bench.replies) == (0, [], [])


def test_an_edited_comment_asks_for_nothing(bench: BenchScene) -> None:
    world = bench.github.world
    asked = bench.say("Thanks.")
    asked.body = "/gpu-bench"
    world.emit(bench.github.pull, "issue_comment", "edited", comment=asked)
    bench.settle()
    assert (bench.orders, reactions(asked)) == (0, [])


def test_a_bot_asks_for_nothing(bench: BenchScene) -> None:
    world = bench.github.world
    robot = world.user("robot[bot]", "Bot")
    bench.github.repo.roles[robot.login] = "admin"
    asked = bench.say("/gpu-bench", robot.login)
    assert (bench.orders, reactions(asked)) == (0, [])


def test_a_bot_that_the_operator_lists_may_ask(bench: BenchScene) -> None:
    robot = bench.github.world.user("helper[bot]", "Bot")
    bench.bots = (robot.id,)
    bench.say(QUICK, robot.login)
    bench.bots = ()
    assert bench.latest.order.author == "helper[bot]"


def test_an_unknown_option_is_answered_with_the_usage(bench: BenchScene) -> None:
    asked = bench.say("/gpu-bench round=5")
    assert "did you mean rounds=?" in bench.replies[0]
    assert "`/gpu-bench status`" in bench.replies[0]
    assert (bench.orders, reactions(asked)) == (0, ["eyes", "confused"])


# --- which commit


def test_a_push_between_the_comment_and_the_look_at_it_is_not_measured(bench: BenchScene) -> None:
    github = bench.github
    before = github.pull.head_sha
    asked = github.world.say(github.pull, "lead", QUICK)
    evil = github.world.push(github.pull, {"train.py": "import os  # evil\n"})
    bench.settle()
    assert bench.orders == 0
    (reply,) = bench.replies
    assert f"A push came in between: the comment was about `{before[:12]}`" in reply
    assert f"    /gpu-bench sha={evil}\n" in reply
    assert f"/pull/{github.pull.number}/files/{evil})" in reply
    assert reactions(asked) == ["eyes", "confused"]


def test_a_push_whose_webhook_is_late_is_not_measured_either(bench: BenchScene) -> None:
    github = bench.github
    bench.on_time = False
    github.world.push(github.pull, {"train.py": "import os  # evil\n"})
    bench.on_time = True
    bench.say(QUICK)
    bench.catch_up()
    assert bench.orders == 0
    assert "a push came in between" in bench.replies[0].lower()


def test_a_push_within_the_same_second_as_the_comment_is_not_measured(bench: BenchScene) -> None:
    github = bench.github
    github.world.push(github.pull, {"train.py": CLEAN})
    moment, clock = github.pull.updated, github.world.moment
    github.world.moment = lambda: moment  # type: ignore[method-assign]
    bench.say(QUICK)
    github.world.moment = clock  # type: ignore[method-assign]
    assert bench.orders == 0
    assert len(bench.replies) == 1


@pytest.mark.parametrize(
    ("command", "orders"),
    [
        pytest.param("/gpu-bench", 0, id="before its suggestions are collected"),
        pytest.param(QUICK, 1, id="after the last look at the head"),
    ],
)
def test_a_push_while_the_comment_is_looked_at_is_not_measured(
    bench: BenchScene, command: str, orders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    github, world = bench.github, bench.github.world
    client = github.client()
    permission = client.permission

    def slow(ref: PullRef, login: str) -> str:
        if github.pull.head_sha == ref.head_sha:
            world.push(github.pull, {"train.py": CLEAN})
        return permission(ref, login)

    monkeypatch.setattr(client, "permission", slow)
    monkeypatch.setattr(github, "client", lambda: client)
    before = github.pull.head_sha
    asked = bench.say(command)
    while upkeep.waiting(bench.store):  # put off for a moment
        bench.settle()
    assert bench.orders == orders
    if orders:
        assert (bench.latest.order.head_sha, bench.latest.problem) == (before, PUSHED)
    else:
        assert "a push came in between" in bench.replies[0].lower()
    assert bench.benches.claim("box") is None
    assert reactions(asked) == ["eyes", "confused"]


def test_a_head_that_no_webhook_told_of_has_to_be_named(bench: BenchScene) -> None:
    github = bench.github
    deliver, github.world.deliver = github.world.deliver, None
    bench.fresh()
    github.world.deliver = deliver
    bench.say(QUICK)
    assert "not known which commit" in bench.replies[0]
    asked = bench.say(f"{QUICK} sha={github.pull.head_sha}")
    assert (bench.orders, reactions(asked)) == (1, ["eyes"])


def test_a_commit_that_is_not_the_head_is_refused(bench: BenchScene) -> None:
    bench.say(f"{QUICK} sha={'d' * 40}")
    assert "`dddddddddddd` is not the head" in bench.replies[0]
    assert bench.orders == 0


def test_a_fork_is_measured_only_at_a_commit_that_a_writer_names(bench: BenchScene) -> None:
    github = bench.github
    fork = github.world.fork(github.repo, "stranger")
    bench.fresh(head_repo=fork, author="stranger")
    bench.say(QUICK)
    assert bench.orders == 0
    (reply,) = bench.replies
    line = f"/gpu-bench sha={github.pull.head_sha}"
    assert "the head is in a fork" in reply.lower()
    assert f"\n    {line}" in reply
    bench.say(f"{line} suggestion=none", "stranger")
    assert bench.orders == 0  # its author may not let it run
    bench.say(f"{line} suggestion=none")
    assert bench.latest.order.head_sha == github.pull.head_sha


def test_a_push_while_it_waits_or_runs_cancels_and_says_so(bench: BenchScene) -> None:
    asked = bench.say(QUICK)
    leased = bench.claim()
    bench.github.world.push(bench.github.pull, {"train.py": CLEAN})
    bench.settle()
    assert bench.latest.problem == PUSHED
    assert "### GPU benchmark: cancelled" in bench.sticky
    assert "A newer push replaced the commit" in bench.sticky
    assert reactions(asked) == ["eyes", "confused"]
    assert not bench.benches.beat(leased.bench.id, leased.lease)


def test_a_push_of_which_no_webhook_tells_cancels_at_the_next_word(bench: BenchScene) -> None:
    bench.say(QUICK)
    bench.on_time = False
    bench.github.world.push(bench.github.pull, {"train.py": CLEAN})
    bench.claim()
    bench.settle()
    assert bench.latest.stage is Stage.CANCELLED
    assert "cancelled" in bench.sticky
    bench.catch_up()


def test_a_closed_pull_request_is_neither_measured_nor_measured_on(bench: BenchScene) -> None:
    bench.say(QUICK)
    bench.github.world.close(bench.github.pull)
    bench.settle()
    assert (bench.latest.stage, bench.latest.problem) == (Stage.CANCELLED, CLOSED)
    bench.say(QUICK)
    assert "The pull request is closed." in bench.replies[0]


# --- one at a time, and not too many


def test_a_doubled_request_is_told_of_the_one_under_way(bench: BenchScene) -> None:
    bench.say(QUICK)
    second = bench.say(QUICK)
    assert bench.orders == 1
    assert "`/gpu-bench cancel`" in bench.replies[0]
    assert reactions(second) == ["eyes", "confused"]


def test_a_redelivered_comment_orders_nothing_again(bench: BenchScene) -> None:
    world = bench.github.world
    bench.say(QUICK)
    first = bench.latest
    delivery = world.deliveries[-1]
    bench.say("/gpu-bench cancel")
    redeliver(world, delivery.id)
    again = replace(delivery, guid="another", id=1)
    world.deliver(again)  # type: ignore[misc]  # GitHub never does, a proxy may
    bench.settle()
    assert bench.orders == 1
    assert bench.latest.id == first.id


def test_cancelling_is_said_and_ends_it(bench: BenchScene) -> None:
    asked = bench.say(QUICK)
    stop = bench.say("/gpu-bench cancel")
    assert reactions(stop) == ["eyes", "+1"]
    assert reactions(asked) == ["eyes", "confused"]
    assert "It was cancelled by lead." in bench.sticky
    again = bench.say("/gpu-bench cancel")
    assert reactions(again) == ["eyes", "confused"]
    assert "No benchmark of this pull request is under way." in bench.replies[0]


def test_the_status_says_where_it_stands_and_numbers_the_suggestions(bench: BenchScene) -> None:
    asked = bench.say("/gpu-bench status")
    assert "No benchmark of this pull request was asked for yet." in bench.replies[0]
    assert "1. `train.py:6` **GPU" in bench.replies[0]
    assert "2. `train.py:11` **GPU" in bench.replies[0]
    assert reactions(asked) == ["eyes", "+1"]
    bench.say(QUICK)
    bench.say("/gpu-bench status")
    assert "queued, position 1" in bench.replies[1]


@pytest.mark.parametrize(
    ("quota", "words"),
    [
        pytest.param(Quota(repository=1), "This repository had its 1", id="of the repository"),
        pytest.param(Quota(repository=0, person=1), "You had your 1", id="of the person"),
    ],
)
def test_a_quota_that_is_used_up_is_named(bench: BenchScene, quota: Quota, words: str) -> None:
    bench.say(QUICK)
    bench.benches.fail(bench.latest.id, "it broke")
    bench.quota = quota
    bench.say(QUICK)
    assert words in bench.replies[0]
    assert bench.orders == 1


def test_the_position_and_an_estimate_are_told(bench: BenchScene) -> None:
    bench.say(QUICK)
    bench.claim()
    bench.connect("h100")
    bench.fresh()
    bench.say(f"{QUICK} gpu=a100")
    assert "queued, position 2" in bench.sticky
    assert "No GPU runner with the label `a100` is connected" in bench.sticky
    assert "connected are `h100`" in bench.sticky
    assert "`hostside gpu-runner --label a100`" in bench.sticky
    bench.connect("a100", name="fast")
    bench.benches.cancel(bench.latest.id, "over")
    bench.say(f"{QUICK} gpu=a100")
    assert "No GPU runner" not in bench.sticky
    for each in bench.benches.history():
        bench.benches.cancel(each.id, "the test is over")


def test_those_behind_move_up_when_one_ends(bench: BenchScene) -> None:
    bench.say(QUICK)
    first, first_pull = bench.latest, bench.github.pull
    bench.fresh()
    bench.say(QUICK)
    assert "queued, position 2" in bench.sticky
    bench.benches.cancel(first.id, "over")
    bench.settle()
    assert "queued, position 1" in bench.sticky
    assert bench.github.pull is not first_pull


def test_the_status_of_a_result_points_to_it(bench: BenchScene) -> None:
    bench.say(QUICK)
    leased = bench.claim()
    assert bench.benches.deliver(leased.bench.id, leased.lease, made().to_json())
    bench.settle()
    bench.say("/gpu-bench status")
    assert "The latest benchmark is done" in bench.replies[0]
    assert "latency" not in bench.replies[0]


# --- the third variant


def test_in_reply_to_a_finding_its_own_suggestion_is_the_third_variant(bench: BenchScene) -> None:
    bench.fresh(reviewed=True)
    github = bench.github
    second = github.comments[1]
    asked = github.world.answer(second, "lead", "/gpu-bench")
    bench.settle()
    order = bench.latest.order
    assert reactions(asked) == ["eyes"]
    assert (order.on_line, order.comment) == (True, asked.id)
    assert order.suggestion == "the suggestion of GPU201 at train.py:11"
    assert len(order.fingerprints) == 1
    assert f"<!-- hostside:{order.fingerprints[0]} -->" in second.body
    assert '+    weight = torch.ones(64, device="cuda")' in order.patch
    assert "zeros" not in order.patch.replace(" ", "").split("@@")[-1].split("-")[1]
    bench.benches.fail(bench.latest.id, "it broke")
    bench.settle()
    assert reactions(asked) == ["eyes", "confused"]


def test_a_push_during_a_review_in_the_making_is_noticed(bench: BenchScene) -> None:
    """A comment of a pending review is delivered when the review is submitted."""
    bench.fresh(reviewed=True)
    github = bench.github
    world = github.world
    deliver, world.deliver = world.deliver, None
    asked = world.answer(github.comments[0], "lead", QUICK)
    world.deliver = deliver
    world.push(github.pull, {"train.py": CLEAN})
    world.emit(github.pull, "pull_request_review_comment", "created", comment=asked)
    bench.settle()
    assert bench.orders == 0
    assert "a push came in between" in bench.replies[0].lower()


@pytest.mark.parametrize(
    ("words", "count"),
    [
        pytest.param("suggestion=all", 2, id="all"),
        pytest.param("suggestion=2", 1, id="the second"),
        pytest.param("suggestion=none", 0, id="none"),
    ],
)
def test_the_suggestions_that_are_asked_for_are_the_third_variant(
    bench: BenchScene, words: str, count: int
) -> None:
    bench.say(f"/gpu-bench {words}")
    order = bench.latest.order
    assert len(order.fingerprints) == count
    assert bool(order.patch) is bool(count)
    assert order.patch.count("+++ b/train.py") == bool(count)


def test_a_suggestion_that_is_not_there_is_said(bench: BenchScene) -> None:
    bench.say("/gpu-bench suggestion=3")
    assert "This head has 2 suggestions, and no number 3" in bench.replies[0]
    bench.fresh(files={"train.py": BASE + "\n\nX = 1\n"})
    bench.say("/gpu-bench suggestion=all")
    assert "no one-click suggestion" in bench.replies[0]
    bench.say("/gpu-bench")
    assert bench.latest.order.suggestion == ""


def test_what_the_head_is_compared_with_is_where_it_left_its_base(bench: BenchScene) -> None:
    pull, repo = bench.github.pull, bench.github.repo
    left = pull.base_sha
    pull.base_sha = repo.git.commit(repo.ref("main"), {"other.py": "x = 1\n"}, parent=left)
    bench.say(QUICK)
    assert bench.latest.order.base_sha == left != pull.base_sha


# --- the button


def test_the_button_measures_the_checked_commit(bench: BenchScene) -> None:
    bench.fresh(reviewed=True)
    github = bench.github
    (check,) = github.world.checks_on(github.pull.head_sha)
    github.world.press(check, "benchmark", "lead")
    bench.settle()
    assert bench.latest.order.head_sha == github.pull.head_sha
    assert bench.latest.order.comment == 0
    assert "queued" in bench.sticky


# --- crashes


def test_a_comment_that_was_written_before_a_crash_is_found_again(bench: BenchScene) -> None:
    world = bench.github.world
    path = f"/issues/{bench.github.pull.number}/comments"
    fault = world.faults.add("drop", method="POST", path=path, after=True)
    asked = bench.say(QUICK)
    world.faults.clear()
    assert fault.seen == 1
    assert "queued" in bench.sticky
    assert reactions(asked) == ["eyes"]


def test_a_command_that_is_done_again_after_a_crash_orders_once(bench: BenchScene) -> None:
    asked = bench.say(QUICK)
    first = bench.latest
    with bench.store.engine.begin() as connection:
        again = update(JobRow).where(
            JobRow.kind == Kind.COMMAND, JobRow.number == first.order.number
        )
        connection.execute(again.values(state=State.QUEUED, attempts=0))
    bench.settle()
    assert (bench.orders, bench.latest) == (1, first)
    assert (reactions(asked), bench.replies) == (["eyes"], [])


def test_somebody_elses_comment_with_our_mark_is_left_alone(bench: BenchScene) -> None:
    world = bench.github.world
    theirs = world.say(bench.github.pull, "stranger", "Mine!\n\n<!-- hostside:bench -->")
    bench.say(QUICK)
    assert theirs.body == "Mine!\n\n<!-- hostside:bench -->"
    assert "queued" in bench.sticky


def test_a_change_that_says_nothing_new_edits_nothing(bench: BenchScene) -> None:
    from bot import bench_say
    from bot.jobs import Desk

    bench.say(QUICK)
    (sticky,) = [c for c in bench.ours if "hostside:bench" in c.body]
    before = list(sticky.edits)
    desk = Desk(bench.github.client(), bench.store)
    bench_say.bring_up_to_date(desk, bench.github.ref, bench.latest.id)
    assert sticky.edits == before


def test_a_configuration_of_the_head_changes_nothing(bench: BenchScene) -> None:
    own = '[bench]\npaths = ["evil.py"]\ngpus = ["evil"]\nsandbox = "none"\n'
    bench.fresh(files={"train.py": HEAD, ".github/hostside.toml": own})
    bench.say(f"{QUICK} gpu=good")
    assert (bench.latest.order.paths, bench.latest.order.gpu) == ((), "good")


def test_the_base_says_where_benchmarks_are_and_which_labels_may_be_named(tmp_path: Path) -> None:
    own = '[bench]\npaths = ["perf"]\ngpus = ["a100"]\nway = "workflow"\nworkflow = "x.yml"\n'
    base = {"train.py": BASE, ".github/hostside.toml": own}
    with bench_scene(tmp_path, base) as made:
        made.say(f"{QUICK} gpu=h100")
        assert "allows gpu= `a100`." in made.replies[0]
        made.say(f"{QUICK} gpu=a100")
        order = made.latest.order
        assert (order.paths, order.way, order.workflow) == (("perf",), "workflow", "x.yml")
        assert "No GPU runner" not in made.sticky
