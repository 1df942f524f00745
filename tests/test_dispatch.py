from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot import upkeep, wishes
from bot.config import OWN_FILE, Reader
from bot.diff import Change, ChangedFile, Hunk
from bot.dispatch import Office, work_on
from bot.errors import BotError
from bot.github_errors import (
    DeniedError,
    GitHubError,
    GoneError,
    SupersededError,
    TryAgainError,
    UnsureError,
)
from bot.pool import run_here
from bot.pulls import Earlier, Plan, Posted, Pull, PullRef
from bot.store import Store, Terms
from bot.work import Bell, Delivery, JobSpec, Kind, Work

HEAD, NEXT, BASE = "a" * 40, "c" * 40, "b" * 40
TEXT = b"import torch\n\ndef f(xs):\n    return torch.zeros(3).cuda()\n"
HUNK = Hunk(0, 1, (), tuple(TEXT.decode().splitlines(True)), frozenset(range(1, 5)), frozenset())
CLEAN = ChangedFile("a.py", Change.ADDED, (replace(HUNK, after=("x = 1\n",)),), b"x = 1\n")
FAULTY = ChangedFile("a.py", Change.ADDED, (HUNK,), TEXT)


@dataclass
class Talk:
    """A pull request without GitHub: what is said is kept, and what is to go wrong goes wrong."""

    head: str = HEAD
    open: bool = True
    draft: bool = False
    title: str = "Faster"
    labels: tuple[str, ...] = ()
    files: tuple[ChangedFile, ...] = (FAULTY,)
    config: str = ""
    roles: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, BotError | Exception] = field(default_factory=dict)  # method -> what it raises
    plans: list[Plan] = field(default_factory=list)
    replies: dict[str, str] = field(default_factory=dict)
    stickies: dict[str, str] = field(default_factory=dict)
    reactions: list[str] = field(default_factory=list)

    def _maybe(self, method: str) -> None:
        if method in self.wrong:
            raise self.wrong[method]

    def pull(self, ref: PullRef) -> Pull:
        self._maybe("pull")
        now = ref.at(self.head, BASE)
        return Pull(now, self.title, "dev", self.open, self.draft, self.labels, "main", "faster")

    def changed_files(self, ref: PullRef) -> tuple[ChangedFile, ...]:
        self._maybe("changed_files")
        return self.files

    def reader(self, ref: PullRef) -> Reader:
        return {OWN_FILE: self.config or None}.get

    def earlier(self, ref: PullRef) -> Earlier:
        self._maybe("earlier")
        return Earlier()

    def post(self, ref: PullRef, plan: Plan) -> Posted:
        self._maybe("post")
        self.plans.append(plan)
        return Posted(comments=len(plan.comments))

    def start_check(self, ref: PullRef) -> int:
        return 1

    def reply(self, ref: PullRef, body: str, key: str) -> int:
        self._maybe("reply")
        self.replies[key] = body
        return 1

    def merge_base(self, ref: PullRef) -> str:
        return ref.base_sha

    def sticky(self, ref: PullRef, body: str, name: str) -> int:
        self.stickies[name] = body
        return 1

    def finding(self, ref: PullRef, comment: int) -> str:
        return ""

    def react(self, ref: PullRef, comment: int, content: str, on_line: bool = False) -> None:
        self._maybe("react")
        self.reactions.append(content)

    def permission(self, ref: PullRef, login: str) -> str:
        return self.roles.get(login, "none")

    def close(self) -> None:
        pass


@dataclass
class Bench:
    """A job table, a pull request, and a worker between them."""

    store: Store
    talk: Talk
    rung: list[Bell] = field(default_factory=list)

    def queue(self, spec: JobSpec) -> int:
        (bells,) = self.store.accept([Delivery(f"d-{spec.key}", "x", "y", Work((spec,)))])
        return bells[0].job

    def work(self, number: int) -> tuple[str, str]:
        """Do the job once; its state and the words for it."""
        work_on(Office(self.store, lambda _: self.talk, self.rung.append, run_here), number)
        return self.state(number)

    def state(self, number: int) -> tuple[str, str]:
        from sqlalchemy import select

        from bot.tables import JobRow

        with self.store.read() as connection:
            row = connection.execute(
                select(JobRow.state, JobRow.outcome).where(JobRow.id == number)
            ).one()
        return row[0], row[1]

    def review(self) -> tuple[str, str]:
        return self.work(self.queue(REVIEW))

    def command(self, *lines: str, author: str = "ada") -> tuple[str, str]:
        arguments = {"lines": list(lines), "author": author, "comment": 7, "on_line": False}
        spec = replace(REVIEW, key=f"c:{lines}", kind=Kind.COMMAND, arguments=arguments)
        return self.work(self.queue(spec))


