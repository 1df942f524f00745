"""The trees of a request: one worktree per variant, and one folder of benchmarks for all of them.

The benchmarks come from one commit for every variant, so that a change cannot bring an easier
benchmark for itself and a benchmark that only the head has can run on the base as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpu_runner.models import BenchRequest, Build
from gpu_runner.records import Variant
from gpu_runner.scratch import scratch
from gpu_runner.select import Benchmark
from gpu_runner.tree import Repository, TreeError

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "requirements.txt", "environment.yml")


@dataclass(frozen=True)
class Trees:
    """Where each variant's source lies, and the benchmarks that all of them run."""

    sources: dict[Variant, Path]
    benches: Path
    builds: tuple[Build, ...]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants that could be built."""
        return tuple(self.sources)


def commits(request: BenchRequest) -> dict[Variant, str]:
    """The commit of each variant; the suggestion is a patch on the head."""
    found = {Variant.BASE: request.base, Variant.HEAD: request.head}
    return {each: found.get(each, request.head) for each in request.variants}


def benches_commit(request: BenchRequest) -> str:
    """The commit that the benchmarks are taken from."""
    return request.base if request.benchmarks_from == "base" else request.head


@contextlib.contextmanager
def built(
    request: BenchRequest, repository: Repository, chosen: Sequence[Benchmark]
) -> Generator[Trees]:
    """The trees, gone again afterwards; a patch that does not apply drops its variant only."""
    wanted = commits(request)
    locks = _locks_differ(repository, request)
    with (
        repository.laid_out([(each.value, sha) for each, sha in wanted.items()]) as folders,
        scratch("hostside-benches-") as area,
    ):
        sources: dict[Variant, Path] = {}
        builds: list[Build] = []
        for variant, sha in wanted.items():
            folder, problem = folders[variant.value], None
            patched = variant is Variant.SUGGESTION
            if patched and request.patch:
                problem = _applied(repository, folder, request.patch)
            if problem is None:
                sources[variant] = folder
            differs = locks and variant is not Variant.BASE
            builds.append(Build(variant, sha, patched, differs, problem))
        extract(repository, benches_commit(request), chosen, area)
        yield Trees(sources, area, tuple(builds))


def extract(repository: Repository, commit: str, chosen: Iterable[Benchmark], target: Path) -> None:
    """Writes the benchmark files and what lies beside them; only regular files of the commit."""
    wanted = {each.path for each in chosen}
    folders = {str(PurePosixPath(path).parent) for path in wanted} - {"."}
    for path in repository.files(commit):
        pure = PurePosixPath(path)
        beside = any(f"{folder}/" == path[: len(folder) + 1] for folder in folders)
        fixtures = pure.name == "conftest.py"
        if not (path in wanted or beside or fixtures) or ".." in pure.parts:
            continue
        content = repository.read(commit, path)
        if content is not None:
            (target / pure).parent.mkdir(parents=True, exist_ok=True)
            (target / pure).write_bytes(content)


def _applied(repository: Repository, folder: Path, patch: str) -> str | None:
    try:
        repository.apply(folder, patch)
    except TreeError as problem:
        return f"the suggestion does not apply to the head: {problem}"[:2000]
    return None


def _locks_differ(repository: Repository, request: BenchRequest) -> bool:
    """Whether head pins other versions than base; all variants run in one environment."""
    return any(
        repository.read(request.base, name) != repository.read(request.head, name) for name in LOCKS
    )
