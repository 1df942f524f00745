"""`hostside trace` as a person calls it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from trace_files import call, copy, event, kernel, kineto, region

from bot.cli import main

OVERLAPPED = (kernel(0, 1000), copy(500, 1000))
SERIAL = (copy(0, 1000), kernel(1000, 1000), copy(2000, 1000, kind="DtoH", memory="Pageable"))
SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "trace.schema.json"
NASTY = '</title><script>x</script>|@everyone `"\x1b[31m'


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return kineto(tmp_path / "base.json", *SERIAL)


@pytest.fixture
def head(tmp_path: Path) -> Path:
    return kineto(tmp_path / "head.json.gz", *OVERLAPPED)


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["trace", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_text_begins_with_overlap_and_its_ceiling(
    capsys: pytest.CaptureFixture[str], base: Path
) -> None:
    code, out, err = run(capsys, base)
    assert (code, err) == (0, "")
    assert (
        "Copy/compute overlap: 0.00 % of a possible 50.00 %. "
        "Of 2.000 ms of copies 2.000 ms are exposed."
    ) in out
    assert re.search(r"H2D alone +1\.000 ms +33\.33 %  █", out)
    assert re.search(r"pinned share +50\.00 %", out)
    assert "Times are rounded to 1 µs" in out
    assert max(map(len, out.splitlines()[:25])) <= 110


def test_two_files_are_side_by_side_on_one_scale(
    capsys: pytest.CaptureFixture[str], base: Path, head: Path
) -> None:
    code, out, _ = run(capsys, base, head)
    assert code == 0
    assert "0.00 % of a possible 50.00 % → 50.00 % of a possible 100.00 %." in out
    assert re.search(r"  overlap +0\.00 % +50\.00 %   \+50\.00 points", out)
    assert re.search(r"  region +3\.000 ms +1\.500 ms   −1\.500 ms \(−50\.0 %\)", out)
    lanes = [line for line in out.splitlines() if line.startswith("kernels") and line.endswith("|")]
    assert [len(line.partition("|")[2]) - 1 for line in lanes] == [72, 36]


def test_json_has_version_devices_and_quality(
    capsys: pytest.CaptureFixture[str], base: Path
) -> None:
    _, out, _ = run(capsys, base, "--format", "json")
    found = json.loads(out)
    assert (found["version"], [d["device"] for d in found["devices"]]) == (1, [0])
    assert found["quality"]["complete"] is True
    assert found["devices"][0]["overlap_ceiling_percent"] == 50.0


def test_json_of_two_files_holds_both_and_the_differences(
    capsys: pytest.CaptureFixture[str], base: Path, head: Path
) -> None:
    _, out, _ = run(capsys, base, head, "--format", "json")
    found = json.loads(out)
    assert found["version"] == 1
    assert found["base"]["devices"][0]["overlap_percent"] == 0.0
    assert found["head"]["devices"][0]["overlap_percent"] == 50.0
    (difference,) = found["differences"]
    assert difference["overlap_percent"] == 50.0
    assert difference["exposed_copy_us"] == -1500.0
    assert difference["duplex_percent"] is None


def test_devices_are_compared_by_their_number(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = kineto(tmp_path / "a.json", kernel(0, 1, device=0), kernel(0, 1, device=1))
    two = kineto(tmp_path / "b.json", kernel(0, 3, device=1), kernel(0, 1, device=2))
    _, out, _ = run(capsys, one, two)
    assert "device 1 ──" in out
    assert "Only in base, not compared: device 0." in out
    assert "Only in head, not compared: device 2." in out


def test_files_without_a_common_device_say_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = kineto(tmp_path / "a.json", kernel(0, 1, device=0), kernel(0, 1, device=1))
    two = kineto(tmp_path / "b.json", kernel(0, 3, device=4), kernel(0, 1, device=5))
    _, out, _ = run(capsys, one, two)
    assert "no device in common" in out


def test_a_device_can_be_picked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 1, device=0), kernel(0, 1, device=3))
    _, out, _ = run(capsys, file, "--device", "3", "--format", "json")
    assert [d["device"] for d in json.loads(out)["devices"]] == [3]


def test_a_region_can_be_picked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", region("step", 0, 500), *OVERLAPPED)
    code, out, _ = run(capsys, file, "--region", "step")
    assert code == 0
    assert "Region `step`: 500.000 µs." in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["--device", "7"], "has no device 7; devices with work: 0", id="device"),
        pytest.param(["--region", "stap"], "has no region `stap`; there are `step`", id="region"),
    ],
)
def test_what_is_not_there_is_named_with_the_way_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: Sequence[str], sentence: str
) -> None:
    file = kineto(tmp_path / "t.json", region("step", 0, 500), *OVERLAPPED)
    code, out, err = run(capsys, file, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_an_unreadable_file_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, tmp_path / "absent.json")
    assert (code, out) == (2, "")
    assert err.startswith("hostside: ")
    assert err.count("\n") == 1


def test_a_partial_result_is_shown_and_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, base: Path
) -> None:
    path = tmp_path / "cut.json"
    path.write_text(base.read_text()[:-40])
    code, out, _ = run(capsys, path)
    assert code == 0
    assert "Partial result: the JSON ends in the middle, so the last part is missing." in out


def test_a_file_without_gpu_work_is_told_in_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for form in ("text", "markdown", "html"):
        file = kineto(tmp_path / "t.json", event("cpu_op", "aten::add", 0, 5))
        code, out, _ = run(capsys, file, "--format", form)
        assert code == 0
        assert "There is no GPU work in this file" in out


def test_a_file_can_be_written_instead(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, base: Path
) -> None:
    code, out, _ = run(capsys, base, "-o", tmp_path / "out.txt")
    assert (code, out) == (0, "")
    assert "overlap" in (tmp_path / "out.txt").read_text()
    code, _, err = run(capsys, base, "-o", tmp_path / "no" / "out.txt")
    assert code == 2
    assert "cannot be written: No such file" in err


def test_markdown_is_a_table_and_a_timeline_that_github_shows(
    capsys: pytest.CaptureFixture[str], base: Path, head: Path
) -> None:
    _, out, _ = run(capsys, base, head, "--format", "markdown", "--mermaid")
    assert "| overlap | 0.00 % | 50.00 % | +50.00 points |" in out
    assert out.count("```") == 4
    assert "```mermaid\n---\ndisplayMode: compact\n" in out
    widths = {line.count("|") for line in out.splitlines() if line.startswith("|")}
    assert widths == {5}
    _, single, _ = run(capsys, base, "--format", "markdown")
    assert {line.count("|") for line in single.splitlines() if line.startswith("|")} == {4}


def nasty(tmp_path: Path) -> Path:
    events = (
        region(NASTY, 0, 500),
        call(f"cudaMemcpy{NASTY}", 0, 10),
        copy(0, 10, name=f"Memcpy HtoD ({NASTY} -> Device)"),
        kernel(5, 10, name=NASTY),
    )
    return kineto(tmp_path / "t.json", *events, deviceProperties=[{"id": 0, "name": NASTY}])


def test_names_from_the_file_are_harmless_in_markdown_and_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = nasty(tmp_path)
    _, out, _ = run(capsys, file, "--format", "markdown", "--region", "*")
    assert "<script>" not in out
    assert "@everyone" not in out
    _, text, _ = run(capsys, file)
    assert "\x1b" not in text


class Page(HTMLParser):
    """Collects tags and everything that could load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href") or name.startswith("on") or "url(" in (value or ""):
                self.active.append(f"{tag} {name}")


@pytest.mark.parametrize("two", [False, True], ids=["one file", "two files"])
def test_html_is_one_file_that_loads_and_runs_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, base: Path, two: bool
) -> None:
    files = [nasty(tmp_path), base] if two else [nasty(tmp_path)]
    _, out, _ = run(capsys, *files, "--format", "html")
    page = Page()
    page.feed(out)
    assert "script" not in page.tags
    assert page.active == []
    assert page.tags.count("svg") == 2
    assert "default-src 'none'" in out
    assert "@import" not in out


