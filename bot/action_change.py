"""The change that the run is about: its files and their settings, by GitHub's API alone.

Also where the code is checked out, for on a pull request that is the merge commit, whose lines are
not those that comments stand on. Only a scan of the whole tree reads the checkout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bot import action_artifact, baseline, config_nearest
from bot import config as configuration
from bot.action_event import FOLLOWED, Trigger
from bot.action_files import within
from bot.action_inputs import Inputs
from bot.action_needs import READ_CODE, READ_PULLS, needing
from bot.config import PYPROJECT, Reader, RepoConfig
from bot.diff import ChangedFile
from bot.errors import UsageError
from bot.examine import Job, Runner, examine_all, in_children
from bot.files import find
from bot.github_client import Client
from bot.github_errors import SupersededError
from bot.pulls import Pull, PullRef
from bot.review import Review, assemble, build_review, everywhere, worth_proving
from bot.skipping import reason_to_skip


class NothingError(Exception):
    """There is a reason to look at nothing; said, and neither green nor red."""


@dataclass(frozen=True)
class Judged:
    """A review, and the pull request to speak on."""

    review: Review
    ref: PullRef | None = None  # None: there is nobody to speak to


@dataclass(frozen=True)
class Workplace:
    """What the run works with."""

    client: Client
    trigger: Trigger
    inputs: Inputs
    environment: Mapping[str, str]
    run: Runner = in_children


def judge(here: Workplace) -> Judged:
    """The review of what the event is about."""
    trigger, inputs = here.trigger, here.inputs
    if trigger.nothing:
        raise NothingError(trigger.nothing)
    if inputs.scan == "tree":
        return Judged(_tree(here))
    if trigger.event == FOLLOWED:
        trigger = replace(trigger, number=action_artifact.number(inputs.artifact))
        if not trigger.number:
            raise NothingError("the run that this one follows left no review to post")
    elif inputs.pull_request and not trigger.number:
        trigger = Trigger(trigger.event, trigger.repository, inputs.pull_request)
    if trigger.on_pull:
        return _pull_request(here, trigger)
    return _commits(here, trigger)


def _ref(trigger: Trigger, base: str) -> PullRef:
    owner, _, name = trigger.repository.partition("/")
    return PullRef(owner, name, trigger.number, base, trigger.head_sha)


def _pull_request(here: Workplace, trigger: Trigger) -> Judged:
    asked = _ref(trigger, trigger.base)
    with needing(READ_PULLS, f"read pull request #{trigger.number}"):
        pull = here.client.pull(asked)
    _stays(trigger, pull)
    with needing(READ_CODE, "read the repository's files"):
        reader = here.client.reader(pull.ref)
        config = configuration.load(reader)
        if reason := reason_to_skip(pull, config):
            raise NothingError(reason)
        files = here.client.changed_files(pull.ref)
        return Judged(_review(here, files, config, reader, str(pull.ref)), pull.ref)


def _stays(trigger: Trigger, pull: Pull) -> None:
    """Raise the reason why the event is not about the pull request as it is now."""
    if trigger.run and (reason := action_artifact.why_not(trigger.run, pull)):
        raise NothingError(reason)
    if not pull.open:
        raise NothingError(f"{pull.ref} is closed")
    if trigger.head_sha and pull.ref.head_sha != trigger.head_sha:
        raise SupersededError(f"{pull.ref} moved on to {pull.ref.head_sha[:12]}")


def _commits(here: Workplace, trigger: Trigger) -> Judged:
    base = here.inputs.base or trigger.base
    if not base:
        raise NothingError(
            "there is nothing to compare the commit with; set the input `base` or `pull-request`"
        )
    server = here.environment.get("GITHUB_SERVER_URL", "https://github.com")
    with needing(READ_CODE, f"compare with {base}"):
        ref = here.client.between(_ref(trigger, base))
    with needing(READ_CODE, "read the repository's files"):
        files = here.client.compared(ref, f"{server}/{ref.full_name}.git")
        reader = here.client.reader(ref)
        config = configuration.load(reader)
        return Judged(_review(here, files, config, reader, str(ref)))


def _review(
    here: Workplace, files: Sequence[ChangedFile], config: RepoConfig, reader: Reader, subject: str
) -> Review:
    wanted = [file for file in files if here.inputs.wants(file.path)]
    config = here.inputs.merge(config_nearest.for_change(config, reader, wanted))
    known = baseline.load(config, reader)
    return build_review(wanted, config, here.run, subject, known)


def _tree(here: Workplace) -> Review:
    """The review of every file of the checkout."""
    root = Path(here.environment.get("GITHUB_WORKSPACE") or ".").resolve()
    top = root / here.inputs.working_directory
    if not within(top, root) or not top.is_dir() or not any(top.iterdir()):
        raise UsageError(f"{top} holds no files; a scan of the tree needs actions/checkout first")
    reader = _settings_of(here, root)
    config = configuration.load(reader)
    # A link that leads out of it shows files of the machine, not of the repository.
    files = [file for file in find([str(top)], root) if within(Path(file.source), root)]
    above = config_nearest.folders_above(file.inside for file in files)
    # Each may be a request to GitHub, so only where there is a file to ask for.
    folders = [folder for folder in above if (root / folder / PYPROJECT).is_file()]
    config = here.inputs.merge(config_nearest.with_nested(config, reader, folders))
    known = baseline.load(config, reader)
    jobs = [
        Job(
            file.inside,
            config.for_file(file.inside),
            source=file.source,
            prove=worth_proving(config.nearest(file.inside)[0]),
        )
        for file in files
        if config.wants(file.inside)
    ]
    return assemble(examine_all(jobs, here.run), config, everywhere, "the tree", known)


def _settings_of(here: Workplace, root: Path) -> Reader:
    """Where settings are read: a pull request must not bring the ones it is judged by."""
    trigger = here.trigger
    if not (trigger.on_pull or trigger.event == "merge_group"):
        return configuration.reader_of(root)
    return here.client.reader(_ref(trigger, trigger.base))
