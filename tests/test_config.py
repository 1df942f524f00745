"""Configuration: what it may say, and how a mistake is named."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from analyzers.finding import Confidence, Objective, Severity
from bot.config import OWN_FILE, PYPROJECT, Reader, RepoConfig, codes, find_root, load, matches
from bot.config_file import line_of, schema
from bot.errors import ConfigError, UsageError

ROOT = Path(__file__).parents[1]


def files(**texts: str) -> Reader:
    names = {"pyproject": PYPROJECT, "own": OWN_FILE}
    return {names[key]: text for key, text in texts.items()}.get


def test_without_a_file_the_defaults_apply() -> None:
    assert load(files()) == RepoConfig()


def test_a_pyproject_of_another_tool_says_nothing() -> None:
    assert load(files(pyproject="[tool.other]\nline-length = 3\n")) == RepoConfig()


def test_every_key_is_understood() -> None:
    config = load(
        files(
            pyproject="""
[tool.hostside]
select = ["GPU1", "create-on-cpu-then-move"]
ignore = ["gpu105"]
severity = "warning"
confidence = "certain"
fail-on = "never"
objectives = ["correctness"]
include = ["src/**"]
exclude = ["tests"]
hot-functions = ["step"]
device-helpers = ["to_gpu"]
max-comments = 5
gpu = "nvidia rtx4090"