def test_html_of_two_files_tells_better_from_worse(
    capsys: pytest.CaptureFixture[str], base: Path, head: Path
) -> None:
    _, out, _ = run(capsys, base, head, "--format", "html")
    assert '<td class="good">+50.00 points</td>' in out
    _, swapped, _ = run(capsys, head, base, "--format", "html")
    assert '<td class="bad">−50.00 points</td>' in swapped


def test_a_terminal_without_unicode_gets_question_marks(
    base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        assert main(["trace", str(base)]) == 0
    assert b"?" in (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("files", ["one", "two", "no GPU work"])
def test_the_json_keeps_to_its_published_schema(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, base: Path, head: Path, files: str
) -> None:
    empty = kineto(tmp_path / "cpu.json", event("cpu_op", "aten::add", 0, 5))
    given = {"one": [base], "two": [base, head], "no GPU work": [empty]}[files]
    _, out, _ = run(capsys, *given, "--format", "json")
    jsonschema.validate(json.loads(out), json.loads(SCHEMA.read_text()))


def test_a_trace_is_printed_without_loading_the_analysis() -> None:
    heavy = "{'analyzers', 'libcst', 'pydantic', 'rich'}"
    code = f"import bot.cli.trace, sys; print(sorted({heavy} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    assert output == b"[]\n"


def test_every_printed_number_is_in_the_json(
    capsys: pytest.CaptureFixture[str], base: Path
) -> None:
    from bot.reports.trace_rows import ALL_ROWS

    _, out, _ = run(capsys, base, "--format", "json")
    device: dict[str, Any] = json.loads(out)["devices"][0]
    assert [row.key for row in ALL_ROWS if row.key not in device] == []


def test_reading_a_trace_imports_no_more_than_it_needs() -> None:
    program = (
        "import sys, bot.cli.trace, gpu_runner.trace.kineto\n"
        "unwanted = {'typing_extensions', 'pydantic', 'sqlite3', 'libcst'}\n"
        "print(sorted(unwanted & sys.modules.keys()))\n"
        "import typing_extensions; print(typing_extensions.__name__)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:2] == ["[]", "typing_extensions"]