REVIEW = JobSpec("review:o/r#1@a", Kind.REVIEW, "o/r", 1, 5, {"head_sha": HEAD, "base_sha": BASE})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    store = Store(f"sqlite:///{tmp_path / 'jobs.db'}", Terms(60, 2, 0.001))
    yield Bench(store, Talk(roles={"ada": "write", "eve": "read"}))
    store.close()


def test_a_review_is_posted_and_remembered(bench: Bench) -> None:
    state, outcome = bench.review()
    assert state == "done"
    assert "1 findings" in outcome
    (plan,) = bench.talk.plans
    assert [comment.path for comment in plan.comments] == ["a.py"]
    assert plan.check is not None


@pytest.mark.parametrize(
    ("talk", "reason"),
    [
        pytest.param({"open": False}, "the pull request is closed", id="closed"),
        pytest.param({"draft": True}, "a draft", id="draft"),
        pytest.param(
            {"labels": ("No GPU review",), "config": "skip-labels = ['no gpu*']"},
            "the configuration leaves it alone for its label",
            id="label",
        ),
        pytest.param(
            {"title": "[WIP] x", "config": "skip-titles = ['[wip]*']"},
            "the configuration leaves it alone for its title",
            id="title",
        ),
        pytest.param(
            {"config": "skip-authors = ['DEV']"},
            "the configuration leaves it alone for its author",
            id="author",
        ),
        pytest.param(
            {"config": "skip-branches = ['release/*', 'faster']"},
            "the configuration leaves it alone for its branch",
            id="branch",
        ),
    ],
)
def test_there_are_reasons_to_leave_a_pull_request_alone(
    bench: Bench, talk: dict[str, object], reason: str
) -> None:
    bench.talk = replace(bench.talk, **talk)
    assert bench.review() == ("dropped", reason)
    assert bench.talk.plans == []


def test_a_draft_is_reviewed_where_the_configuration_wants_it(bench: Bench) -> None:
    bench.talk.draft, bench.talk.config = True, "review-drafts = true"
    assert bench.review()[0] == "done"


def test_a_repository_may_do_without_the_check(bench: Bench) -> None:
    bench.talk.config = "check-run = false"
    assert bench.review()[0] == "done"
    assert bench.talk.plans[0].check is None


def test_a_paused_pull_request_is_left_alone_until_it_is_resumed(bench: Bench) -> None:
    assert bench.command("/hostside pause")[0] == "done"
    assert bench.review() == ("dropped", "paused by ada")
    assert bench.command("/hostside resume")[0] == "done"
    assert len(bench.talk.plans) == 1
    assert bench.talk.reactions == ["eyes", "+1"] * 2


def test_a_review_of_a_head_that_moved_is_dropped_and_the_present_one_queued(
    bench: Bench,
) -> None:
    bench.talk.head = NEXT
    state, outcome = bench.review()
    assert (state, bench.talk.plans) == ("dropped", [])
    assert "moved" in outcome
    (bell,) = bench.rung
    assert bench.work(bell.job)[0] == "done"


def test_a_head_that_moves_while_it_is_analysed_is_not_posted(bench: Bench) -> None:
    bench.talk.wrong["post"] = SupersededError("moved")
    assert bench.review() == ("dropped", "moved")
    assert bench.rung == []  # its own delivery is under way, and the head was still ours


@pytest.mark.parametrize(
    ("problem", "method", "state"),
    [
        pytest.param(TryAgainError("502", 502), "pull", "queued", id="an outage"),
        pytest.param(UnsureError("no answer"), "post", "queued", id="a lost answer"),
        pytest.param(TryAgainError("limit", 403, 60), "post", "queued", id="a limit"),
        pytest.param(RuntimeError("secret"), "earlier", "queued", id="our own fault"),
        pytest.param(GoneError("gone", 404), "pull", "dropped", id="gone"),
        pytest.param(DeniedError("denied", 403), "post", "parked", id="a missing permission"),
        pytest.param(GitHubError("odd", 422), "post", "parked", id="a refusal"),
    ],
)
def test_what_goes_wrong_decides_what_becomes_of_the_job(
    bench: Bench, problem: Exception, method: str, state: str
) -> None:
    bench.talk.wrong[method] = problem
    found, outcome = bench.review()
    assert found == state
    assert "secret" not in outcome


def test_an_outage_that_does_not_end_is_parked_and_explained_on_the_commit(bench: Bench) -> None:
    bench.talk.wrong["earlier"] = TryAgainError("GitHub answered 502", 502)
    number = bench.queue(REVIEW)
    bench.work(number)
    import time

    time.sleep(0.01)
    assert bench.work(number) == ("parked", "GitHub answered 502")
    (plan,) = bench.talk.plans
    assert plan.check is not None
    assert plan.check.conclusion == "neutral"
    assert "GitHub answered 502" in plan.check.summary
    assert plan.comments == ()
    bench.talk.wrong.clear()
    (bell,) = upkeep.rerun(bench.store, [number])
    assert bench.work(bell.job)[0] == "done"


