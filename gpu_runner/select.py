"""Which benchmarks a repository has, and which of them a diff touches.

Read from the text of the files at one commit, nothing is executed here. The project's own
`gpu_bench/` files come first, then pytest-benchmark tests, then asv suites; the first kind of which
some benchmark reaches the changed code is used.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Kind = Literal["gpu_bench", "pytest-benchmark", "asv"]
Read = Callable[[str], str | None]
KINDS: tuple[Kind, ...] = ("gpu_bench", "pytest-benchmark", "asv")
ROOTS = ("", "src/", "lib/", "python/")
MODEL = "model_"  # functions of a gpu_bench file that drive the stream model
DEEPEST = 400  # files looked at while following imports


@dataclass(frozen=True)
class Benchmark:
    """One benchmark function in a file, before its parameters are known."""

    kind: Kind
    path: str
    name: str
    target: str | None = None

    @property
    def label(self) -> str:
        """How a user names it on the command line."""
        return f"{self.path}::{self.name}"


@dataclass(frozen=True)
class Selection:
    """The benchmarks to run and, when there are none, why and what to add."""

    chosen: tuple[Benchmark, ...]
    reason: str
    offer: str | None = None


def discover(
    paths: Iterable[str], read: Read, modelled: bool = False, own: Sequence[str] = ()
) -> tuple[Benchmark, ...]:
    """Every benchmark of the repository, own files first; or the `model_*` programs instead.

    `own` are files, folders and patterns that hold own benchmarks besides `gpu_bench` folders.
    """
    found: list[Benchmark] = []
    for path in sorted(paths):
        kind = "gpu_bench" if path.endswith(".py") and _listed(path, own) else _kind(path)
        tree = _parsed(read(path)) if kind else None
        if kind and tree:
            found += _in_file(kind, path, tree) if not modelled else _programs(kind, path, tree)
    return tuple(sorted(found, key=lambda each: KINDS.index(each.kind)))


def _programs(kind: Kind, path: str, tree: ast.Module) -> Iterator[Benchmark]:
    for node in tree.body if kind == "gpu_bench" else ():
        if isinstance(node, ast.FunctionDef) and node.name.startswith(MODEL):
            yield Benchmark(kind, path, node.name, _target(node))


def select(
    found: Sequence[Benchmark], changed: Sequence[str], targets: Sequence[str], read: Read
) -> Selection:
    """What the targets name or, without targets, what reaches a changed file."""
    if targets:
        chosen = tuple(each for each in found if any(_named(each, t) for t in targets))
        missing = [t for t in targets if not any(_named(each, t) for each in found)]
        if missing:
            return Selection((), f"there is no benchmark {missing[0]!r}; `bench list` shows them")
        return Selection(chosen, "named on the command line")
    for kind in KINDS:
        ours = [each for each in found if each.kind == kind]
        chosen = tuple(each for each in ours if _reaches(each, frozenset(changed), read))
        if chosen:
            return Selection(chosen, f"{kind} benchmarks that reach the changed files")
    reason = (
        "no benchmark reaches the changed files" if found else "the repository has no benchmark"
    )
    return Selection((), reason, offer(changed, read))


def offer(changed: Sequence[str], read: Read) -> str | None:
    """A ready-made benchmark file for the first changed function, to be filled in and committed."""
    for path in changed:
        tree = _parsed(read(path)) if not _kind(path) else None
        functions = [n for n in (tree.body if tree else []) if isinstance(n, ast.FunctionDef)]
        public = [each for each in functions if not each.name.startswith("_")]
        if public:
            return _template(path, public[0])
    return None


def enclosing(text: str, lines: frozenset[int]) -> frozenset[int] | None:
    """First lines of the functions around these lines; None if one lies outside any function."""
    tree = _parsed(text)
    if tree is None:
        return None
    spans = [
        (min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.end_lineno or n.lineno)
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found: set[int] = set()
    for line in lines:
        around = [start for start, end in spans if start <= line <= end]
        if not around:
            return None
        found.add(max(around))
    return frozenset(found)


def _listed(path: str, own: Sequence[str]) -> bool:
    names = (path, *map(str, PurePosixPath(path).parents))
    return any(fnmatch.fnmatchcase(name, each.strip("/")) for each in own for name in names)


def _kind(path: str) -> Kind | None:
    pure = PurePosixPath(path)
    if pure.suffix != ".py" or pure.name.startswith("__"):
        return None
    if "gpu_bench" in pure.parts[:-1]:
        return "gpu_bench"
    if "benchmarks" in pure.parts[:-1]:
        return "asv" if not pure.name.startswith("test_") else "pytest-benchmark"
    is_test = pure.name.startswith(("test_", "bench_")) or pure.stem.endswith("_test")
    return "pytest-benchmark" if is_test else None


def _in_file(kind: Kind, path: str, tree: ast.Module) -> Iterator[Benchmark]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=owner, body=body) if kind != "gpu_bench":
                for inner in body:
                    if isinstance(inner, ast.FunctionDef) and _is_benchmark(kind, inner):
                        mark = "::" if kind == "pytest-benchmark" else "."
                        yield Benchmark(kind, path, f"{owner}{mark}{inner.name}")
            case ast.FunctionDef() if _is_benchmark(kind, node):
                yield Benchmark(kind, path, node.name, _target(node))
            case _:
                continue


def _is_benchmark(kind: Kind, node: ast.FunctionDef) -> bool:
    match kind:
        case "gpu_bench":
            decorated = any("bench" in ast.unparse(each) for each in node.decorator_list)
            return node.name.startswith("bench_") or decorated
        case "asv":
            return node.name.startswith("time_")
        case "pytest-benchmark":
            return "benchmark" in [each.arg for each in node.args.args]


def _target(node: ast.FunctionDef) -> str | None:
    for call in node.decorator_list:
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg == "target" and isinstance(keyword.value, ast.Constant):
                return str(keyword.value.value)
    return None


def _named(each: Benchmark, target: str) -> bool:
    names = (each.label, each.path, each.name, f"{each.path}::{each.name.partition('::')[0]}")
    return any(fnmatch.fnmatchcase(name, target) for name in names)


def _reaches(each: Benchmark, changed: frozenset[str], read: Read) -> bool:
    """Whether a changed file is the benchmark's own or is imported by it, however indirectly."""
    if each.path in changed:
        return True
    tree = _parsed(read(each.path))
    if tree is None:
        return False
    names = [each.target.partition(":")[0]] if each.target else list(_imports(tree, each.path))
    waiting = [path for name in names for path in _files_of(name)]
    seen: set[str] = set()
    while waiting and len(seen) < DEEPEST:
        path = waiting.pop()
        if path in changed:
            return True
        if path in seen:
            continue
        seen.add(path)
        inner = _parsed(read(path))
        if inner is not None:
            waiting += [file for name in _imports(inner, path) for file in _files_of(name)]
    return False


