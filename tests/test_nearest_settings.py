"""Several packages in one repository: for each file the nearest settings upward count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.baseline import NONE
from bot.cli import main
from bot.config import PYPROJECT, RepoConfig, load
from bot.config_nearest import folders_above, for_change, with_nested
from bot.diff import Change, ChangedFile, whole_file
from bot.errors import ConfigError
from bot.review import Conclusion, build_review
from tests.github_scene import scene
from tests.repository import Repository, make_repository

FAULTY = "import torch\n\n\ndef f(n):\n    return torch.zeros(n).cuda()\n"
CLEAN = "import torch\n"
TOP = "[tool.hostside]\nignore = ['GPU1']\nexclude = ['third_party']\n"
QUIET = "[tool.hostside]\nignore = ['GPU2']\n"
LOOSE = "[tool.hostside]\nfail-on = 'error'\nexclude = ['gen']\n"
SETTINGS = {"pyproject.toml": TOP, "a/pyproject.toml": QUIET, "b/pyproject.toml": LOOSE}

Capture = pytest.CaptureFixture[str]


def configured(texts: dict[str, str]) -> RepoConfig:
    folders = folders_above(texts)
    return with_nested(load(texts.get), texts.get, folders)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.chdir(tmp_path)
    return make_repository(tmp_path)


def found(capfd: Capture, *command: str) -> tuple[int, list[str]]:
    code = main([*command, "--format", "json"])
    document = json.loads(capfd.readouterr().out)
    return code, [f"{f['path']}" for f in document["findings"]]


def test_the_nearest_counts_alone_with_patterns_seen_from_its_folder() -> None:
    config = configured({**SETTINGS, "a/deep/pyproject.toml": "[tool.hostside]\n"})
    assert "GPU105" in config.for_file("x.py").ignore
    assert "GPU105" not in config.for_file("a/x.py").ignore
    assert "GPU201" in config.for_file("a/sub/x.py").ignore
    assert config.for_file("a/deep/x.py").ignore == frozenset()
    assert config.nearest("ab/x.py") == (config, "ab/x.py")
    assert config.nearest("b/sub/x.py")[1] == "sub/x.py"


def test_what_the_top_excludes_stays_out() -> None:
    config = configured({**SETTINGS, "third_party/p/pyproject.toml": "[tool.hostside]\n"})
    paths = ["a/x.py", "a/gen/x.py", "b/gen/x.py", "b/x.py", "third_party/p/x.py"]
    assert [config.wants(path) for path in paths] == [True, True, False, True, False]


def test_other_tools_below_change_nothing() -> None:
    assert configured({"pyproject.toml": TOP, "a/pyproject.toml": "[tool.ruff]\n"}).nested == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[tool.hostside]\n\nselekt=[]\n", "a/pyproject.toml:3: there is", id="a key"),
        pytest.param("[tool.hostside]\nmax-comments = 1\n", "2: max-comments is for", id="the PR"),
        pytest.param("[tool.hostside]\nbaseline = 'b'\n", "2: baseline is for the", id="the whole"),
        pytest.param("[tool.hostside.bench]\npaths = []\n", "1: bench is for the", id="a table"),
        pytest.param("[tool.hostside\n", "a/pyproject.toml is not valid TOML", id="no TOML"),
        pytest.param("[tool.hostside]\nignore = ['GPU9999']\n", "a/py.* no rule", id="no rule"),
    ],
)
def test_a_mistake_below_is_named_with_its_file_and_line(
    repository: Repository, capfd: Capture, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        configured({"a/pyproject.toml": text})
    repository.commit({"a/pyproject.toml": text, "a/x.py": FAULTY, "y.py": FAULTY})
    assert main(["check", "y.py"]) == 1, "it is not on the way up from this file"
    capfd.readouterr()
    assert main(["check", "."]) == main(["config", "check"]) == 2
    assert capfd.readouterr().err.count("a/pyproject.toml") == 2


def test_a_check_follows_each_package(repository: Repository, capfd: Capture) -> None:
    files = {"a/x.py": FAULTY, "b/x.py": FAULTY, "b/gen/x.py": FAULTY, "c/x.py": FAULTY}
    repository.commit({**SETTINGS, **files})
    assert found(capfd, "check", ".") == (1, ["b/x.py", "c/x.py"])
    assert found(capfd, "check", "a", "b") == (0, ["b/x.py"]), "a warning does not fail in b"
    assert found(capfd, "check", "b", "--fail-on", "warning")[0] == 1, "the command line wins"
    assert found(capfd, "check", "b", "c", "--ignore", "GPU2") == (0, [])
    assert found(capfd, "check", ".", "--no-config")[1] == sorted(files)


def test_from_inside_a_package_the_same_is_found(
    repository: Repository, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({**SETTINGS, "a/x.py": FAULTY, "b/x.py": FAULTY})
    monkeypatch.chdir(repository.root / "b")
    assert found(capfd, "check", "x.py") == (0, ["x.py"])
    assert found(capfd, "check", "../a/x.py") == (0, [])
    (repository.root / "b" / "y.py").write_text(FAULTY)
    assert found(capfd, "review") == (0, ["b/y.py"])
    assert main(["config", "check"]) == 0
    output = capfd.readouterr().out
    assert "b/pyproject.toml is right:\n" in output
    assert "a/pyproject.toml is right.\n" in output
    assert "fail-on           error" in output


def test_a_review_reads_the_settings_of_the_base(repository: Repository, capfd: Capture) -> None:
    base = repository.commit({**SETTINGS, "a/x.py": CLEAN, "b/x.py": CLEAN, "c/x.py": CLEAN})
    repository.commit(
        {
            "a/x.py": FAULTY,
            "b/x.py": FAULTY,
            "b/pyproject.toml": QUIET,
            "c/x.py": FAULTY,
            "c/pyproject.toml": QUIET,
        }
    )
    assert found(capfd, "review", "--base", base, "--head", "HEAD") == (1, ["b/x.py", "c/x.py"])
    repository.commit({"b/y.py": FAULTY, "c/y.py": FAULTY})
    assert found(capfd, "review", "--base", "HEAD~1", "--head", "HEAD") == (0, [])


def test_without_a_repository_the_packages_still_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in {**SETTINGS, "a/x.py": FAULTY, "b/x.py": FAULTY, "c/x.py": FAULTY}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "pyproject.toml").unlink()
    assert found(capfd, "check", "a/x.py", "b/x.py", "c/x.py") == (1, ["b/x.py", "c/x.py"])


def test_of_two_repositories_the_first_is_the_point_of_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("one", LOOSE + "max-comments = 3\n"), ("two", QUIET)):
        make_repository(tmp_path / name).commit({"pyproject.toml": text, "x.py": FAULTY})
    assert found(capfd, "check", "one", "two/x.py") == (0, ["one/x.py", "two/x.py"])


def test_the_failing_severity_is_that_of_the_file() -> None:
    text, config = FAULTY.encode(), configured(SETTINGS)
    b, c = (ChangedFile(f"{p}/x.py", Change.ADDED, whole_file(text), text) for p in "bc")
    assert build_review([b], config).conclusion is Conclusion.SUCCESS
    assert build_review([b, c], config).conclusion is Conclusion.FAILURE


def test_a_rule_that_is_ignored_on_a_pull_request_is_ignored_in_every_folder() -> None:
    config = configured(SETTINGS).ignoring(frozenset({"GPU201"}))
    assert all("GPU201" in config.for_file(p).ignore for p in ("x.py", "a/x.py", "b/x.py"))


def test_on_github_only_the_way_up_from_gpu_code_is_asked_for(tmp_path: Path) -> None:
    base = {**SETTINGS, "a/x.py": CLEAN, "b/x.py": CLEAN, "far/away/z.py": "x = 1\n"}
    head = {"a/x.py": FAULTY, "b/x.py": FAULTY, "far/away/z.py": "x = 2\n", "docs/i.md": "hi\n"}
    with scene(tmp_path, base, head) as opened:  # type: ignore[arg-type]
        client = opened.client()
        read = client.reader(opened.ref)
        asked: list[str] = []

        def reading(path: str) -> str | None:
            asked.append(path)
            return read(path)

        files = client.changed_files(opened.ref)
        config = for_change(load(reading), reading, files)
        client.close()
    assert asked == [".github/hostside.toml", PYPROJECT, f"a/{PYPROJECT}", f"b/{PYPROJECT}"]
    review = build_review(files, config, baseline=NONE)
    assert [c.path for c in review.comments] == ["b/x.py"]


def test_a_change_of_very_many_folders_costs_only_so_many_requests() -> None:
    asked: list[str] = []
    files = [
        ChangedFile(f"{'d/' * depth}x.py", Change.ADDED, (), FAULTY.encode())
        for depth in range(1, 300)
    ]
    for_change(RepoConfig(), asked.append, files)
    assert len(asked) == 100
    assert asked[0] == f"d/{PYPROJECT}"