def test_a_worker_that_lost_its_job_posts_nothing(bench: Bench) -> None:
    from sqlalchemy import update

    from bot.tables import JobRow

    number = bench.queue(REVIEW)

    def steal(ref: PullRef) -> Earlier:
        with bench.store.engine.begin() as connection:
            connection.execute(update(JobRow).values(lease="somebody else's"))
        return Earlier()

    bench.talk.earlier = steal  # type: ignore[method-assign]
    assert bench.work(number)[0] == "running"
    assert bench.talk.plans == []


def test_a_broken_configuration_is_answered_with_its_mistake_once(bench: Bench) -> None:
    bench.talk.config = "max-coments = 3"
    assert bench.review()[0] == "done"
    (text,) = bench.talk.replies.values()
    assert "did you mean" in text
    assert "max-comments" in text
    again = replace(REVIEW, key="other")
    assert bench.work(bench.queue(again))[0] == "done"
    assert len(bench.talk.replies) == 1
    assert {plan.check.conclusion for plan in bench.talk.plans if plan.check} == {"neutral"}


def test_an_ignored_rule_is_silent_on_this_pull_request(bench: Bench) -> None:
    assert bench.command("/hostside ignore create-on-cpu-then-move once per run")[0] == "done"
    assert wishes.ignored(bench.store, "o/r", 1) == {"GPU201"}
    assert [plan.comments for plan in bench.talk.plans] == [()]
    assert bench.review()[0] == "done"
    assert [plan.comments for plan in bench.talk.plans] == [(), ()]


@pytest.mark.parametrize(
    ("line", "words", "reaction"),
    [
        pytest.param("/hostside help", "/hostside explain CODE", "+1", id="help"),
        pytest.param("/hostside explain GPU201", "create-on-cpu-then-move", "+1", id="explain"),
        pytest.param("/hostside explain GPU999", "there is no rule", "confused", id="no rule"),
        pytest.param("/hostside reveiw", "no command", "confused", id="unknown word"),
        pytest.param("/hostside ignore GPU999", "there is no rule", "confused", id="ignore what"),
        pytest.param("/gpu-bench", HEAD, "confused", id="a head that may be another"),
        pytest.param("/gpu-bench fast=1", "gpu=LABEL", "confused", id="unknown option"),
        pytest.param("/gpu-bench status", "No benchmark", "+1", id="no benchmark yet"),
    ],
)
def test_a_command_is_answered(bench: Bench, line: str, words: str, reaction: str) -> None:
    assert bench.command(line)[0] == "done"
    (text,) = bench.talk.replies.values()
    assert words in text
    assert bench.talk.reactions == ["eyes", reaction]


@pytest.mark.parametrize("line", ["/hostside review", "/hostside pause", "/gpu-bench"])
def test_who_may_not_write_is_refused_with_the_reason(bench: Bench, line: str) -> None:
    assert bench.command(line, author="eve")[0] == "done"
    (text,) = bench.talk.replies.values()
    assert "needs write access" in text
    assert bench.talk.reactions == ["eyes", "confused"]
    assert bench.talk.plans == []
    assert wishes.paused_by(bench.store, "o/r", 1) == ""


def test_anybody_may_ask_for_help(bench: Bench) -> None:
    assert bench.command("/hostside help", author="eve")[0] == "done"
    assert bench.talk.reactions == ["eyes", "+1"]


def test_a_command_reviews_even_a_draft_and_says_so_when_there_is_nothing_to_review(
    bench: Bench,
) -> None:
    bench.talk.draft = True
    assert bench.command("/hostside review")[0] == "done"
    assert len(bench.talk.plans) == 1
    bench.talk.open = False
    assert bench.command("/hostside review", "/hostside help")[0] == "done"
    assert "Nothing was reviewed: the pull request is closed." in bench.talk.replies.values()


def test_a_command_that_failed_half_way_is_answered_once_when_done_again(bench: Bench) -> None:
    bench.talk.wrong["react"] = TryAgainError("502", 502)
    arguments = {"lines": ["/hostside help"], "author": "ada", "comment": 7}
    number = bench.queue(replace(REVIEW, kind=Kind.COMMAND, key="c", arguments=arguments))
    bench.work(number)
    bench.talk.wrong.clear()
    import time

    time.sleep(0.01)
    assert bench.work(number)[0] == "done"
    assert len(bench.talk.replies) == 1
    assert upkeep.parked(bench.store) == ()
