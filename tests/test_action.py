"""The Action's entry point, end to end against the stand-in, for every event it can meet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.action import run
from tests.action_scene import READ, Stage, outcome, stage
from tests.github_scene import BASE, CLEAN, HEAD
from tests.standin.suggestions import blocks

PUSHED = {"GPU201"}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def test_a_pull_request_gets_one_review_with_suggestions(opened: Stage) -> None:
    done = opened.act()
    assert done.code == 1
    assert {k: done.outputs[k] for k in ("findings", "suggestions", "conclusion")} == {
        "findings": "2",
        "suggestions": "2",
        "conclusion": "failure",
    }
    assert [len(blocks(body)) for body in opened.comments] == [1, 1]
    assert [review.partition(":")[0] for review in opened.reviews] == ["COMMENTED"]
    assert len(opened.summaries) == 1
    assert opened.github.world.checks == []
    sarif = json.loads(Path(done.outputs["sarif"]).read_text())
    assert {result["ruleId"] for result in sarif["runs"][0]["results"]} == {"GPU201"}
    assert done.outputs["artifact"] == ""
    assert sum(line.startswith("::warning file=train.py") for line in done.annotations) == 2
    assert "## Hostside: failure" in done.summary
    assert "```suggestion" not in done.summary
    assert opened.token() not in done.log + done.summary


def test_a_job_that_runs_again_posts_nothing_twice(opened: Stage) -> None:
    first, again = opened.act(), opened.act()
    assert (first.code, again.code) == (1, 1)
    assert again.outputs["findings"] == "2"
    assert (len(opened.comments), len(opened.reviews), len(opened.summaries)) == (2, 1, 1)


def test_a_fixed_change_is_marked_and_passes(opened: Stage) -> None:
    opened.act()
    opened.github.world.push(opened.github.pull, {"train.py": CLEAN})
    done = opened.act()
    assert (done.code, done.outputs["conclusion"], done.outputs["findings"]) == (0, "success", "0")
    assert all(body.startswith("**Fixed** at ") for body in opened.comments)
    assert len(opened.reviews) == 1


def test_a_pull_request_from_a_fork_is_reviewed_with_a_token_that_may_only_read(
    opened: Stage,
) -> None:
    opened.from_fork()
    done = opened.act("pull_request", permissions=READ, event="pull_request_fork")
    assert done.code == 1
    assert (opened.comments, opened.reviews, opened.summaries) == ([], [], [])
    (said,) = [line for line in done.annotations if "could not post" in line]
    assert "from a fork may only read" in said
    assert "hostside-post.yml" in said
    assert sum(line.startswith("::warning file=train.py") for line in done.annotations) == 2
    assert "**Not posted**" in done.summary
    assert 'device="cuda"' in done.summary
    folder = Path(done.outputs["artifact"])
    note = json.loads((folder / "pull-request.json").read_text())
    assert note == {"version": 1, "pull_request": 2, "head_sha": opened.github.pull.head_sha}
    assert len(json.loads((folder / "review.json").read_text())["findings"]) == 2


def test_the_workflow_that_follows_posts_the_review_of_a_fork(opened: Stage) -> None:
    opened.from_fork()
    left = opened.act("pull_request", permissions=READ, event="pull_request_fork")
    inputs = {"artifact": left.outputs["artifact"], "fail-on": "never"}
    done = opened.act("workflow_run", inputs)
    assert (done.code, done.outputs["conclusion"]) == (0, "success")
    assert (len(opened.comments), len(opened.reviews), len(opened.summaries)) == (2, 1, 1)
    opened.act("workflow_run", inputs)
    assert (len(opened.comments), len(opened.reviews), len(opened.summaries)) == (2, 1, 1)


def test_pull_request_target_reviews_a_fork_without_its_code(opened: Stage) -> None:
    opened.from_fork()
    done = opened.act("pull_request_target")
    assert done.code == 1
    assert len(opened.comments) == 2
    workspace = opened.directory / "work space"
    assert list(workspace.iterdir()) == []


def test_a_fork_that_was_deleted_is_still_reviewed(opened: Stage) -> None:
    opened.from_fork().head_repo = None
    done = opened.act("pull_request", event="pull_request_gone_fork")
    assert (done.code, len(opened.comments)) == (1, 2)


@pytest.mark.parametrize("event", ["merge_group", "push", "workflow_dispatch"])
def test_commits_without_a_pull_request_are_compared(opened: Stage, event: str) -> None:
    done = opened.act(event)
    assert (done.code, done.outputs["findings"], done.outputs["conclusion"]) == (1, "2", "failure")
    assert (opened.comments, opened.summaries) == ([], [])
    assert sum(line.startswith("::warning file=train.py,line=") for line in done.annotations) == 2
    assert {"ruleId": "GPU201"}.items() <= json.loads(Path(done.outputs["sarif"]).read_text())[
        "runs"
    ][0]["results"][0].items()


def test_a_dispatched_run_reviews_the_pull_request_that_it_names(opened: Stage) -> None:
    done = opened.act("workflow_dispatch", {"pull-request": "1"})
    assert (done.code, len(opened.comments)) == (1, 2)


def test_a_dispatched_run_compares_with_the_base_that_it_names(opened: Stage) -> None:
    done = opened.act("workflow_dispatch", {"base": opened.github.pull.head_sha})
    assert (done.code, done.outputs["findings"]) == (0, "0")


def test_a_base_that_is_not_there_is_named(opened: Stage) -> None:
    done = opened.act("workflow_dispatch", {"base": "no-such-branch"})
    assert done.code == 2
    assert "compare with no-such-branch, or it is not there" in done.log


@pytest.mark.parametrize(
    ("changes", "findings"),
    [
        pytest.param({"before": "0" * 40, "created": True}, "2", id="a new branch"),
        pytest.param({}, "2", id="one more commit"),
    ],
)
def test_a_push_is_compared_with_what_was_there(
    opened: Stage, changes: dict[str, object], findings: str
) -> None:
    assert opened.act("push", None, None, **changes).outputs["findings"] == findings


NOTHING = [
    pytest.param("push", {"after": "0" * 40, "deleted": True}, {}, "deleted", id="deleted branch"),
    pytest.param(
        "push", {"before": "0" * 40, "ref": "refs/heads/main"}, {}, "nothing to compare",
        id="the first push of all",
    ),
    pytest.param("schedule", {}, {}, "nothing to compare", id="a schedule on the main branch"),
    pytest.param("issues", {}, {}, "names no change", id="another event"),
    pytest.param("workflow_run", {}, {"artifact": "nowhere"}, "left no review", id="no artifact"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "changes", "inputs", "said"), NOTHING)
def test_what_has_no_change_is_skipped_and_says_so(
    opened: Stage, event: str, changes: dict[str, object], inputs: dict[str, str], said: str
) -> None:
    recorded = "push" if event == "issues" else event
    done = opened.act(event, inputs, None, **changes, event=recorded)
    assert (done.code, done.outputs["conclusion"]) == (0, "skipped")
    assert said in done.log
    assert said in done.summary


def test_a_draft_is_left_alone_unless_the_configuration_asks(tmp_path: Path) -> None:
    with stage(tmp_path / "plain", draft=True) as made:
        assert made.act().outputs["conclusion"] == "skipped"
    base = {"train.py": BASE, ".github/hostside.toml": "review-drafts = true\n"}
    with stage(tmp_path / "asked", base=base, draft=True) as made:
        assert made.act().outputs["findings"] == "2"


def test_a_head_that_moved_is_left_to_its_own_run(opened: Stage) -> None:
    environment = opened.environment("pull_request", {})
    opened.github.world.push(opened.github.pull, {"other.py": "x = 1\n"})
    import io

    from bot.action import run

    out = io.StringIO()
    assert run(environment, out) == 0
    assert "moved on to" in out.getvalue()
    assert opened.comments == []


def test_a_token_without_the_permission_names_the_line_to_add(opened: Stage) -> None:
    done = opened.act(permissions=READ)
    assert done.code == 1
    (said,) = [line for line in done.annotations if "could not post" in line]
    assert "add `pull-requests: write` to the job's `permissions:`" in said
    assert "pull-requests: write" in done.summary
    assert opened.comments == []


@pytest.mark.parametrize(
    ("lacking", "event", "line"),
    [
        pytest.param("pull_requests", "pull_request", "pull-requests: read", id="pull requests"),
        pytest.param("contents", "pull_request", "contents: read", id="the code"),
        pytest.param("contents", "push", "contents: read", id="the code on a push"),
    ],
)
def test_a_token_that_may_not_read_names_the_line_to_add(
    opened: Stage, lacking: str, event: str, line: str
) -> None:
    done = opened.act(event, None, {k: v for k, v in READ.items() if k != lacking})
    assert (done.code, done.outputs["conclusion"]) == (2, "neutral")
    assert f"add `{line}` to the job's `permissions:`" in done.log
    assert line in done.summary


def test_a_token_that_github_does_not_know_is_named(opened: Stage) -> None:
    done = opened.act(inputs={"token": "ghs_unknown"})
    assert done.code == 2
    assert "check the input `token`" in done.log
    assert "ghs_unknown" not in done.log + done.summary


def test_a_limit_on_writing_costs_the_comments_but_no_finding(opened: Stage) -> None:
    opened.github.world.faults.add(
        "secondary", method="POST", path="reviews$", times=9, retry_after=3600
    )
    done = opened.act()
    assert (done.code, done.outputs["findings"]) == (1, "2")
    assert "the review could not be posted: GitHub limits how fast we may write" in done.log
    assert "**Not posted**" in done.summary
    assert sum("GPU201" in line for line in done.annotations) == 2
    assert opened.reviews == []


def test_a_limit_on_reading_is_no_success(opened: Stage) -> None:
    opened.github.world.faults.add("primary", method="GET", times=99, retry_after=3600)
    done = opened.act()
    assert (done.code, done.outputs["conclusion"]) == (2, "neutral")
    assert "Nothing was reviewed: GitHub limits our requests" in done.log


def test_what_could_not_be_judged_makes_it_neutral_and_is_named(tmp_path: Path) -> None:
    with stage(tmp_path, head={"train.py": "import torch\n\ndef broken(:\n"}) as made:
        done = made.act()
    assert (done.code, done.outputs["conclusion"]) == (0, "neutral")
    (said,) = [line for line in done.annotations if "did not judge everything" in line]
    assert "no success" in said
    assert "train.py" in said
    assert "## Hostside: neutral" in done.summary


INPUTS = [
    pytest.param({"fail-on": "error"}, 0, "2", id="fails only on errors"),
    pytest.param({"fail-on": "never"}, 0, "2", id="never fails"),
    pytest.param({"severity": "error"}, 0, "0", id="reports only errors"),
    pytest.param({"objectives": "correctness readability"}, 0, "0", id="other objectives"),
    pytest.param({"ignore": "GPU2"}, 0, "0", id="ignored rules"),
    pytest.param({"working-directory": "lib"}, 0, "0", id="another folder"),
    pytest.param({"working-directory": "."}, 1, "2", id="the whole repository"),
    pytest.param({"gpu": "A100"}, 1, "2", id="a GPU"),
]


@pytest.mark.parametrize(("inputs", "code", "findings"), INPUTS)
def test_an_input_does_what_it_says(
    opened: Stage, inputs: dict[str, str], code: int, findings: str
) -> None:
    done = opened.act("merge_group", inputs)
    assert (done.code, done.outputs["findings"]) == (code, findings)


WRONG = [
    pytest.param({"fail-on": "fatal"}, "input fail-on: 'fatal' is not one of", id="fail-on"),
    pytest.param({"comments": "all"}, "input comments: 'all'", id="comments"),
    pytest.param({"gpu": "A1000"}, "input gpu: there is no GPU 'A1000'", id="gpu"),
    pytest.param({"ignore": "GPU9999"}, "input ignore: there is no rule", id="ignore"),
    pytest.param({"pull-request": "#4"}, "input pull-request: '#4' is not a number", id="number"),
    pytest.param({"working-directory": "../x"}, "input working-directory", id="outside"),
    pytest.param({"token": ""}, "input token is empty", id="no token"),
    pytest.param({"baseline": "none.json"}, "no baseline 'none.json'", id="no such baseline"),
]


@pytest.mark.parametrize(("inputs", "said"), WRONG)
def test_a_wrong_input_is_one_sentence(opened: Stage, inputs: dict[str, str], said: str) -> None:
    done = opened.act("merge_group", inputs)
    assert (done.code, done.outputs["conclusion"]) == (2, "neutral")
    (line,) = done.annotations
    assert line.startswith("::error title=Hostside::")
    assert said in line


@pytest.mark.parametrize(
    ("comments", "at_lines", "sticky"),
    [("review", 2, 1), ("summary", 0, 1), ("none", 0, 0)],
)
def test_how_much_is_said_on_the_pull_request_can_be_chosen(
    opened: Stage, comments: str, at_lines: int, sticky: int
) -> None:
    assert opened.act(inputs={"comments": comments}).code == 1
    assert (len(opened.comments), len(opened.summaries)) == (at_lines, sticky)


def test_a_check_can_be_asked_for_and_offers_no_button_that_nobody_answers(opened: Stage) -> None:
    opened.act(inputs={"check": "true"}, permissions=READ | {
        "pull_requests": "write", "checks": "write",
    })  # fmt: skip
    (check,) = opened.github.world.checks_on(opened.github.pull.head_sha)
    assert (check.conclusion, check.actions) == ("failure", [])


def test_a_check_that_the_token_may_not_show_names_its_own_line(opened: Stage) -> None:
    done = opened.act(inputs={"check": "true"})
    (said,) = [line for line in done.annotations if "could not post" in line]
    assert "add `checks: write` to the job's `permissions:`" in said
    assert len(opened.comments) == 2


def test_a_baseline_of_the_base_leaves_out_what_it_lists(opened: Stage, tmp_path: Path) -> None:
    artifact = opened.from_fork() and opened.act(
        "pull_request", permissions=READ, event="pull_request_fork"
    )
    found = json.loads((Path(artifact.outputs["artifact"]) / "review.json").read_text())
    listed = [
        {
            "rule": f["rule"], "path": f["path"], "text": "x", "ordinal": 1,
            "fingerprint": f["fingerprint"],
        }
        for f in found["findings"][:1]
    ]  # fmt: skip
    text = json.dumps({"version": 1, "findings": listed})
    base = {"train.py": BASE, "accepted.json": text}
    with stage(tmp_path / "second", base=base) as made:
        assert made.act(inputs={"baseline": "accepted.json"}).outputs["findings"] == "1"


def test_settings_are_read_from_the_base(tmp_path: Path) -> None:
    project = "[tool.hostside]\nignore = ['GPU201']\n"
    with stage(tmp_path, head={"train.py": HEAD, "pyproject.toml": project}) as made:
        assert made.act().outputs["findings"] == "2"


def test_broken_settings_are_named_with_their_line(tmp_path: Path) -> None:
    project = "[tool.hostside]\nignores = ['GPU201']\n"
    with stage(tmp_path, base={"train.py": BASE, "pyproject.toml": project}) as made:
        done = made.act()
    assert done.code == 2
    assert "pyproject.toml:2: there is no key 'ignores'" in done.log


def test_an_error_of_our_own_is_said_and_cannot_speak_to_the_runner(opened: Stage) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("first\n::error::owned")

    environment = opened.environment("pull_request", {})
    out = io.StringIO()
    done = outcome(run(environment, out, broken), out.getvalue(), environment)
    assert (done.code, done.outputs["conclusion"]) == (3, "neutral")
    assert done.log.count("\n") == 1
    assert "an internal error (RuntimeError: first%0A::error::owned)" in done.log
    assert "## Hostside: failed" in done.summary


def test_outside_of_actions_one_sentence_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    import io

    from bot.action import run

    out = io.StringIO()
    assert run({"HOSTSIDE_INPUT_TOKEN": "t"}, out) == 2
    assert "no run of GitHub Actions" in out.getvalue()
