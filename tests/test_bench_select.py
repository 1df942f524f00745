"""Which benchmarks are found, which a change touches, and what is offered where there is none."""

from __future__ import annotations

import pytest

from gpu_runner.select import discover, enclosing, offer, select
from gpu_runner.tree import _changes  # pyright: ignore[reportPrivateUsage]

FILES = {
    "gpu_bench/bench_glue.py": (
        "from gpu_runner.api import bench\n"
        "from pkg.glue import total\n"
        "def setup_total(seed=0): ...\n"
        '@bench(target="pkg.glue:total")\n'
        "def bench_total(values): return total(values)\n"
        "def model_total(gpu): ...\n"
    ),
    "gpu_bench/bench_far.py": "from pkg import far\ndef bench_far(): return far.go()\n",
    "gpu_bench/__init__.py": "",
    "benchmarks/suite.py": (
        "import pkg.other\n"
        "class Suite:\n    def setup(self): ...\n    def time_other(self): ...\n"
        "def time_alone(): ...\n"
    ),
    "tests/test_speed.py": (
        "from pkg.other import run\n"
        "def test_run(benchmark): benchmark(run)\n"
        "def test_plain(): ...\n"
        "class TestGroup:\n    def test_in_class(self, benchmark): ...\n"
    ),
    "pkg/__init__.py": "",
    "pkg/glue.py": "from .deep import inner\ndef total(values): ...\n",
    "pkg/deep.py": "def inner(): ...\n",
    "pkg/far.py": "def go(): ...\n",
    "pkg/other.py": "def run(): ...\n",
    "pkg/broken.py": "def (:\n",
    "README.md": "def bench_no(): ...",
}
FOUND = discover(FILES, FILES.get)


def test_every_kind_is_found_own_files_first() -> None:
    assert [(each.kind, each.label) for each in FOUND] == [
        ("gpu_bench", "gpu_bench/bench_far.py::bench_far"),
        ("gpu_bench", "gpu_bench/bench_glue.py::bench_total"),
        ("pytest-benchmark", "tests/test_speed.py::test_run"),
        ("pytest-benchmark", "tests/test_speed.py::TestGroup::test_in_class"),
        ("asv", "benchmarks/suite.py::Suite.time_other"),
        ("asv", "benchmarks/suite.py::time_alone"),
    ]
    assert FOUND[1].target == "pkg.glue:total"


def test_programs_for_the_model_are_found_apart() -> None:
    found = discover(FILES, FILES.get, modelled=True)
    assert [each.label for each in found] == ["gpu_bench/bench_glue.py::model_total"]


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        pytest.param("pkg/glue.py", ["bench_total"], id="the target itself"),
        pytest.param("pkg/deep.py", ["bench_total"], id="imported by the target, relatively"),
        pytest.param("pkg/far.py", ["bench_far"], id="a module taken from its package"),
        pytest.param("gpu_bench/bench_far.py", ["bench_far"], id="the benchmark itself"),
        pytest.param(
            "pkg/other.py", ["test_run", "TestGroup::test_in_class"], id="another kind reaches it"
        ),
        pytest.param("setup.py", [], id="nothing reaches it"),
    ],
)
def test_a_change_selects_what_reaches_it(changed: str, chosen: list[str]) -> None:
    selection = select(FOUND, [changed], (), FILES.get)
    assert [each.name for each in selection.chosen] == chosen


@pytest.mark.parametrize(
    ("target", "chosen"),
    [
        pytest.param("bench_far", ["bench_far"], id="a function"),
        pytest.param("gpu_bench/*", ["bench_far", "bench_total"], id="a pattern"),
        pytest.param("benchmarks/suite.py", ["Suite.time_other", "time_alone"], id="a file"),
        pytest.param("tests/test_speed.py::TestGroup", ["TestGroup::test_in_class"], id="a class"),
    ],
)
def test_a_target_names_benchmarks_whatever_changed(target: str, chosen: list[str]) -> None:
    selection = select(FOUND, [], (target,), FILES.get)
    assert [each.name for each in selection.chosen] == chosen


def test_a_target_that_does_not_exist_is_said() -> None:
    selection = select(FOUND, [], ("bench_far", "bench_gone"), FILES.get)
    assert selection.chosen == ()
    assert selection.reason == "there is no benchmark 'bench_gone'; `bench list` shows them"


def test_the_offered_file_is_complete_but_for_the_values() -> None:
    found = offer(["README.md", "src/pkg/new.py"], {"src/pkg/new.py": "def go(a, b): ..."}.get)
    assert found == (
        "# gpu_bench/bench_go.py\n"
        "from gpu_runner.api import bench\n"
        "from pkg.new import go\n\n\n"
        "def setup_go(seed=0):\n"
        "    a = ...  # a realistic value, made from `seed`\n"
        "    b = ...  # a realistic value, made from `seed`\n"
        "    return (a, b)\n\n\n"
        '@bench(target="pkg.new:go")\n'
        "def bench_go(a, b):\n"
        "    return go(a, b)\n"
    )
    assert offer(["pkg/broken.py"], FILES.get) is None


def test_lines_belong_to_the_innermost_function_decorator_included() -> None:
    text = "X = 1\n@deco\ndef outer():\n    def inner():\n        return 1\n    return inner\n"
    assert enclosing(text, frozenset({5})) == {4}
    assert enclosing(text, frozenset({3, 6})) == {2}
    assert enclosing(text, frozenset({1, 5})) is None


def test_a_diff_without_context_gives_lines_of_both_sides() -> None:
    text = (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"
        "@@ -3,2 +3 @@ def f():\n--- minus\n-y\n+++ plus\n@@ -9,0 +9,2 @@\n+a\n+b\n"
        "diff --git a/gone.py b/gone.py\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    first, second = _changes(text)
    assert (first.path, first.removed, first.added) == ("a.py", {3, 4}, {3, 9, 10})
    assert (second.path, second.removed, second.added) == ("gone.py", {1}, set())


@pytest.mark.parametrize("own", ["speed", "speed/", "speed/*.py", "*/timing.py", "speed/timing.py"])
def test_a_repository_names_other_places_of_own_benchmarks(own: str) -> None:
    files = {
        "speed/timing.py": "def bench_one(): ...\n",
        "speed/data.txt": "def bench_two(): ...\n",
    }
    (found,) = discover(files, files.get, own=(own,))
    assert (found.kind, found.label) == ("gpu_bench", "speed/timing.py::bench_one")
    assert discover(files, files.get) == ()
