"""What a run left is a stranger's zip file: each oddity is one sentence, and none is unpacked."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from bot import bench_artifact
from bot.bench_artifact import unpacked
from bot.bench_inputs import inputs_of, order_of, request_of_order
from bot.bench_result import ResultError, request_for
from bot.bench_work import Order
from tests.standin.actions import zipped

TRACE = b"\x1f\x8btrace"
ORDER = Order(
    repo="acme/train", number=7, installation=0, base_sha="b" * 40, head_sha="a" * 40, author="",
    targets=("gpu_bench/a.py::total", "bench_*", "it's"), rounds=4, gpu="h200",
    patch="--- a/é\n+++ b/é\n", paths=("more benches", "x"),
)  # fmt: skip
TOKEN = "0123456789abcdef" * 2


def test_the_report_and_its_traces_are_found() -> None:
    left = unpacked(zipped({"report.json": b"{}", "a-b.head.1.json.gz": TRACE}))
    assert (left.report, left.problem, dict(left.files)) == (
        b"{}", "", {"a-b.head.1.json.gz": TRACE},
    )  # fmt: skip


def test_the_sentence_of_a_machine_without_a_result_is_cut_and_made_plain() -> None:
    left = unpacked(
        zipped({"problem.json": b'{"problem": "a\\u001b[31m\\n b' + b"x" * 5000 + b'"}'})
    )
    assert left.problem.startswith("a [31m bxxx")
    assert len(left.problem) == 2_000


def lying() -> bytes:
    """A file that is larger than its entry says."""
    content = bytearray(zipped({"report.json": b"0" * (17 << 20)}))
    real, said = struct.pack("<I", 17 << 20), struct.pack("<I", 10)
    return bytes(content).replace(real, said)


def encrypted() -> bytes:
    content = bytearray(zipped({"report.json": b"{}"}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + at] |= 1
    return bytes(content)


def doubled() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("report.json", b"{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("report.json", b"[]")
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"PK nothing", "no zip file", id="no zip"),
        pytest.param(b"", "no zip file", id="nothing"),
        pytest.param(zipped({"report.json": b"{}"})[:-30], "no zip file", id="cut off"),
        pytest.param(zipped({"report.json": b"0" * (17 << 20)}), "too large", id="a bomb"),
        pytest.param(lying(), "no zip file", id="a bomb that lies"),
        pytest.param(encrypted(), "no zip file", id="encrypted"),
        pytest.param(zipped({}), "holds no report.json", id="empty"),
        pytest.param(zipped({"a.head.1.json.gz": TRACE}), "holds no report.json", id="no report"),
        pytest.param(zipped({"../report.json": b"{}"}), "no trace is called", id="upwards"),
        pytest.param(zipped({"/etc/x.json.gz": TRACE}), "no trace is called", id="absolute"),
        pytest.param(zipped({"a\\b.json.gz": TRACE}), "no trace is called", id="backslash"),
        pytest.param(zipped({"x" * 300 + ".json.gz": TRACE}), "no trace is called", id="long"),
        pytest.param(zipped({"a.exe": b"MZ"}), "no trace is called", id="another kind"),
        pytest.param(
            zipped({"report.json": b"{}", "a.json.gz": b"text"}), "no gzip file", id="no gzip"
        ),
        pytest.param(
            zipped({"report.json": b"{}"} | {f"a{n}.json.gz": TRACE for n in range(60)}),
            "more than 40 files", id="many files",
        ),
        pytest.param(zipped({"problem.json": b"[]"}), "neither a result nor", id="no sentence"),
        pytest.param(zipped({"problem.json": b"[" * 9_999}), "neither", id="a nested sentence"),
        pytest.param(
            zipped({"problem.json": b'{"problem": {}}'}), "neither", id="a sentence that is none"
        ),
        pytest.param(zipped({"problem.json": b" " * 99_999}), "too large", id="a long sentence"),
    ],
)  # fmt: skip
def test_anything_else_is_one_sentence(content: bytes, words: str) -> None:
    with pytest.raises(ResultError, match=words) as problem:
        unpacked(content)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 250


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(ResultError, match="two files of one name"):
        unpacked(doubled())


def test_many_small_traces_may_not_be_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_artifact, "MOST_FILE_BYTES", 100)
    files = {f"a{n}.json.gz": TRACE + b"0" * 40 for n in range(3)}
    with pytest.raises(ResultError, match="too large"):
        unpacked(zipped({"report.json": b"{}"} | files))


# --- the inputs


def test_an_order_survives_its_way_through_the_inputs() -> None:
    inputs = inputs_of(ORDER, TOKEN)
    assert len(inputs) <= 10
    found = order_of(inputs, "acme/train")
    assert request_of_order(found, TOKEN) == request_for(ORDER, TOKEN)


def test_the_inputs_are_those_that_the_workflow_declares() -> None:
    import yaml

    from tests.bench_outside_scene import SHIPPED

    said = yaml.safe_load(SHIPPED.read_text())[True]["workflow_dispatch"]["inputs"]
    assert tuple(said) == tuple(inputs_of(ORDER, TOKEN))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bench", "../../etc"),
        ("bench", "0" * 31),
        ("pr", "1; rm"),
        ("base", "main"),
        ("head", "--upload-pack=x"),
        ("rounds", "1e9"),
        ("rounds", "61"),
        ("targets", "'"),
        ("patch", "no base64!"),
        ("patch", "eJw="),
        ("paths", "{}"),
        ("paths", "[1]"),
        ("paths", "["),
    ],
)
def test_an_input_that_hostside_never_sends_is_refused(name: str, value: str) -> None:
    with pytest.raises(ResultError):
        order_of(inputs_of(ORDER, TOKEN) | {name: value}, "acme/train")


def test_a_packed_patch_may_not_burst() -> None:
    import base64
    import zlib

    bomb = base64.b64encode(zlib.compress(b"0" * (2 << 20))).decode()
    with pytest.raises(ResultError, match="`patch`"):
        order_of(inputs_of(ORDER, TOKEN) | {"patch": bomb}, "acme/train")
