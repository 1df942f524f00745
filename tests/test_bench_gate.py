"""`/gpu-bench` without a server: who may start a benchmark, of what, and what is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.bench_gate import gate
from bot.bench_inputs import order_of
from bot.bench_post import post
from bot.bench_work import BenchState, Order
from bot.errors import UsageError
from tests.bench_outside_scene import Outside, honest, outside
from tests.service_project import CLEAN, FAULTY
from tests.standin.actions import Run
from tests.standin.model import IssueComment, Pull
from tests.standin.webhooks import payload
from tests.workflow_runner import outputs_of

SECRET = "<!-- hostside:bench -->"


@dataclass
class Steps:
    """What the runner tells the steps of gpu-bench-comment.yml."""

    github: Outside
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world = self.github.world
        self.bot = world.user("github-actions[bot]", "Bot")
        token = world.token_of(
            self.bot, contents="read", pull_requests="write", actions="read", metadata="read"
        )
        self.run = Run(next(world.ids), self.github.repo, "gpu-bench-comment.yml", "", "main", {})
        self.run.event, self.run.status = "issue_comment", "in_progress"
        self.github.actions.runs.append(self.run)
        self.environment = {
            "GITHUB_TOKEN": token,
            "GITHUB_API_URL": world.url,
            "GITHUB_SERVER_URL": world.url,
            "GITHUB_REPOSITORY": self.github.repo.full_name,
            "GITHUB_RUN_ID": str(self.run.id),
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "HOSTSIDE_WRITE_SECONDS": "0",
        }

    def comment(
        self, body: str, login: str = "ada", action: str = "created", pull: Pull | None = None
    ) -> IssueComment:
        """Somebody comments, and the event's file is written."""
        pull = pull or self.github.pull
        made = self.github.world.say(pull, login, body)
        event = payload(self.github.world, pull, "issue_comment", action, {"comment": made})
        (self.folder / "event.json").write_bytes(event)
        return made

    def gate(self) -> dict[str, str]:
        """The outputs of the first job."""
        output = self.folder / "output"
        output.write_text("")
        gate(self.environment)
        return outputs_of(output.read_text())

    def post(self, given: dict[str, str], ended: str = "success") -> str:
        """What the last job shows."""
        return post(
            self.environment
            | {
                "HOSTSIDE_BENCH_BENCH": given["bench"],
                "HOSTSIDE_BENCH_ORDER": given["order"],
                "HOSTSIDE_BENCH_PATCH": given.get("patch", ""),
                "HOSTSIDE_BENCH_ENDED": ended,
            }
        )

    @property
    def said(self) -> list[str]:
        """The answers, without the one comment about benchmarks."""
        found = self.github.world.conversation(self.github.pull)
        return [c.body for c in found if c.user is self.bot and SECRET not in c.body]

    @property
    def sticky(self) -> str:
        found = self.github.world.conversation(self.github.pull)
        (body,) = [c.body for c in found if c.user is self.bot and SECRET in c.body]
        return body

    def state(self, given: dict[str, str]) -> BenchState:
        """The benchmark, as whoever measures it would see it."""
        made = self.github.order()
        return replace(made, token=given["bench"], order=Order.from_text(given["order"]))


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    with outside(tmp_path) as github:
        yield Steps(github, tmp_path)


def reactions(comment: IssueComment) -> list[str]:
    return [reaction.content for reaction in comment.reactions]


def test_a_writers_comment_starts_a_benchmark_of_the_head(steps: Steps) -> None:
    asked = steps.comment("Please:\n\n/gpu-bench gpu_bench/a.py rounds=4 gpu=h200")
    given = steps.gate()
    assert given["go"] == "true"
    assert reactions(asked) == ["eyes"]
    order = order_of(given, "acme/train")
    pull = steps.github.pull
    assert (order.head_sha, order.number, order.rounds, order.gpu) == (
        pull.head_sha, pull.number, 4, "h200",
    )  # fmt: skip
    assert order.targets == ("gpu_bench/a.py",)
    assert "queued, position 1" in steps.sticky
    assert f"/acme/train/actions/runs/{steps.run.id}" in steps.sticky
    assert "`self-hosted`, `gpu`, `h200`" in steps.sticky
    assert steps.said == []


@pytest.mark.parametrize(
    "body",
    [
        "Nice, shall we /gpu-bench this?",
        "> /gpu-bench",
        "```\n/gpu-bench\n```",
        "<!--\n/gpu-bench\n-->",
        "/hostside review",
        "/gpu-benchmark",
    ],
    ids=["in a sentence", "quoted", "in a code block", "hidden", "another", "another word"],
)
def test_words_that_are_no_command_start_nothing(steps: Steps, body: str) -> None:
    asked = steps.comment(body)
    assert steps.gate() == {"go": "false"}
    assert (reactions(asked), steps.said) == ([], [])


def test_an_edited_comment_starts_nothing(steps: Steps) -> None:
    steps.comment("/gpu-bench", action="edited")
    assert steps.gate() == {"go": "false"}


def test_a_bots_comment_starts_nothing(steps: Steps) -> None:
    steps.github.world.user("helper[bot]", "Bot")
    steps.comment("/gpu-bench", login="helper[bot]")
    assert steps.gate() == {"go": "false"}


def test_a_comment_on_an_issue_starts_nothing(steps: Steps) -> None:
    steps.comment("/gpu-bench")
    file = steps.folder / "event.json"
    event = json.loads(file.read_text())
    del event["issue"]["pull_request"]
    file.write_text(json.dumps(event))
    assert steps.gate() == {"go": "false"}


