"""Takes one job from the table, does it, and writes down what became of it.

The only place that decides what a failure means for a job: again later, needless, or given up and
shown. A process that dies here leaves a lease, and the reaper does the rest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bot import answers, bench_dispatch, bench_say, handlers, jobs
from bot.bench_outside import OutsideBenches
from bot.bench_work import Quota
from bot.errors import BotError, ConfigError
from bot.examine import Runner, in_children
from bot.github_actions import Workflows
from bot.github_errors import GoneError, SupersededError, TryAgainError
from bot.heartbeat import Heartbeat
from bot.jobs import Desk, LostError, NeedlessError
from bot.logs import about, redact, say
from bot.pulls import PullClient, PullRef
from bot.store import Store
from bot.work import Bell, Job, JobSpec, Kind, State

log = logging.getLogger(__name__)
Open = Callable[[Job], PullClient]
OpenWorkflows = Callable[[Job], Workflows]
INTERNAL = "an internal error; the service's log has the place"


@dataclass(frozen=True)
class Office:
    """What a worker has besides the job."""

    store: Store
    open_client: Open
    ring: Callable[[Bell], None]
    run: Runner = in_children
    quota: Quota = field(default_factory=Quota)
    pages: str = ""
    open_workflows: OpenWorkflows | None = None

    def desk(self, job: Job, held: Callable[[], bool] = lambda: True) -> Desk:
        """What this job works with."""
        client = self.open_client(job)
        return Desk(client, self.store, held, self.run, self.quota, self.pages)


def work_on(office: Office, number: int) -> None:
    """Do this job, unless somebody did or does."""
    job = office.store.claim(number)
    if job is None:
        return
    started = time.monotonic()
    with about(delivery=job.delivery, job=job.id, key=job.key):
        with Heartbeat(office.store, job) as heart:
            state, outcome, bells = _attempt(office, job, heart)
        say(
            log, "job ended", state=state, outcome=outcome, attempt=job.attempts,
            seconds=round(time.monotonic() - started, 3),
        )  # fmt: skip
        _ring(office, bells)


def _attempt(office: Office, job: Job, heart: Heartbeat) -> tuple[str, str, tuple[Bell, ...]]:
    """The job's new state, the words for it, and who is waiting for its end."""
    store = office.store
    try:
        if job.kind is Kind.WATCH:
            outcome = _watch(office, job)
        else:
            outcome = _do(office, office.desk(job, heart.held), job)
        return State.DONE, outcome, store.finish(job, State.DONE, outcome)
    except LostError:
        return "lost", "another worker took it over", ()
    except (NeedlessError, SupersededError, GoneError) as reason:
        return State.DROPPED, str(reason), store.finish(job, State.DROPPED, str(reason))
    except TryAgainError as problem:
        return _later(office, job, str(problem), problem.after)
    except BotError as problem:
        return _give_up(office, job, str(problem))
    except Exception as problem:  # nobody else is there to hear of it
        log.exception("a job failed")
        return _later(office, job, f"{INTERNAL} ({type(problem).__name__})")


def _watch(office: Office, job: Job) -> str:
    """Look at a workflow run once; needless as long as another look is to follow."""
    if office.open_workflows is None:
        raise ConfigError(
            "this worker cannot sign in to GitHub Actions; start it as `hostside worker`"
        )
    workflows = office.open_workflows(job)
    try:
        token = str(job.arguments.get("token", ""))
        seen = bench_dispatch.look(OutsideBenches(office.store), workflows, token)
    finally:
        workflows.close()
    if not seen.settled:
        raise NeedlessError(seen.words)
    return seen.words


def _do(office: Office, desk: Desk, job: Job) -> str:
    ref = pull_ref(job)
    try:
        if job.kind is Kind.COMMAND:
            return answers.answer(desk, _asked(job, ref))
        if job.kind is Kind.BENCH:
            bench, version = (int(job.arguments.get(name, 0)) for name in ("bench", "version"))
            return bench_say.bring_up_to_date(desk, ref, bench, version)
        return jobs.review_pull(desk, ref, asked=bool(job.arguments.get("asked")))
    except ConfigError as problem:
        jobs.explain_configuration(desk, desk.client.pull(ref).ref, problem)
        return f"the configuration is broken: {problem}"
    except SupersededError:
        _follow(office, desk, job, ref)
        raise


def _follow(office: Office, desk: Desk, job: Job, ref: PullRef) -> None:
    """Make sure that the present head is reviewed, should its own delivery have got lost."""
    now = jobs.next_head(desk, ref)
    if now is None:
        return
    key = handlers.review_key(job.repo, job.number, now.head_sha)
    ends = {"head_sha": now.head_sha, "base_sha": now.base_sha}
    spec = JobSpec(key, Kind.REVIEW, job.repo, job.number, job.installation, ends)
    office.store.enqueue(spec, job.delivery)  # rung for when this job ends


def _later(
    office: Office, job: Job, problem: str, after: float = 0
) -> tuple[str, str, tuple[Bell, ...]]:
    problem = redact(problem)
    if job.attempts >= office.store.terms.max_attempts:
        return _give_up(office, job, problem)
    return "again", problem, office.store.retry(job, problem, after)


def _give_up(office: Office, job: Job, problem: str) -> tuple[str, str, tuple[Bell, ...]]:
    problem = redact(problem)
    try:
        if job.kind not in (Kind.BENCH, Kind.WATCH):  # the review of the commit is not what failed
            jobs.explain_failure(office.desk(job), pull_ref(job), problem)
    except Exception:  # the explanation is a courtesy; the parked job is the record
        log.warning("a job that was given up could not be explained on its pull request")
    return State.PARKED, problem, office.store.finish(job, State.PARKED, problem)


def pull_ref(job: Job) -> PullRef:
    """The job's pull request; without a head when the job takes whichever there is."""
    owner, _, name = job.repo.partition("/")
    base, head = (str(job.arguments.get(end, "")) for end in ("base_sha", "head_sha"))
    return PullRef(owner, name, job.number, base, head, job.installation)


def _asked(job: Job, ref: PullRef) -> answers.Asked:
    said = job.arguments
    return answers.Asked(
        ref=ref,
        author=str(said["author"]),
        lines=tuple(str(line) for line in said["lines"]),
        comment=int(said.get("comment", 0)),
        on_line=bool(said.get("on_line", False)),
        key=f"command-{job.id}",
        origin=job.key,
        created=str(said.get("created", "")),
        head=str(said.get("head", "")),
        reply_to=int(said.get("reply_to", 0)),
        listed=bool(said.get("listed", False)),
    )


def _ring(office: Office, bells: Iterable[Bell]) -> None:
    for bell in bells:
        try:
            office.ring(bell)
        except Exception:  # the reaper rings again
            say(log, "the broker did not take a bell", logging.WARNING, bell=bell.job)