def _imports(tree: ast.Module, path: str) -> Iterator[str]:
    """Dotted names that a file imports, relative ones resolved; parents included."""
    package = PurePosixPath(path).parent.parts
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package[: len(package) - level + 1] if level else ()
                start = ".".join([*above, *([module] if module else [])])
                yield start
                yield from (f"{start}.{alias.name}" for alias in names)
            case _:
                continue


def _files_of(name: str) -> Iterator[str]:
    parts = [part for part in name.split(".") if part]
    for length in range(1, len(parts) + 1):
        folder = "/".join(parts[:length])
        for root in ROOTS:
            yield f"{root}{folder}.py"
            yield f"{root}{folder}/__init__.py"


def _parsed(text: str | None) -> ast.Module | None:
    try:
        return ast.parse(text) if text is not None else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _template(path: str, function: ast.FunctionDef) -> str:
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for root in ROOTS[1:]:
        module = module.removeprefix(root.replace("/", "."))
    names = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
    values = "".join(f"    {name} = ...  # a realistic value, made from `seed`\n" for name in names)
    arguments = ", ".join(names)
    packed = f"{arguments}," if len(names) == 1 else arguments
    return (
        f"# gpu_bench/bench_{function.name}.py\n"
        f"from gpu_runner.api import bench\nfrom {module} import {function.name}\n\n\n"
        f"def setup_{function.name}(seed=0):\n{values}    return ({packed})\n\n\n"
        f'@bench(target="{module}:{function.name}")\n'
        f"def bench_{function.name}({arguments}):\n"
        f"    return {function.name}({arguments})\n"
    )