[tool.hostside.per-path-ignores]
"scripts/*" = ["GPU1"]
"""
        )
    )
    assert {"GPU105", "GPU201"} <= config.select
    assert config.ignore == {"GPU105"}
    assert (config.severity, config.confidence) == (Severity.WARNING, Confidence.CERTAIN)
    assert (config.fail_on, config.objectives) == ("never", {Objective.CORRECTNESS})
    assert (config.include, config.exclude) == (("src/**",), ("tests",))
    assert (config.hot_functions, config.device_helpers) == (("step",), ("to_gpu",))
    assert (config.max_comments, config.gpu) == (5, "RTX 4090")
    assert "GPU105" in config.for_file("scripts/x.py").ignore
    assert config.source == PYPROJECT


def test_the_own_file_has_its_keys_at_the_top() -> None:
    assert load(files(own='fail-on = "error"\n')).fail_on == "error"


def test_two_files_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="keep one"):
        load(files(own='fail-on = "error"\n', pyproject="[tool.hostside]\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            '[tool.hostside]\n\nselekt = ["GPU1"]\n',
            r"pyproject.toml:3: there is no key 'selekt'; did you mean 'select'\?",
            id="an unknown key",
        ),
        pytest.param(
            "[tool.hostside]\nfail_on = 'error'\n",
            r"pyproject.toml:2: there is no key 'fail_on'; did you mean 'fail-on'\?",
            id="underscore for hyphen",
        ),
        pytest.param(
            '[tool.hostside]\nseverity = "fatal"\n',
            r"pyproject.toml:2: severity: input should be 'error', 'warning' or 'info'; got",
            id="a value that does not exist",
        ),
        pytest.param(
            "[tool.hostside]\ngpu = 'A100'\nmax-comments = -1\n",
            "pyproject.toml:3: max-comments: input should be greater",
            id="a negative count",
        ),
        pytest.param(
            "[tool]\nhostside.ignore = 'GPU105'\n",
            "pyproject.toml:2: ignore: input should be a valid list",
            id="a word for a list, under a dotted key",
        ),
        pytest.param(
            "[tool.hostside]\n[tool.hostside.per-path-ignores]\n'a' = ['GPU1']\n'b' = 3\n",
            "pyproject.toml:4: per-path-ignores.b: input should be a valid list",
            id="inside a table",
        ),
        pytest.param(
            "[tool.hostside\n", r"pyproject.toml is not valid TOML: .*line 1", id="broken TOML"
        ),
        pytest.param(
            "[tool.hostside]\ngpu = 'A1000'\n",
            r"gpu: there is no GPU 'A1000'; did you mean A100\?",
            id="a GPU that does not exist",
        ),
        pytest.param(
            "[tool.hostside]\nselect = ['GPU1050']\n",
            r"select: there is no rule 'GPU1050'; did you mean GPU105\?",
            id="a rule that does not exist",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(files(pyproject=text))


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        pytest.param("[a]\nx = 1\n[b]\nx = 2\n", ("b", "x"), 4, id="the right table"),
        pytest.param('[a]\n"x y" = 1\n', ("a", "x y"), 2, id="a quoted key"),
        pytest.param("[a]\nb.c = 1\n", ("a", "b", "c"), 2, id="a dotted key"),
        pytest.param("[a]\n# x = 1\n\nx = [\n 1]\n", ("a", "x"), 4, id="not the comment"),
        pytest.param("[a]\n", ("a", "gone"), 1, id="the table around it"),
    ],
)
def test_a_key_is_found_in_the_text(text: str, path: tuple[str, ...], line: int) -> None:
    assert line_of(text, path) == line


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        pytest.param("*.py", "a/b/x.py", True, id="a name anywhere"),
        pytest.param("tests", "a/tests/x.py", True, id="a directory anywhere"),
        pytest.param("tests/", "tests/x.py", True, id="with a slash at its end"),
        pytest.param("/tests", "a/tests/x.py", True, id="one part is never anchored"),
        pytest.param("a/*.py", "a/x.py", True, id="one level"),
        pytest.param("a/*.py", "a/b/x.py", False, id="only one level"),
        pytest.param("a/**/x.py", "a/x.py", True, id="no level between"),
        pytest.param("a/**/x.py", "a/b/c/x.py", True, id="many levels between"),
        pytest.param("**/gen/**", "a/gen/b/x.py", True, id="everything beneath"),
        pytest.param("src/**", "src/a/x.py", True, id="from the top"),
        pytest.param("src/**", "other/src/x.py", False, id="not deeper"),
        pytest.param("a.b", "axb", False, id="a dot is a dot"),
        pytest.param("x?.py", "x1.py", True, id="one character"),
    ],
)
def test_patterns_are_those_of_gitignore(glob: str, path: str, fits: bool) -> None:
    assert matches(glob, path) is fits


def test_filters_let_through_what_is_included_and_not_excluded() -> None:
    config = RepoConfig(include=("src",), exclude=("src/gen",))
    paths = ["src/a.py", "src/gen/b.py", "other/c.py"]
    assert [config.wants(path) for path in paths] == [True, False, False]


def test_rules_are_named_by_code_name_or_prefix() -> None:
    assert codes(["GPU105"], "x") == codes(["item-in-hot-loop"], "x") == {"GPU105"}
    assert "GPU105" in codes(["gpu1"], "x")
    assert codes(["GPU105,GPU201"], "x") == {"GPU105", "GPU201"}
    assert codes(["unused-suppression"], "x") == {"GPU000"}
    with pytest.raises(UsageError, match="`hostside rules` lists them"):
        codes(["nonsense"], "--select")


def test_the_nearest_configured_directory_upward_is_the_root(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / PYPROJECT).write_text("[tool.hostside]\n")
    assert find_root(inner) == tmp_path / "a"
    (inner / OWN_FILE).parent.mkdir()
    (inner / OWN_FILE).write_text("")
    assert find_root(inner) == inner
    (tmp_path / ".git").mkdir()
    assert find_root(inner) == tmp_path, "within a repository it is always its top"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeff[tool.hostside]\nselekt = 1\n", id="behind a byte order mark"),
        pytest.param("tool = {hostside = {selekt = 1}}\n", id="an inline table"),
        pytest.param("'tool'.'hostside'.selekt = 1\n", id="a quoted key"),
        pytest.param("[ 'tool' . hostside ]\nselekt = 1\n", id="a quoted table"),
        pytest.param("[tool]\nhostside.selekt = 1\n", id="a key of the table above"),
        pytest.param("[[tool.hostside]]\nselekt = 1\n", id="a list of tables"),
    ],
)
def test_our_table_is_seen_however_it_is_written(text: str) -> None:
    with pytest.raises(ConfigError, match=r"selekt|the table"):
        load(files(pyproject=text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(f"[tool.hostside]\nx = {'[' * 5000}", "nested too deeply", id="brackets"),
        pytest.param(f"[tool.hostside]\nx = {'9' * 5000}", "number that is too long", id="digits"),
    ],
)
def test_toml_that_python_cannot_hold_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(files(pyproject=text))


def test_the_published_schema_is_the_one_in_use() -> None:
    published = json.loads((ROOT / "docs" / "schema" / "config.schema.json").read_text())
    assert published == schema(), "write it anew: hostside config schema > docs/schema/…"
    jsonschema.Draft202012Validator.check_schema(published)


@pytest.mark.parametrize(
    ("table", "right"),
    [
        pytest.param({"fail-on": "never", "select": ["GPU1"]}, True, id="right"),
        pytest.param({"fail-on": "often"}, False, id="a wrong value"),
        pytest.param({"fail_on": "never"}, False, id="an unknown key"),
    ],
)
def test_the_schema_agrees_with_the_reader(table: dict[str, object], right: bool) -> None:
    assert jsonschema.Draft202012Validator(schema()).is_valid(table) is right


def test_every_key_has_its_row_in_the_documentation() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    assert [key for key in schema()["properties"] if f"`{key}`" not in text] == []
