"""The structure of DESIGN.md that a reader relies on, read from the sources themselves."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("analyzers", "gpu_runner", "bot")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

FORBIDDEN = {
    "analyzers": ("bot", "gpu_runner", "httpx", "os", "subprocess", "socket", "requests", "urllib"),
    "gpu_runner": ("analyzers", "bot"),
}
ONLY_IN = {
    "unidiff": "bot/diff.py",
    "githubkit": "bot/github.py",
    "celery": "bot/tasks.py",
    "ollama": "bot/llm.py",
}
MODULE_LINES = 300
FUNCTION_LINES = 60


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, inside functions and `importlib` calls too."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def broken_imports(path: str, text: str) -> list[str]:
    """What a module imports although its place in the layering forbids it."""
    forbidden = FORBIDDEN.get(path.partition("/")[0], ())
    complaints: list[str] = []
    for line, name in imported(ast.parse(text)):
        root = name.partition(".")[0]
        if root in forbidden:
            complaints.append(f"{path}:{line} imports {name}")
        if ONLY_IN.get(root, path) != path:
            complaints.append(f"{path}:{line} imports {name}; only {ONLY_IN[root]} may")
    return complaints


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    assert broken_imports(relative(path), path.read_text()) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("analyzers/engine.py", "import bot.diff", id="analyzers to bot"),
        pytest.param(
            "analyzers/x.py", "from gpu_runner import stats", id="analyzers to gpu_runner"
        ),
        pytest.param("analyzers/x.py", "import os.path as p", id="os under another name"),
        pytest.param("analyzers/x.py", "def f():\n    import subprocess", id="inside a function"),
        pytest.param(
            "gpu_runner/x.py", "from analyzers.finding import Span", id="runner to analyzers"
        ),
        pytest.param(
            "gpu_runner/x.py", "import importlib as i\ni.import_module('bot')", id="by name"
        ),
        pytest.param("bot/review.py", "from unidiff import PatchSet", id="unidiff elsewhere"),
        pytest.param("bot/app.py", "import githubkit.webhooks", id="githubkit elsewhere"),
        pytest.param("tests_of/x.py", "import celery", id="celery elsewhere"),
    ],
)
def test_a_forbidden_import_is_noticed(path: str, text: str) -> None:
    assert len(broken_imports(path, text)) == 1


def test_modules_and_functions_stay_short() -> None:
    long: list[str] = []
    for path in MODULES:
        text = path.read_text()
        lines = len(text.splitlines())
        if lines > MODULE_LINES:
            long.append(f"{relative(path)} has {lines} lines, more than {MODULE_LINES}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES:
                    long.append(f"{relative(path)}:{node.lineno} {node.name} has {size} lines")
    assert long == []


def test_no_module_is_called_utils_or_helpers() -> None:
    assert [relative(path) for path in MODULES if path.stem in ("utils", "util", "helpers")] == []


# Spelled in pieces, so that this file does not contain what it looks for.
MACHINE = re.compile(
    r"(?<![\w.:/-])/(?:wor" + r"k|roo" + r"t|ho" + r"me|Use" + r"rs)/\w"  # somebody's checkout
    r"|pypi\.or"
    + r"g/simple|files\.python"
    + r"hosted|--(?:extra-)?index-"
    + r"url|PIP_INDEX_"
    + "URL"
)


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout; `git clone` the repository to run this test")
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def test_no_tracked_file_names_a_machine_path_or_a_registry_host() -> None:
    hits: list[str] = []
    for path in tracked_files():
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if found := MACHINE.search(line.decode(errors="replace")):
                hits.append(f"{relative(path)}:{number} says {found.group()}")
    assert hits == []


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        pytest.param("cd /wor" + "k/main", True, id="a checkout's path"),
        pytest.param("'/roo" + "t/x'", True, id="root's directory"),
        pytest.param("/ho" + "me/someone/x", True, id="a user's directory"),
        pytest.param("--index-" + "url=https://mirror.example", True, id="a registry mirror"),
        pytest.param("https://example.org/work/about", False, id="part of an address"),
        pytest.param("a/work/b and root/x", False, id="a relative path"),
        pytest.param("Path('/roo" + "t')", False, id="a system folder as such"),
    ],
)
def test_a_machine_path_is_told_from_a_harmless_word(line: str, seen: bool) -> None:
    assert bool(MACHINE.search(line)) is seen
