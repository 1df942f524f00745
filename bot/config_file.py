"""Reads a configuration file: every key and value checked, mistakes named with their line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analyzers.finding import Confidence, Objective, Severity
from bot.config import RepoConfig, codes, known_gpu
from bot.errors import ConfigError, UsageError


class BenchTable(BaseModel):
    """The keys of `[tool.hostside.bench]`."""

    model_config = ConfigDict(extra="forbid", alias_generator=lambda name: name.replace("_", "-"))

    paths: list[str] = Field(
        default=[], description="Benchmark files besides `gpu_bench/`: files, folders, patterns."
    )
    way: Literal["runner", "workflow"] = Field(
        default="runner",
        description="How `/gpu-bench` reaches a GPU: `hostside gpu-runner` or a workflow.",
    )
    workflow: str = Field(
        default="gpu-bench.yml",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.ya?ml$",
        description="The file of .github/workflows that `/gpu-bench` starts, if way is workflow.",
    )
    gpus: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]] = Field(
        default=[], description="The labels that `/gpu-bench gpu=` may name; any if empty."
    )
    sandbox: Literal["auto", "bubblewrap", "container", "none"] = Field(
        default="auto",
        description="What benchmarks run in; none: also where no sandbox works.",
    )


class HostsideTable(BaseModel):
    """The keys of `[tool.hostside]`, or of .github/hostside.toml at its top level."""

    model_config = ConfigDict(
        extra="forbid",
        strict=False,
        title="Hostside configuration",
        alias_generator=lambda name: name.replace("_", "-"),
    )

    select: list[str] = Field(
        default=[],
        description="Rules to apply: codes, names or prefixes such as GPU1; all if empty.",
    )
    ignore: list[str] = Field(default=[], description="Rules to leave out: codes, names, prefixes.")
    severity: Severity = Field(default=Severity.INFO, description="The least that is reported.")
    confidence: Confidence = Field(
        default=Confidence.LIKELY,
        description="The least that is shown at its line; the rest is folded into the summary.",
    )
    fail_on: Literal["error", "warning", "info", "never"] = Field(
        default="warning", description="From which severity on the check fails."
    )
    objectives: list[Objective] = Field(
        default=list(Objective), description="What the reported findings are good for."
    )
    gpu: str = Field(default="", description="The GPU that the code will run on, such as A100.")
    include: list[str] = Field(default=[], description="Read only files that fit one of these.")
    exclude: list[str] = Field(default=[], description="Leave out files that fit one of these.")
    per_path_ignores: dict[str, list[str]] = Field(
        default={}, description="Rules to leave out in files that fit a pattern."
    )
    hot_functions: list[str] = Field(
        default=[], description="Functions that run on every step although nothing here shows it."
    )
    device_helpers: list[str] = Field(
        default=[], description="Functions of this project that give back a value on the GPU."
    )
    max_comments: int = Field(
        default=10, ge=0, description="How many comments stand at their lines; 0: no limit."
    )
    review_drafts: bool = Field(default=False, description="Review draft pull requests too.")
    skip_labels: list[str] = Field(
        default=[], description="Leave pull requests alone that have a label like one of these."
    )
    skip_titles: list[str] = Field(
        default=[], description="Leave pull requests alone whose title is like one of these."
    )
    skip_authors: list[str] = Field(
        default=[], description="Leave pull requests alone by one of these accounts."
    )
    skip_branches: list[str] = Field(
        default=[], description="Leave pull requests alone from or into one of these branches."
    )
    check_run: bool = Field(default=True, description="Show a check beside each reviewed commit.")
    baseline: str = Field(
        default="",
        description="A file of findings to leave out, written by `hostside baseline`.",
    )
    bench: BenchTable = Field(default=BenchTable(), description="What `hostside bench` runs.")


def parse(name: str, text: str, table: tuple[str, ...]) -> RepoConfig | None:
    """The settings in this TOML text below `table`; None when it has no such table."""
    document: object = _document(name, text)
    for key in table:
        if not isinstance(document, Mapping) or key not in document:
            return None
        document = cast("Mapping[str, object]", document)[key]
    try:
        checked = HostsideTable.model_validate(document)
    except ValidationError as problem:
        raise ConfigError(_sentence(name, text, table, problem)) from None
    try:
        return _settings(checked, name)
    except UsageError as problem:
        raise ConfigError(str(problem)) from None


def _document(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{name} is not valid TOML: {problem}") from problem
    except (ValueError, RecursionError) as problem:  # what Python's reader lets through
        why = "it holds a number that is too long"
        if isinstance(problem, RecursionError):
            why = "it is nested too deeply"
        raise ConfigError(f"{name} cannot be read as TOML: {why}") from None


# What concerns a pull request or a repository as a whole, and so has no meaning for one folder.
_OF_THE_WHOLE = (
    "max-comments", "review-drafts", "skip-labels", "skip-titles", "skip-authors",
    "skip-branches", "check-run", "baseline", "bench",
)  # fmt: skip


def parse_nested(name: str, text: str) -> RepoConfig | None:
    """The settings of a folder below the top; None when its pyproject.toml has none for us."""
    table = ("tool", "hostside")
    config = parse(name, text, table)
    if config is None:
        return None
    given = _document(name, text)["tool"]["hostside"]
    for key in _OF_THE_WHOLE:
        if key in given:
            raise ConfigError(
                f"{name}:{line_of(text, [*table, key])}: {key} is for the whole repository; "
                "set it at the top"
            )
    return config


def _settings(table: HostsideTable, name: str) -> RepoConfig:
    ignores = table.per_path_ignores.items()
    return RepoConfig(
        select=codes(table.select, f"{name}: select"),
        ignore=codes(table.ignore, f"{name}: ignore"),
        severity=table.severity,
        confidence=table.confidence,
        fail_on=table.fail_on,
        objectives=frozenset(table.objectives),
        gpu=known_gpu(table.gpu, f"{name}: gpu"),
        include=tuple(table.include),
        exclude=tuple(table.exclude),
        per_path_ignores=tuple(
            (glob, codes(names, f"{name}: per-path-ignores")) for glob, names in ignores
        ),
        hot_functions=tuple(table.hot_functions),
        device_helpers=tuple(table.device_helpers),
        max_comments=table.max_comments,
        review_drafts=table.review_drafts,
        skip_labels=tuple(table.skip_labels),
        skip_titles=tuple(table.skip_titles),
        skip_authors=tuple(table.skip_authors),
        skip_branches=tuple(table.skip_branches),
        check_run=table.check_run,
        baseline=table.baseline,
        bench_paths=tuple(table.bench.paths),
        bench_way=table.bench.way,
        bench_workflow=table.bench.workflow,
        bench_gpus=tuple(table.bench.gpus),
        bench_sandbox=table.bench.sandbox,
        source=name,
    )


def _sentence(name: str, text: str, table: tuple[str, ...], problem: ValidationError) -> str:
    error = problem.errors()[0]
    path = [str(part) for part in error["loc"] if isinstance(part, str)]
    line = line_of(text, [*table, *path])
    more = len(problem.errors()) - 1
    rest = f" ({more} more)" if more else ""
    return f"{name}:{line}: {_complaint(path, cast('Mapping[str, Any]', error))}{rest}"


def _complaint(path: Sequence[str], error: Mapping[str, Any]) -> str:
    key = ".".join(path) or "the table"
    table = BenchTable if path[:1] == ["bench"] and len(path) > 1 else HostsideTable
    known = sorted(field.alias or name for name, field in table.model_fields.items())
    if error["type"] == "extra_forbidden":
        import difflib

        close = difflib.get_close_matches(path[-1], known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
        return f"there is no key {key!r}; {hint}"
    message = str(error["msg"])
    return f"{key}: {message[:1].lower()}{message[1:]}; got {error['input']!r}"


_HEADER = re.compile(r"^\s*\[+\s*(?P<name>[^\]]+?)\s*\]+\s*(?:#.*)?$")
_NAME = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
_KEY = re.compile(rf"^\s*(?P<name>{_NAME}(?:\s*\.\s*{_NAME})*)\s*=")
_PART = re.compile(_NAME)


def line_of(text: str, path: Sequence[str]) -> int:
    """The line that sets this key, or the nearest table or key around it."""
    best, depth = 1, -1
    current: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header and "=" not in header["name"]:
            place = current = _parts(header["name"])
        elif key:
            place = current + _parts(key["name"])
        else:
            continue
        if place == list(path[: len(place)]) and len(place) > depth:
            best, depth = number, len(place)
    return best


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(name)]


def schema() -> dict[str, Any]:
    """The JSON schema of the table, published as docs/schema/config.schema.json."""
    made = HostsideTable.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