def test_a_reader_is_told_who_may(steps: Steps) -> None:
    asked = steps.comment("/gpu-bench", login="eve")
    assert steps.gate() == {"go": "false"}
    assert reactions(asked) == ["eyes", "confused"]
    assert "needs write access" in steps.said[0]


def test_an_unknown_option_is_answered_with_the_usage(steps: Steps) -> None:
    steps.comment("/gpu-bench round=3")
    assert steps.gate() == {"go": "false"}
    assert "did you mean rounds=" in steps.said[0].replace("\\", "")


@pytest.mark.parametrize("line", ["/gpu-bench status", "/gpu-bench cancel"])
def test_what_only_a_server_knows_leads_to_the_runs(steps: Steps, line: str) -> None:
    steps.comment(line)
    assert steps.gate() == {"go": "false"}
    assert "/acme/train/actions)" in steps.said[0]


def fork(steps: Steps) -> Pull:
    world = steps.github.world
    copy = world.fork(steps.github.repo, "mallory")
    steps.github.pull = world.open_pull(
        steps.github.repo, {"train.py": "3\n"}, author="mallory", head_repo=copy, branch="evil"
    )
    return steps.github.pull


def test_a_forks_commit_must_be_named(steps: Steps) -> None:
    pull = fork(steps)
    steps.comment("/gpu-bench")
    assert steps.gate() == {"go": "false"}
    assert f"/gpu-bench sha={pull.head_sha}" in steps.said[0]
    steps.comment(f"/gpu-bench sha={pull.head_sha}")
    assert steps.gate()["head"] == pull.head_sha


def test_a_push_between_the_look_and_the_command_is_not_measured(steps: Steps) -> None:
    pull = fork(steps)
    read = pull.head_sha
    steps.comment(f"/gpu-bench sha={read}")
    steps.github.world.push(pull, {"train.py": "steal()\n"})
    assert steps.gate() == {"go": "false"}
    assert "is not the head of this pull request (any more)" in steps.said[0]


def test_a_closed_pull_request_is_not_measured(steps: Steps) -> None:
    steps.github.world.close(steps.github.pull)
    steps.comment("/gpu-bench")
    assert steps.gate() == {"go": "false"}
    assert "closed" in steps.said[0]


def test_the_result_takes_the_place_of_the_queued_comment(steps: Steps) -> None:
    asked = steps.comment("/gpu-bench")
    given = steps.gate()
    report = honest(steps.state(given)).to_json().encode()
    steps.github.actions.upload(steps.run, {"report.json": report})
    steps.post(given)
    assert "FASTER" in steps.sticky
    assert f"/actions/runs/{steps.run.id}" in steps.sticky
    assert reactions(asked) == ["eyes", "+1"]
    steps.post(given)  # the job was run again
    assert "FASTER" in steps.sticky


@pytest.mark.parametrize(
    ("files", "ended", "words"),
    [
        pytest.param({}, "cancelled", "was cancelled", id="cancelled"),
        pytest.param({}, "skipped", "was skipped", id="skipped"),
        pytest.param({}, "failure", "failed on the machine", id="failed"),
        pytest.param({}, "success", "left no result", id="no artifact"),
        pytest.param({"report.json": b"{}"}, "success", "malformed", id="malformed"),
        pytest.param({"../x": b""}, "success", "cannot be taken", id="hostile"),
        pytest.param(
            {"problem.json": b'{"problem": "@everyone <b>no</b> GPU"}'}, "failure",
            "no&lt;/b&gt;", id="its own words",
        ),
    ],
)  # fmt: skip
def test_a_benchmark_without_a_result_is_said(
    steps: Steps, files: dict[str, bytes], ended: str, words: str
) -> None:
    asked = steps.comment("/gpu-bench")
    given = steps.gate()
    if files:
        steps.github.actions.upload(steps.run, files)
    steps.post(given, ended)
    assert "GPU benchmark: failed" in steps.sticky
    assert words in steps.sticky
    assert "@everyone" not in steps.sticky
    assert reactions(asked) == ["eyes", "confused"]


def test_the_suggestions_travel_from_the_first_job_to_the_last(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {"train.py": CLEAN}
    with outside(tmp_path, files=files, head={"train.py": FAULTY}) as github:
        steps = Steps(github, tmp_path)
        steps.comment("/gpu-bench")
        given = steps.gate()
        asked = order_of(given, "acme/train")
        assert "+    return torch.zeros(n, device=" in asked.patch
        assert "2 one-click suggestions" in steps.sticky
        assert len(given["order"]) < 2_000  # the patch is not in it a second time
        state = steps.state(given)
        measured = replace(state, order=replace(state.order, patch=asked.patch))
        text = honest(measured).to_json().encode()
        steps.github.actions.upload(steps.run, {"report.json": text})
        steps.post(given)
        assert "GPU benchmark: FASTER" in steps.sticky


def test_another_benchmarks_result_is_refused(steps: Steps) -> None:
    steps.comment("/gpu-bench")
    given = steps.gate()
    state = replace(steps.state(given), token="9" * 32)
    steps.github.actions.upload(steps.run, {"report.json": honest(state).to_json().encode()})
    steps.post(given)
    assert "answers another question" in steps.sticky


@pytest.mark.parametrize("name", ["GITHUB_EVENT_PATH", "GITHUB_REPOSITORY", "GITHUB_TOKEN"])
def test_outside_of_a_workflow_the_missing_variable_is_named(steps: Steps, name: str) -> None:
    steps.comment("/gpu-bench")
    steps.environment[name] = ""
    with pytest.raises(UsageError, match=name):
        steps.gate()


def test_an_order_that_nobody_gave_is_refused(steps: Steps) -> None:
    with pytest.raises(UsageError, match="HOSTSIDE_BENCH_ORDER"):
        steps.post({"bench": "0" * 32, "order": "{}"})
