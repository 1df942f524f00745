"""What a repository asks of Hostside: `[tool.hostside]` in pyproject.toml or .github/hostside.toml.

For a review it is read from the base commit, so that a change cannot switch its reviewer off.
The reading of the file itself, with its checks, is in `config_file.py`, imported only when there
is one; the settings of folders below the top are in `config_nearest.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from analyzers.analysis import AnalysisConfig
from analyzers.finding import Confidence, Objective, Severity
from bot.errors import ConfigError, UsageError

OWN_FILE = ".github/hostside.toml"
PYPROJECT = "pyproject.toml"
NEVER = "never"
UNUSED = "GPU000"  # an unused suppression: reported by the engine itself, not by a rule
_TOOL = re.compile(r"""^\ufeff?\s*\[*\s*["']?tool["']?\s*[.\]=]""", re.M)


@dataclass(frozen=True)
class RepoConfig:
    """The settings of one repository; without a file, these defaults."""

    select: frozenset[str] = frozenset()  # codes; empty: every rule
    ignore: frozenset[str] = frozenset()
    severity: Severity = Severity.INFO  # the least that is reported
    confidence: Confidence = Confidence.LIKELY  # the least that is shown on its line
    fail_on: str = Severity.WARNING.value  # a severity, or "never"
    objectives: frozenset[Objective] = frozenset(Objective)
    gpu: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_path_ignores: tuple[tuple[str, frozenset[str]], ...] = ()
    hot_functions: tuple[str, ...] = ()
    device_helpers: tuple[str, ...] = ()
    max_comments: int = 10
    review_drafts: bool = False
    skip_labels: tuple[str, ...] = ()  # patterns; what fits one of these four is left alone
    skip_titles: tuple[str, ...] = ()
    skip_authors: tuple[str, ...] = ()
    skip_branches: tuple[str, ...] = ()
    check_run: bool = True
    bench_paths: tuple[str, ...] = ()  # benchmark files beside those of gpu_bench folders
    bench_way: Literal["runner", "workflow"] = "runner"
    bench_workflow: str = "gpu-bench.yml"  # that is dispatched where the way is "workflow"
    bench_gpus: tuple[str, ...] = ()  # labels that `gpu=` may name; empty: any
    bench_sandbox: Literal["auto", "bubblewrap", "container", "none"] = "auto"
    baseline: str = ""  # the file of findings that are left out, from the top of the repository
    source: str = field(default="", compare=False)  # the file it came from
    nested: tuple[tuple[str, RepoConfig], ...] = ()  # folder -> its own settings, deepest first

    def nearest(self, path: str) -> tuple[RepoConfig, str]:
        """The settings that count for this file, and its path from where they stand."""
        for folder, config in self.nested:
            if path.startswith(f"{folder}/"):
                return config, path[len(folder) + 1 :]
        return self, path

    def with_everywhere(self, change: Callable[[RepoConfig], RepoConfig]) -> RepoConfig:
        """The same after a change of these settings and of those below."""
        below = tuple((folder, change(config)) for folder, config in self.nested)
        return replace(change(self), nested=below)

    def ignoring(self, codes: frozenset[str]) -> RepoConfig:
        """The same without these rules, wherever a file lies."""
        return self.with_everywhere(lambda config: replace(config, ignore=config.ignore | codes))

    def wants(self, path: str) -> bool:
        """Whether the path filters let this file through; what the top excludes stays out."""
        if any(matches(glob, path) for glob in self.exclude):
            return False
        config, inside = self.nearest(path)
        if config is not self:
            return config.wants(inside)
        return not self.include or any(matches(glob, path) for glob in self.include)

    def for_file(self, path: str) -> AnalysisConfig:
        """What the analysis of one file needs to know."""
        config, inside = self.nearest(path)
        if config is not self:
            return config.for_file(inside)
        ignore = self.ignore.union(
            *(codes for glob, codes in self.per_path_ignores if matches(glob, path))
        )
        return AnalysisConfig(
            select=self.select,
            ignore=ignore,
            gpu=self.gpu or None,
            hot_functions=self.hot_functions,
            device_helpers=self.device_helpers,
        )


Reader = Callable[[str], str | None]  # path within the repository -> text, None if absent


def load(read: Reader) -> RepoConfig:
    """The settings of the repository whose files `read` gives."""
    own, project = read(OWN_FILE), read(PYPROJECT)
    in_project = project if project is not None and mentions_us(project) else None
    if own is None and in_project is None:
        return RepoConfig()
    from bot.config_file import parse

    parsed = parse(PYPROJECT, in_project, ("tool", "hostside")) if in_project else None
    if own is None:
        return parsed or RepoConfig()
    if parsed is not None:
        raise ConfigError(
            f"{OWN_FILE} and [tool.hostside] in {PYPROJECT} both configure Hostside; keep one"
        )
    return parse(OWN_FILE, own, ()) or RepoConfig()


def reader_of(directory: Path) -> Reader:
    """Reads files below a directory."""

    def read(path: str) -> str | None:
        file = directory / path
        try:
            return file.read_text(encoding="utf-8") if file.is_file() else None
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigError(f"{file} cannot be read as UTF-8 text ({problem})") from problem

    return read


def find_root(start: Path) -> Path:
    """The repository that holds `start`; outside of one the nearest directory with settings."""
    folders = (start, *start.parents)
    for name in (".git", OWN_FILE):  # a folder's own .github is no repository inside of one
        for directory in folders:
            if (directory / name).exists():
                return directory
    for directory in folders:
        project = directory / PYPROJECT
        if project.is_file() and mentions_us(_text(project)):
            return directory
    return start


def mentions_us(text: str) -> bool:
    """Whether this pyproject.toml may hold settings of ours."""
    # Cheaper than reading TOML, and right in every project that does not name Hostside at all.
    return "hostside" in text and _TOOL.search(text) is not None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def codes(names: list[str] | tuple[str, ...], where: str) -> frozenset[str]:
    """The rule codes that these codes, names and prefixes (`GPU1`) stand for."""
    from analyzers.rule import all_rules, find_rule

    found: set[str] = set()
    for name in (part.strip() for text in names for part in text.split(",")):
        if name.lower() in (UNUSED.lower(), "unused-suppression"):
            found.add(UNUSED)
            continue
        exact = find_rule(name)
        prefixed = {r.code for r in all_rules() if name and r.code.startswith(name.upper())}
        if exact is None and not prefixed and name.upper() != "ALL":
            raise UsageError(no_such_rule(name, where))
        everything = {r.code for r in all_rules()}
        found |= {exact.code} if exact else prefixed or everything
    return frozenset(found)


def known_gpu(name: str, where: str) -> str:
    """The facts' own name of this GPU, whatever its case and hyphens; empty stays empty."""
    if not name:
        return ""
    import difflib
    import tomllib
    from importlib import resources

    text = resources.files("analyzers.facts").joinpath("gpus.toml").read_text("utf-8")
    plain = {_levelled(known): known for known in tomllib.loads(text)["gpu"]}
    if _levelled(name) in plain:
        return plain[_levelled(name)]
    close = difflib.get_close_matches(_levelled(name), plain, 1)
    hint = f"did you mean {plain[close[0]]}?" if close else f"known are {', '.join(plain.values())}"
    raise UsageError(f"{where}: there is no GPU {name!r}; {hint}")


def _levelled(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower().removeprefix("nvidia")


def no_such_rule(name: str, where: str) -> str:
    """The sentence for a rule nobody knows, with the nearest that exists."""
    import difflib

    from analyzers.rule import all_rules

    known = [text for r in all_rules() for text in (r.code, r.name)]
    close = difflib.get_close_matches(name.upper(), known, 1) or difflib.get_close_matches(
        name.lower(), known, 1
    )
    hint = f"; did you mean {close[0]}?" if close else "; `hostside rules` lists them"
    return f"{where}: there is no rule {name!r}{hint}"


def matches(glob: str, path: str) -> bool:
    """Whether a path within the repository fits a pattern of the kind .gitignore has."""
    return _pattern(glob).match(path.removeprefix("./")) is not None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    anchored = glob.strip("/")
    parts = re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?)", anchored)
    wild = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(wild.get(part) or re.escape(part) for part in parts)
    # A pattern without a slash fits any part of the path; every pattern fits what lies beneath.
    start = "" if "/" in anchored else "(?:.*/)?"
    return re.compile(f"{start}{body}(?:/.*)?\\Z", re.S)
