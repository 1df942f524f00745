"""The Action's inputs, which arrive as environment variables so that none is ever run as code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, TypeVar

from analyzers.finding import Confidence, Objective, Severity
from bot.config import NEVER, RepoConfig, codes, known_gpu
from bot.errors import UsageError

PREFIX = "HOSTSIDE_INPUT_"
COMMENTS = ("review", "summary", "none")
SCANS = ("change", "tree")
Chosen = TypeVar("Chosen")


@dataclass(frozen=True)
class Inputs:
    """What the workflow asks for."""

    token: str = field(default="", repr=False)
    comments: str = "review"
    scan: str = "change"
    base: str = ""
    pull_request: int = 0
    working_directory: str = ""
    baseline: str = ""
    sarif_file: str = ""
    artifact: str = ""
    check: bool = False
    settings: tuple[tuple[str, Any], ...] = ()  # fields of RepoConfig that are set instead
    ignore: frozenset[str] = frozenset()

    def merge(self, config: RepoConfig) -> RepoConfig:
        """The configuration with what the inputs say instead, in every folder."""
        given = dict(self.settings)
        if self.baseline:
            config = replace(config, baseline=self.baseline, source="input baseline")
        if self.ignore:
            config = config.ignoring(self.ignore)
        return config.with_everywhere(lambda each: replace(each, **given))

    def wants(self, path: str) -> bool:
        """Whether the file lies in the working directory."""
        return not self.working_directory or path.startswith(f"{self.working_directory}/")


def read(environment: Mapping[str, str]) -> Inputs:
    """The inputs; a UsageError names the one that is wrong and what it may be."""

    def given(name: str) -> str:
        return environment.get(PREFIX + name.upper().replace("-", "_"), "").strip()

    return Inputs(
        token=given("token"),
        comments=_one_of("comments", given("comments") or "review", COMMENTS),
        scan=_one_of("scan", given("scan") or "change", SCANS),
        base=given("base"),
        pull_request=_number("pull-request", given("pull-request") or "0"),
        working_directory=_folder(given("working-directory")),
        baseline=given("baseline"),
        sarif_file=given("sarif-file"),
        artifact=given("artifact"),
        check=_one_of("check", given("check") or "false", ("true", "false")) == "true",
        settings=tuple(_settings(given)),
        ignore=codes([given("ignore")], "input ignore") if given("ignore") else frozenset(),
    )


def _settings(given: Callable[[str], str]) -> list[tuple[str, Any]]:
    severities = [severity.value for severity in Severity]
    found: list[tuple[str, Any]] = []
    if text := given("fail-on"):
        found.append(("fail_on", _one_of("fail-on", text, (*severities, NEVER))))
    if text := given("severity"):
        found.append(("severity", Severity(_one_of("severity", text, severities))))
    if text := given("confidence"):
        known = [confidence.value for confidence in Confidence]
        found.append(("confidence", Confidence(_one_of("confidence", text, known))))
    if text := given("objectives"):
        known = [objective.value for objective in Objective]
        words = text.replace(",", " ").split()
        named = (Objective(_one_of("objectives", word, known)) for word in words)
        found.append(("objectives", frozenset(named)))
    if text := given("gpu"):
        found.append(("gpu", known_gpu(text, "input gpu")))
    if text := given("max-comments"):
        found.append(("max_comments", _number("max-comments", text)))
    return found


def _one_of(name: str, text: str, known: tuple[str, ...] | list[str]) -> str:
    if text not in known:
        raise UsageError(f"input {name}: {text!r} is not one of {', '.join(known)}")
    return text


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"input {name}: {text!r} is not a number")
    return int(text)


def _folder(text: str) -> str:
    parts = PurePosixPath(text).parts
    if ".." in parts or text.startswith("/"):
        raise UsageError(
            f"input working-directory: {text!r} must be a folder below the top of the repository"
        )
    return str(PurePosixPath(*parts)) if parts and parts != (".",) else ""
