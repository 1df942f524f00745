"""The baseline: today's findings are accepted, and only new ones are reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bot.baseline import Entry, parse, written
from bot.baseline_file import schema
from bot.cli import main
from bot.errors import ConfigError
from bot.lifecycle import plan
from bot.pulls import Earlier, EarlierComment, PullRef
from tests.repository import Repository, make_repository
from tests.sample_review import EMPTY, finding, reported

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "baseline.schema.json").read_text())
REVIEW = json.loads((ROOT / "docs" / "schema" / "review.schema.json").read_text())
HEAD = "import torch\n"
F = "\n\ndef f(n):\n    return torch.zeros(n).cuda()\n"
G = "\n\ndef g(n):\n    return torch.ones(n).cuda()\n"
CONFIG = '[tool.hostside]\nbaseline = "hostside-baseline.json"\n'
REVIEW_OF_ONE = replace(EMPTY, comments=(reported(finding()),))
NAME = "hostside-baseline.json"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.chdir(tmp_path)
    return make_repository(tmp_path)


def found(capfd: Capture, *command: str) -> tuple[int, list[str], dict[str, int]]:
    """Exit code, places of findings, and what the summary says of the baseline."""
    code = main([*command, "--format", "json"])
    document = json.loads(capfd.readouterr().out)
    jsonschema.validate(document, REVIEW)
    places = [f"{f['path']}:{f['line']}" for f in document["findings"]]
    return code, places, document["summary"]["baseline"]


def baseline(capfd: Capture, *options: str) -> str:
    assert main(["baseline", *options]) == 0
    return capfd.readouterr().out


def stored(repository: Repository, name: str = NAME) -> Any:
    document = json.loads((repository.root / name).read_text())
    jsonschema.validate(document, SCHEMA)
    return document["findings"]


def test_what_is_in_the_baseline_is_left_out_and_counted(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"a.py": HEAD + F, "sub/b.py": HEAD + G, "pyproject.toml": CONFIG})
    assert "2 findings in 2 files (all new)" in baseline(capfd)
    assert found(capfd, "check", ".") == (0, [], {"left_out": 2, "stale": 0})
    repository.write("a.py", HEAD + G + F)
    assert found(capfd, "check", ".") == (1, ["a.py:5"], {"left_out": 2, "stale": 0})
    assert main(["check", "."]) == 1
    assert "2 left out by the baseline." in capfd.readouterr().out


def test_it_is_known_by_the_fingerprint_of_reports(repository: Repository, capfd: Capture) -> None:
    repository.commit({"sub/a.py": HEAD + F})
    main(["check", ".", "--format", "json"])
    (finding,) = json.loads(capfd.readouterr().out)["findings"]
    baseline(capfd)
    assert stored(repository) == [
        {
            "rule": "GPU201",
            "path": "sub/a.py",
            "text": "return torch.zeros(n).cuda()",
            "ordinal": 1,
            "fingerprint": finding["fingerprint"],
        }
    ]


def test_the_file_is_the_same_after_lines_moved(repository: Repository, capfd: Capture) -> None:
    repository.commit({"b.py": HEAD + F + G, "a.py": HEAD + F + F})
    baseline(capfd)
    before = (repository.root / NAME).read_bytes()
    repository.write("b.py", HEAD + "\n\nx = 1\n" + F + G)
    repository.write("a.py", HEAD + "\n\nx = 1\n" + F + F)
    assert "(0 new, 0 gone)" in baseline(capfd)
    assert (repository.root / NAME).read_bytes() == before
    assert [(row["path"], row["ordinal"]) for row in stored(repository)] == [
        ("a.py", 1), ("a.py", 2), ("b.py", 1), ("b.py", 1),
    ]  # fmt: skip


def test_one_more_of_the_same_line_is_new(repository: Repository, capfd: Capture) -> None:
    repository.commit({"a.py": HEAD + F, "pyproject.toml": CONFIG})
    baseline(capfd)
    repository.commit()
    repository.write("a.py", HEAD + F + F)
    code, places, said = found(capfd, "check", ".")
    assert (code, len(places), said) == (1, 1, {"left_out": 1, "stale": 0})
    repository.write("a.py", HEAD + F.replace("def f", "def g") + F)
    assert found(capfd, "review")[:2] == (1, ["a.py:5"]), "the old one is not taken for the new one"


def test_what_is_fixed_is_stale_until_it_is_taken_out(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"a.py": HEAD + F + G, "b.py": HEAD + F, "pyproject.toml": CONFIG})
    baseline(capfd)
    repository.commit()
    repository.write("a.py", HEAD + F)
    (repository.root / "b.py").unlink()
    repository.write("c.py", HEAD + G.replace("ones", "rand"))
    assert found(capfd, "check", ".") == (1, ["c.py:5"], {"left_out": 1, "stale": 2})
    assert found(capfd, "check", "a.py") == (0, [], {"left_out": 1, "stale": 1})
    assert found(capfd, "review") == (1, ["c.py:5"], {"left_out": 0, "stale": 1})
    assert main(["check", "a.py"]) == 0
    assert "1 entry of the baseline is stale: `hostside baseline --update` drops it." in " ".join(
        capfd.readouterr().out.split()
    )
    assert "1 finding in 1 file (0 new, 2 gone)" in baseline(capfd, "--update")
    assert found(capfd, "check", ".") == (1, ["c.py:5"], {"left_out": 1, "stale": 0})


def test_a_rule_that_does_not_run_makes_nothing_stale(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"a.py": HEAD + F, "pyproject.toml": CONFIG})
    baseline(capfd)
    for options in (["--ignore", "GPU2"], ["--select", "GPU1"]):
        assert found(capfd, "check", ".", *options) == (0, [], {"left_out": 0, "stale": 0})
    baseline(capfd, "--update", "--ignore", "GPU2")
    assert len(stored(repository)) == 1


def test_other_files_stay_as_they_are(repository: Repository, capfd: Capture) -> None:
    repository.commit({"a.py": HEAD + F, "b.py": HEAD + F})
    baseline(capfd)
    repository.write("a.py", HEAD + F + G)
    repository.write("b.py", HEAD + G)
    assert "3 findings in 2 files (1 new, 0 gone)" in baseline(capfd, "a.py")
    repository.write("a.py", "import torch\nprint 1\n")
    assert main(["baseline", "a.py"]) == 0
    output, error = capfd.readouterr()
    assert "3 findings in 2 files (0 new, 0 gone)" in output
    assert error.startswith("hostside: a.py was not judged: ")


def test_a_change_cannot_bring_its_own_baseline(repository: Repository, capfd: Capture) -> None:
    base = repository.commit({"a.py": HEAD, "pyproject.toml": CONFIG, NAME: written([])})
    repository.write("a.py", HEAD + F)
    baseline(capfd)
    repository.commit()
    compared = ("review", "--base", base, "--head", "HEAD")
    assert found(capfd, *compared)[:2] == (1, ["a.py:5"])
    assert found(capfd, *compared, "--baseline", NAME)[:2] == (1, ["a.py:5"])
    repository.commit({"n.py": HEAD})
    assert found(capfd, "review", "--base", "HEAD", "--baseline", NAME)[0] == 0


def test_a_file_named_on_the_command_line_counts_instead(
    repository: Repository, capfd: Capture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "accepted.json"
    base = repository.commit({"a.py": HEAD})
    repository.commit({"a.py": HEAD + F})
    assert "(all new)" in baseline(capfd, "-o", str(other))
    assert found(capfd, "check", ".", "--baseline", str(other))[:2] == (0, [])
    outside = ("review", "--base", base, "--head", "HEAD", "--baseline", str(other))
    assert found(capfd, *outside) == (0, [], {"left_out": 1, "stale": 0})


MARK = "0123456789abcdef"
ROW = {"rule": "GPU201", "path": "a.py", "text": "x", "ordinal": 1, "fingerprint": MARK}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{\n  x\n}", "b.json:2: the baseline is not valid JSON", id="not JSON"),
        pytest.param("", "b.json:1: the baseline is not valid JSON", id="empty"),
        pytest.param("<<<<<<< HEAD\n{}\n", "holds an unresolved merge", id="a merge"),
        pytest.param("[]", "is not one of ours: it must be an object", id="a list"),
        pytest.param(f"[{'9' * 5000}]", "is not valid JSON", id="a number without end"),
        pytest.param(
            '{"version": 1}', "is not one of ours: findings: field required", id="no list"
        ),
        pytest.param(
            json.dumps({"version": 1, "findings": [ROW | {"fingerprint": "no"}]}),
            "is not one of ours: findings.0.fingerprint",
            id="a wrong mark",
        ),
    ],
)
def test_a_broken_baseline_is_one_sentence(
    repository: Repository, capfd: Capture, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        parse("b.json", text)
    repository.commit({"a.py": HEAD + F, "b.json": text})
    assert main(["check", ".", "--baseline", "b.json"]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param('<<<<<<< HEAD\n{"findings": []}\n', id="a merge"),
        pytest.param('{"version": 1, "findings": [3]}', id="by hand"),
    ],
)
def test_a_broken_baseline_is_written_anew_as_a_whole_only(
    repository: Repository, capfd: Capture, text: str
) -> None:
    repository.commit({"a.py": HEAD + F, "sub/b.py": HEAD + F, "b.json": text})
    for options in (["--update"], ["sub"]):
        assert main(["baseline", "-o", "b.json", *options]) == 2
        assert "entries of other files would be lost" in capfd.readouterr().err
    assert main(["baseline", "-o", "b.json"]) == 0, "this is the way out"
    assert len(stored(repository, "b.json")) == 2


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("a.py", HEAD + F, "holds something else than a baseline", id="the code"),
        pytest.param("b.json", "{}", "holds something else than a baseline", id="other JSON"),
        pytest.param(
            "b.json", '{"version": 2, "findings": []}', "is of version 2", id="a later version"
        ),
    ],
)
def test_what_is_no_baseline_of_ours_is_not_written_over(
    repository: Repository, capfd: Capture, name: str, text: str, said: str
) -> None:
    repository.commit({"a.py": HEAD + F, name: text})
    assert main(["check", ".", "--baseline", name]) == 2
    capfd.readouterr()
    assert main(["baseline", "-o", name]) == 2
    assert said in capfd.readouterr().err
    assert (repository.root / name).read_text() == text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param("check .", "there is no baseline 'hostside-baseline.json'", id="configured"),
        pytest.param("review", "there is no baseline 'hostside-baseline.json'", id="in a review"),
        pytest.param("check . --baseline b.json", "b.json cannot be read as a", id="named"),
        pytest.param("review --baseline b.json", "the base has no b.json", id="named in a review"),
        pytest.param("baseline --update", "there is no hostside-baseline.json to up", id="update"),
        pytest.param("baseline -o no/b.json", "cannot be written", id="no place to write"),
    ],
)
def test_a_missing_baseline_is_one_sentence(
    repository: Repository, capfd: Capture, command: str, said: str
) -> None:
    repository.commit({"a.py": HEAD, "pyproject.toml": CONFIG})
    repository.write("a.py", HEAD + F)
    assert main(command.split()) == 2
    output, error = capfd.readouterr()
    assert output == ""
    assert said in error
    assert error.count("\n") == 1


def test_a_comment_whose_finding_was_accepted_says_so() -> None:
    (accepted,) = REVIEW_OF_ONE.comments
    old = EarlierComment(1, accepted.fingerprint, accepted.path, 5, accepted.body, "a" * 40)
    review = replace(REVIEW_OF_ONE, comments=(), left_out=(accepted.fingerprint,))
    todo = plan(review, Earlier((old,)), PullRef("acme", "train", 1, "b" * 40, "c" * 40))
    (edit,) = todo.edits
    assert edit.body.startswith("**Accepted by the baseline** at cccccccccccc")
    assert todo.check is not None
    assert todo.check.title == "Nothing found. 1 left out by the baseline."


def test_a_baseline_outside_of_the_repository_is_refused(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"a.py": HEAD + F, "pyproject.toml": CONFIG.replace(NAME, f"../{NAME}")})
    assert main(["check", "."]) == 2
    assert "must be a path below the top" in capfd.readouterr().err


def test_it_says_how_the_file_comes_to_be_read(
    repository: Repository, capfd: Capture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository.commit({"a.py": HEAD + F, "ci/x": ""})
    assert '(`baseline = "hostside-baseline.json"` in' in baseline(capfd)
    assert '(`baseline = "ci/b.json"` in' in baseline(capfd, "-o", "ci/b.json")
    outside = str(tmp_path_factory.mktemp("out") / "b.json")
    assert f"with --baseline {outside}." in baseline(capfd, "-o", outside)
    repository.write("pyproject.toml", CONFIG)
    assert "Name it" not in baseline(capfd)


def test_the_configured_file_is_meant_whatever_is_looked_at(
    repository: Repository, capfd: Capture
) -> None:
    config = CONFIG.replace(NAME, "accepted.json")
    repository.commit({"a.py": HEAD + F, "plain.py": "x = 1\n", "pyproject.toml": config})
    baseline(capfd)
    assert "accepted.json: 1 finding in 1 file (0 new, 0 gone)." in baseline(capfd, "plain.py")
    assert not (repository.root / NAME).exists()


def test_names_and_lines_in_any_letters_are_written_and_read_back() -> None:
    entries = [Entry("é/\\xff.py", "GPU201", 'x = "„"', 1, MARK)]
    text = written(entries)
    assert text.isascii()
    assert list(parse("b.json", text).entries) == entries


def test_the_published_schema_is_the_one_in_use() -> None:
    assert schema() == SCHEMA, "write docs/schema/baseline.schema.json anew"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate({"version": 1, "findings": [ROW]}, SCHEMA)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid({"version": 2, "findings": []})
