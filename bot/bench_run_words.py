"""What is said of a workflow run that came to nothing: one sentence each, with the way out."""

from __future__ import annotations

from bot.github_errors import DeniedError, GitHubError, GoneError

NO_WORKFLOW = (
    "there is no `.github/workflows/{workflow}` on the branch `{branch}`; commit "
    "Hostside's `deploy/workflows/gpu-bench.yml` there under that name and ask again"
)
DISABLED = (
    "the workflow `{workflow}` is disabled; enable it under Actions, or with "
    "`gh workflow enable {workflow}`, and ask again"
)
NO_TRIGGER = (
    "the workflow `{workflow}` on the branch `{branch}` is not Hostside's, or another version of "
    "it ({said}); commit `deploy/workflows/gpu-bench.yml` of this version and ask again"
)
NO_PERMISSION = (
    "Hostside may not start workflows here; give its App the permission `actions: write` "
    "(in its settings: Actions, read and write), accept it in the installation, and ask again"
)
NO_RUN = (
    "GitHub took the order and shows no run of `{workflow}` by its name; commit "
    "`deploy/workflows/gpu-bench.yml` of this version unchanged under that name, and ask again"
)
NO_RUNNER = (
    "no self-hosted runner with the labels {labels} took it within an hour; start one, or ask for "
    "another with `gpu=LABEL`"
)
RUN_GONE = "its workflow run was deleted before its result could be read; ask again"
TOO_LONG = "its workflow run did not end within 6 hours and was stopped; name fewer benchmarks"
NO_ARTIFACT = "its workflow run left no result (artifact `{name}`); its log says more; ask again"
UNREADABLE = "the result of its workflow run cannot be taken: {why}"
ENDED = {
    "cancelled": "its workflow run was cancelled on GitHub, or another one took its place; "
    "ask again when the machine is free",
    "timed_out": "its workflow run ran out of time; name fewer benchmarks, or raise "
    "`timeout-minutes` in the workflow",
    "startup_failure": "GitHub could not start its workflow run; the run's page says why",
    "action_required": "its workflow run waits for an approval on GitHub; approve it and ask again",
    "skipped": "its workflow run did nothing; commit `deploy/workflows/gpu-bench.yml` of this "
    "version and ask again",
}
AWAY = "GitHub could not be asked about its workflow run for a day ({problem}); ask again"
INTERNAL = "an internal error; the service's log has the place; ask again"
FAILED = "its workflow run failed on the machine; the run's log has the reason; ask again"


def denied(problem: DeniedError) -> str:
    """What is missing; a signature that GitHub does not accept is no permission."""
    return NO_PERMISSION if problem.status in (403, 422) else str(problem)


def refused(problem: GitHubError, workflow: str, branch: str) -> str:
    """Why GitHub did not start the workflow."""
    if isinstance(problem, DeniedError):
        return denied(problem)
    if isinstance(problem, GoneError):
        return NO_WORKFLOW.format(workflow=workflow, branch=branch)
    if "disabled" in str(problem):
        return DISABLED.format(workflow=workflow)
    return NO_TRIGGER.format(workflow=workflow, branch=branch, said=str(problem)[:300])


def labels_of(gpu: str) -> tuple[str, ...]:
    """The labels that the shipped workflow asks of a runner."""
    return ("self-hosted", "gpu", gpu) if gpu else ("self-hosted", "gpu")
