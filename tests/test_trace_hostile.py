"""Files made to be slow, huge or self-contradicting: one sentence, soon, or what could be read."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from trace_files import kernel, kineto, report

from bot.cli import main

EVENT = (
    '{"ph":"X","cat":"kernel","name":"k","ts":%d,"dur":%s,"pid":0,"tid":7,'
    '"args":{"device":%d,"stream":7,"correlation":1}}'
)
GOOD = EVENT % (1, 2, 0)


def trace(path: Path, events: str) -> Path:
    path.write_text(f'{{"traceEvents":[{events}]}}')
    return path


@pytest.mark.parametrize(
    ("events", "said"),
    [
        pytest.param(
            GOOD + ',{"ph":!}' * 600_000, "over 100,000 events are broken", id="broken events"
        ),
        pytest.param('{"ph":!},' + GOOD + "]" * 3_000_000, "1 event", id="list ends that are none"),
        pytest.param("," * 9_000_000 + GOOD, "kernels", id="commas"),
        pytest.param("[" * 5_000_000, "nothing could be measured", id="brackets"),
    ],
)
def test_text_made_to_be_read_again_and_again_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], events: str, said: str
) -> None:
    start = time.process_time()
    code = main(["trace", str(trace(tmp_path / "t.json", events))])
    printed = capsys.readouterr()
    assert time.process_time() - start < 20
    assert code == (0 if printed.out else 2)
    assert said in printed.out + printed.err


def test_more_devices_than_a_machine_has_are_not_all_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = ",".join(EVENT % (number, 2, number) for number in range(1_000))
    file = str(trace(tmp_path / "t.json", many))
    assert main(["trace", file]) == 2
    assert "names 1,000 devices, more than the 256" in capsys.readouterr().err
    assert main(["trace", file, "--device", "999"]) == 0
    assert main(["trace", file, "--device", "1000"]) == 2
    assert len(capsys.readouterr().err) < 2_000


@pytest.mark.parametrize("dur", ["NaN", "-2", "Infinity", "1e400", '"soon"', "null"])
def test_where_no_event_has_a_usable_time_the_file_is_not_called_empty(
    tmp_path: Path, dur: str
) -> None:
    notes = report(trace(tmp_path / "t.json", EVENT % (1, dur, 0)))["notes"]
    assert notes == [
        "Left out because they have no usable times: 1 GPU event, which is all of them."
    ]


def test_a_report_that_cannot_be_written_is_no_fault_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(kineto(tmp_path / "t.json", kernel(0, 10)))
    assert main(["trace", file, "-o", "/dev/full"]) == 2
    assert (
        capsys.readouterr().err
        == "hostside: /dev/full cannot be written: No space left on device\n"
    )


def test_names_that_no_file_can_have_get_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(kineto(tmp_path / "t.json", kernel(0, 10)))
    for arguments in (["x" * 300], [file, "x" * 300], [file, "-o", "x" * 300]):
        assert main(["trace", *arguments]) == 2
        assert capsys.readouterr().err.endswith(": File name too long\n")


def test_the_report_does_not_replace_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 10))
    before = file.read_bytes()
    assert main(["trace", str(file), "-o", str(file)]) == 2
    assert "is the trace itself" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_schema_that_is_no_text_gets_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end)")
    connection.commit()
    connection.close()
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE CUPTI", b"C\x80EATE TABLE CUPTI"))
    assert main(["trace", str(file)]) == 2
    said = capsys.readouterr().err
    assert "the database is damaged" in said
    assert said.count("\n") == 1
