"""`/gpu-bench` without a server: whether a comment may start a benchmark, and of what.

The same commands, checks and words as in the App, over a table that lives as long as the step.
Nothing here runs or even fetches the code of the pull request.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bot import answers, bench_say, bench_words, commands, handlers
from bot.answers import Asked
from bot.bench_command import COMMAND, BenchStatus, CancelBench
from bot.bench_inputs import inputs_of
from bot.bench_result import ResultError
from bot.bench_work import BenchState, Quota, Way
from bot.benches import Benches
from bot.errors import UsageError
from bot.github import API, Access, connect
from bot.github_errors import GitHubError
from bot.jobs import Desk
from bot.payloads import parse
from bot.pulls import PullClient, PullRef
from bot.store import Store

WITHOUT_SERVER = (
    "Without a server a benchmark is a run of this repository's Actions; it is seen, and "
    "cancelled, [there]({runs})."
)
_EVENT = "issue_comment"


@dataclass(frozen=True)
class Step:
    """What the runner told this step."""

    environment: Mapping[str, str]

    def named(self, name: str) -> str:
        """One of the runner's variables; a UsageError when it is missing."""
        if value := self.environment.get(name, ""):
            return value
        raise UsageError(
            f"{name} is not set; this is a step of a workflow: see deploy/workflows/"
            "gpu-bench-comment.yml"
        )

    @property
    def repo(self) -> str:
        """The repository as owner/name."""
        return self.named("GITHUB_REPOSITORY")

    @property
    def runs(self) -> str:
        """The page of the repository's runs."""
        return f"{self.named('GITHUB_SERVER_URL').rstrip('/')}/{self.repo}/actions"

    @property
    def address(self) -> str:
        """The page of this run."""
        return f"{self.runs}/runs/{self.named('GITHUB_RUN_ID')}"

    @property
    def access(self) -> Access:
        """How GitHub is reached."""
        gap = self.environment.get("HOSTSIDE_WRITE_SECONDS", "1")
        if not gap.replace(".", "", 1).isdecimal():
            raise UsageError(f"HOSTSIDE_WRITE_SECONDS is {gap!r}; it is a number of seconds")
        address = self.environment.get("GITHUB_API_URL", "").rstrip("/") or API
        return Access(api_url=address, write_gap=float(gap))

    def client(self) -> PullClient:
        """GitHub, by the workflow's own token."""
        return connect(self.access, token=self.named("GITHUB_TOKEN"), repository=self.repo)

    def ref(self, number: int) -> PullRef:
        """The pull request; its commits are not known yet."""
        owner, _, name = self.repo.partition("/")
        return PullRef(owner, name, number, "", "")


@contextmanager
def passing_store() -> Generator[Store]:
    """A table that nobody keeps."""
    with tempfile.TemporaryDirectory(prefix="hostside-") as folder:
        store = Store(f"sqlite:///{Path(folder) / 'passing.db'}")
        try:
            yield store
        finally:
            store.close()


def gate(environment: Mapping[str, str]) -> str:
    """What became of the comment, in words; the step's outputs say what is to be measured."""
    from bot.action_files import set_outputs

    step = Step(environment)
    outputs, words = {"go": "false"}, "the comment asks for no benchmark"
    if asked := _asked(step):
        client = step.client()
        try:
            with passing_store() as store:
                words, inputs = _answer(step, Desk(client, store, quota=Quota(0, 0)), asked)
                outputs |= inputs
        finally:
            client.close()
    set_outputs(environment, outputs)
    return words


def _asked(step: Step) -> Asked | None:
    """The comment, when a person wrote `/gpu-bench` on a pull request."""
    file = Path(step.named("GITHUB_EVENT_PATH"))
    try:
        payload = parse(_EVENT, file.read_bytes())
    except OSError as problem:
        raise UsageError(f"the event's file {file} cannot be read ({problem.strerror})") from None
    work = handlers.work(handlers.Event("", _EVENT, payload))
    if not work.jobs:
        return None
    job = work.jobs[0]
    said = job.arguments
    lines = [str(line) for line in said["lines"] if str(line).split()[0] == COMMAND]
    if job.repo != step.repo or not lines:
        return None
    comment = int(said["comment"])
    return Asked(
        ref=step.ref(job.number),
        author=str(said["author"]),
        lines=tuple(lines[:1]),
        comment=comment,
        key=f"comment-{comment}",
        origin=job.key,
        created=str(said["created"]),
    )


def _answer(step: Step, desk: Desk, asked: Asked) -> tuple[str, dict[str, str]]:
    if isinstance(commands.parse(asked.lines[0]), CancelBench | BenchStatus):
        desk.client.reply(asked.ref, WITHOUT_SERVER.format(runs=step.runs), asked.key)
        return "the comment asks for what only a server can tell", {}
    pull = desk.client.pull(asked.ref)
    # Whoever can push to a branch of this repository may also give commands in it. To a fork's
    # branch strangers can push between the comment and this look, so its commit must be named.
    head = "" if pull.ref.from_fork else pull.ref.head_sha
    words = answers.answer(desk, replace(asked, head=head))
    benches = Benches(desk.store)
    state = benches.active(step.repo, asked.ref.number)
    if state is None:
        return words, {}
    return _ordered(step, desk, benches, state)


def _ordered(
    step: Step, desk: Desk, benches: Benches, state: BenchState
) -> tuple[str, dict[str, str]]:
    """Say that it is queued; the outputs that the other jobs need."""
    ref = step.ref(state.order.number)
    order = replace(state.order, way=Way.WORKFLOW)
    state = replace(state, order=order)
    try:
        inputs = inputs_of(order, state.token)
    except ResultError as problem:
        desk.client.sticky(ref, failed(benches, state, str(problem)), bench_say.NAME)
        return str(problem), {}
    text = f"{bench_words.body(benches, state)}\n\nIt is measured by [this run]({step.address})."
    labels = ", ".join(f"`{label}`" for label in ("self-hosted", "gpu", order.gpu) if label)
    text += f" Should it stay queued, no runner with the labels {labels} is online."
    desk.client.sticky(ref, text, bench_say.NAME)
    # The patch is among the inputs, packed: as it is it could be longer than a variable may be.
    bare = replace(order, patch="").text
    return "the benchmark is queued", {"go": "true", "order": bare, **inputs}


def failed(benches: Benches, state: BenchState, why: str) -> str:
    """The comment on a benchmark that came to nothing."""
    benches.fail(state.id, why)
    return bench_words.body(benches, benches.get(state.id))


def show(client: PullClient, ref: PullRef, body: str, comment: int, done: bool) -> None:
    """Bring the one comment to this text, and show on the comment that asked how it ended."""
    client.sticky(ref, body, bench_say.NAME)
    if comment:
        try:
            client.react(ref, comment, "+1" if done else "confused")
        except GitHubError:
            return  # a courtesy: the comment may be gone
