"""The GitHub Action: one run, from the event's file to the exit code.

Whatever happens, the outputs, the job's summary and the annotations say it; the exit code is 1 for
findings that fail, 2 when nothing could be reviewed, 3 for an error of our own, and 0 otherwise,
also for a neutral outcome, which a job has no sign for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from bot import action_event, action_inputs, action_report
from bot.action_change import Judged, NothingError, Workplace, judge
from bot.action_files import add_summary, say, set_outputs
from bot.action_post import Told, post
from bot.action_report import Outbox
from bot.errors import BotError, UsageError
from bot.examine import Runner, in_children
from bot.github import API, Access, connect
from bot.github_errors import SupersededError
from bot.reports.github import note
from bot.review import Conclusion

OK, FINDINGS, USAGE, INTERNAL = 0, 1, 2, 3
WRITE_SECONDS = "HOSTSIDE_WRITE_SECONDS"


def run(environment: Mapping[str, str], out: TextIO, runner: Runner = in_children) -> int:
    """The exit code of the step; `runner` says where the analysis happens."""
    try:
        return _run(environment, out, runner)
    except (NothingError, SupersededError) as reason:
        set_outputs(environment, action_report.no_outputs("skipped"))
        add_summary(environment, action_report.nothing_summary(str(reason)))
        print(note("notice", "Hostside", f"Nothing was reviewed: {reason}."), file=out)
        return OK
    except BotError as problem:
        _failed(environment, str(problem), out)
        return USAGE
    except Exception as problem:  # as a note, for its words may be a stranger's
        named = f"an internal error ({type(problem).__name__}: {problem}); please report it"
        _failed(environment, named, out)
        return INTERNAL


def _failed(environment: Mapping[str, str], problem: str, out: TextIO) -> None:
    print(note("error", "Hostside", f"Nothing was reviewed: {problem}"), file=out)
    set_outputs(environment, action_report.no_outputs("neutral"))
    add_summary(environment, action_report.failed_summary(problem))


def _run(environment: Mapping[str, str], out: TextIO, runner: Runner) -> int:
    inputs = action_inputs.read(environment)
    trigger = action_event.read(environment)
    if not inputs.token:
        raise UsageError("input token is empty; leave it out to use the workflow's own token")
    sarif = Outbox.of(environment).sarif(inputs.sarif_file)
    client = connect(_access(environment), token=inputs.token, repository=trigger.repository)
    try:
        here = Workplace(client, trigger, inputs, environment, runner)
        judged = judge(here)
        told = _tell(here, judged)
    finally:
        client.close()
    return _finish(here, judged, told, sarif, out)


def _access(environment: Mapping[str, str]) -> Access:
    gap = environment.get(WRITE_SECONDS, "1")
    try:
        return Access(
            api_url=environment.get("GITHUB_API_URL", "").rstrip("/") or API, write_gap=float(gap)
        )
    except ValueError as problem:
        raise UsageError(f"{WRITE_SECONDS} is {gap!r}; it is a number of seconds") from problem


def _tell(here: Workplace, judged: Judged) -> Told:
    if judged.ref is None:
        return Told()
    inputs = here.inputs
    return post(here.client, judged.ref, judged.review, inputs.comments, inputs.check)


def _finish(here: Workplace, judged: Judged, told: Told, sarif: Path, out: TextIO) -> int:
    review, environment = judged.review, here.environment
    say(out, action_report.mention(review))
    for line in action_report.lines(review, told):
        print(line, file=out)
    add_summary(environment, action_report.job_summary(review, told))
    action_report.leave_sarif(review, sarif)
    artifact = ""
    if told.later and judged.ref is not None:
        folder = Outbox.of(environment).folder / "artifact"
        action_report.leave_artifact(review, judged.ref, folder)
        artifact = str(folder)
    set_outputs(environment, action_report.outputs(review, sarif, artifact))
    return FINDINGS if review.conclusion is Conclusion.FAILURE else OK
