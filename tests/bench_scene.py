"""A pull request on the stand-in with the App's jobs done in this process, and a machine by hand.

What people do is delivered at once and its jobs are done when the test says `settle`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bot import upkeep
from bot.bench_work import BenchState, Leased, Quota, RunnerState
from bot.benches import Benches
from bot.dispatch import Office, work_on
from bot.handlers import Event, work
from bot.payloads import parse
from bot.pool import run_here
from bot.store import Store, Terms
from bot.work import Delivery, State
from tests.github_scene import HEAD, Scene, scene
from tests.standin.model import Delivery as Delivered
from tests.standin.model import IssueComment, LineComment


@dataclass
class BenchScene:
    """The App beside a stand-in, one step at a time."""

    github: Scene
    store: Store
    quota: Quota = field(default_factory=Quota)
    pages: str = ""
    bots: tuple[int, ...] = ()  # that the operator lists
    held_back: list[Callable[[], None]] = field(default_factory=list)
    on_time: bool = True  # False: webhooks are held back until `catch_up`

    @property
    def benches(self) -> Benches:
        return Benches(self.store)

    @property
    def office(self) -> Office:
        client = self.github.client()
        return Office(
            self.store, lambda _: client, lambda _: None, run_here, self.quota, self.pages
        )

    def receive(self, delivery: Delivered) -> int:
        """What the webhook's route does with a delivery."""
        payload = parse(delivery.event, delivery.body)
        todo = work(Event(delivery.guid, delivery.event, payload, self.bots))
        made = Delivery(delivery.guid, delivery.event, payload.action, todo)
        if self.on_time:
            self.store.accept([made])
        else:
            self.held_back.append(lambda: self.store.accept([made]) and None)
        return 202

    def fresh(self, reviewed: bool = False, **options: object) -> None:
        """Go on with another pull request, which the App knows and perhaps has reviewed."""
        github = self.github
        files = dict(options.pop("files", {"train.py": HEAD}))  # type: ignore[call-overload]
        number = 1 + len(github.world.pulls)
        github.pull = github.world.open_pull(github.repo, files, branch=f"b{number}", **options)
        for bell in () if reviewed else upkeep.waiting(self.store):
            job = self.store.claim(bell.job)
            assert job is not None
            self.store.finish(job, State.DONE, "left out by the test")
        self.settle()

    def catch_up(self) -> None:
        """Deliver what was held back."""
        self.on_time = True
        for each in self.held_back:
            each()

    def settle(self) -> None:
        """Do every job that waits, and those that follow from it."""
        office = self.office
        for _ in range(50):
            bells = {bell.job for bell in (*upkeep.due(self.store), *upkeep.waiting(self.store))}
            if not bells:
                return
            for job in sorted(bells):
                work_on(office, job)
        raise AssertionError("the jobs do not come to an end")

    def say(self, body: str, login: str = "lead") -> IssueComment:
        """Somebody writes into the conversation, and it is looked at."""
        made = self.github.world.say(self.github.pull, login, body)
        self.settle()
        return made

    def connect(self, *labels: str, name: str = "box") -> None:
        """A machine reports that it is there."""
        self.benches.seen(RunnerState(name, labels, "NVIDIA H200", time.time()))

    def claim(self, *labels: str, name: str = "box") -> Leased:
        """A machine takes the oldest benchmark."""
        leased = self.benches.claim(name, labels)
        assert leased is not None
        return leased

    # What is to be seen

    @property
    def ours(self) -> list[IssueComment]:
        """The App's comments in the conversation."""
        world = self.github.world
        return [c for c in world.conversation(self.github.pull) if c.user is world.bot]

    @property
    def replies(self) -> list[str]:
        """The App's answers, without its sticky comments."""
        return [c.body for c in self.ours if "<!-- hostside:reply:" in c.body]

    @property
    def sticky(self) -> str:
        """The one comment about benchmarks; empty when there is none."""
        found = [c.body for c in self.ours if c.body.rstrip().endswith("<!-- hostside:bench -->")]
        assert len(found) <= 1
        return found[0] if found else ""

    @property
    def latest(self) -> BenchState:
        """The benchmark that was ordered last."""
        pull = self.github.pull
        return self.benches.history(pull.repo.full_name, pull.number, most=1)[0]

    @property
    def orders(self) -> int:
        """How many benchmarks of this pull request were ordered."""
        pull = self.github.pull
        return len(self.benches.history(pull.repo.full_name, pull.number))


def reactions(comment: IssueComment | LineComment) -> list[str]:
    """How the App reacted to a comment, in that order."""
    return [reaction.content for reaction in comment.reactions]


@contextmanager
def bench_scene(
    directory: Path,
    base: dict[str, str | bytes | None] | None = None,
    head: dict[str, str | bytes | None] | None = None,
    **options: object,
) -> Iterator[BenchScene]:
    """An open pull request that the App has reviewed."""
    store = Store(f"sqlite:///{directory / 'hostside.db'}", Terms(60, 3, 0.001))
    with scene(directory, base, head, **options) as github:
        made = BenchScene(github, store)
        github.world.deliver = made.receive
        github.world.emit(github.pull, "pull_request", "opened")
        made.settle()
        try:
            yield made
        finally:
            github.world.deliver = None
            store.close()
