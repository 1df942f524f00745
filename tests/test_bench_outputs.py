"""Outputs as they leave the sandbox, and how they are held against the base's."""

from __future__ import annotations

import array
import collections
import math
import struct
from typing import Any

import pytest

from gpu_runner.compare import Output, difference, opaque
from gpu_runner.encode import digest, encode
from gpu_runner.frames import FrameError, pack, parse, sizes


def out(value: Any) -> Output:
    return Output(*encode(value))


def floats(values: list[float], code: str = "d") -> array.array[float]:
    return array.array(code, values)


Point = collections.namedtuple("Point", "x y")


class Lazy(list[float]):
    """A list that would compute when it is read."""


SAME = [
    pytest.param(1.0, 1.0 + 1e-12, id="a float within its tolerance"),
    pytest.param(math.nan, math.nan, id="NaN at the same place"),
    pytest.param(math.inf, math.inf, id="the same infinity"),
    pytest.param([1, "a", None, True], [1, "a", None, True], id="a list"),
    pytest.param({"a": (1.0, 2)}, {"a": (1.0 + 1e-12, 2)}, id="a nested dict"),
    pytest.param(floats([1, 2], "f"), floats([1, 2.00001], "f"), id="single precision"),
    pytest.param([0.5] * 100, [0.5 + 1e-12] * 100, id="a long list of numbers"),
    pytest.param(2**70, 2**70, id="a large integer"),
    pytest.param(1 + 2j, 1 + 2j, id="a complex number"),
]
OTHER = [
    pytest.param(1.0, 1.001, "the output is 1 where the base's is 1.001", id="a float"),
    pytest.param(1.0, math.nan, "the output is 1.0 where the base's is nan", id="NaN on one side"),
    pytest.param(math.inf, -math.inf, "the output is inf where the base's is -inf", id="signs"),
    pytest.param(1, 1.0, "the output is of type int, the base's is of type float", id="the type"),
    pytest.param(True, 1, "the output is True, the base's is of type int", id="bool and int"),
    pytest.param([1, 2], [1], "the output has 2 parts, the base's 1", id="a length"),
    pytest.param([1, [2]], [1, [3]], "the output[1][0] differs: '2' instead of '3'", id="nested"),
    pytest.param({"a": 1}, {"b": 1}, "the output[0] differs: 'a' instead of 'b'", id="a key"),
    pytest.param(None, 1, "the output is None, the base's is of type int", id="nothing"),
    pytest.param(
        floats([1.0]), floats([1.0], "f"), "the output has dtype float64, the base's has float32",
        id="a dtype",
    ),
    pytest.param(
        floats([1.0, 2.0]), floats([1.0]), "the output has shape [2], the base's has [1]",
        id="a shape",
    ),
    pytest.param(
        array.array("i", [1]), array.array("i", [2]), "the output is 1 where the base's is 2",
        id="integers are exact",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "base"), SAME)
def test_these_count_as_equal(ours: Any, base: Any) -> None:
    assert difference(out(ours), out(base)).reason is None


@pytest.mark.parametrize(("ours", "base", "said"), OTHER)
def test_these_differ_and_the_place_is_said(ours: Any, base: Any, said: str) -> None:
    reason = difference(out(ours), out(base)).reason
    assert reason is not None
    assert reason.startswith(said)


def test_a_difference_far_into_an_array_is_found() -> None:
    base = floats([0.0] * 200_000)
    ours = floats([0.0] * 200_000)
    ours[199_999] = 1.0
    found = difference(out(ours), out(base))
    assert (found.absolute, found.relative) == (1.0, 1.0)
    assert found.reason is not None


def test_the_tolerance_of_the_author_counts() -> None:
    assert difference(out(1.0), out(1.05), 0.1).reason is None
    assert difference(out(1.0), out(1.0 + 1e-12), 0.0).reason is not None


@pytest.mark.parametrize(
    ("dtype", "data", "base"),
    [
        pytest.param("float16", struct.pack("<e", 1.0), struct.pack("<e", 1.005), id="half"),
        pytest.param("bfloat16", b"\x80\x3f", b"\x81\x3f", id="bfloat16"),
        pytest.param(
            "complex64", struct.pack("<2f", 1, 2), struct.pack("<2f", 1, 2.0001), id="complex"
        ),
    ],
)
def test_narrow_types_have_their_own_tolerance(dtype: str, data: bytes, base: bytes) -> None:
    spec = {"t": "array", "kind": "torch", "dtype": dtype, "shape": [1], "device": "cuda"}
    spec["at"] = [0, len(data)]
    found = difference(Output(spec, data), Output(spec, base))
    assert found.reason is None
    assert found.absolute > 0


def test_a_tensor_on_another_device_differs() -> None:
    spec: dict[str, Any] = {"t": "array", "kind": "torch", "dtype": "float32", "shape": [0]}
    ours, base = ({**spec, "at": [0, 0], "device": device} for device in ("cpu", "cuda"))
    assert difference(Output(ours, b""), Output(base, b"")).reason == (
        "the output has device cpu, the base's has cuda"
    )


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(Lazy([1.0]), id="a list of its own kind"),
        pytest.param(object(), id="an object"),
    ],
)
def test_what_could_compute_while_it_is_read_is_opaque(value: Any) -> None:
    assert opaque(out([value, 1]).spec) is not None
    assert opaque(out(Point(1, 2)).spec) is None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"t": "array"}, id="fields are missing"),
        pytest.param({}, id="no type"),
        pytest.param({"t": "float", "v": "loud"}, id="not a number"),
        pytest.param(
            {
                "t": "array",
                "kind": "x",
                "dtype": "float64",
                "shape": [9],
                "at": [0, 72],
                "device": "c",
            },
            id="bytes that are not there",
        ),
        pytest.param({"t": "list", "v": 3}, id="a list that is none"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        difference(Output(spec, b""), Output(dict(spec), b"x"))


def test_digests_tell_contents_apart() -> None:
    assert digest([1.0] * 50) == digest([1.0] * 50)
    assert digest([1.0] * 50) != digest([1.0] * 49 + [2.0])
    assert digest(floats([1])) != digest(floats([1], "f"))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"FASTER by 900 %!", id="words"),
        pytest.param(struct.pack(">4sIQ", b"HSF1", 1 << 31, 0), id="an endless header"),
        pytest.param(struct.pack(">4sIQ", b"HSF1", 2, 1 << 60), id="an endless payload"),
    ],
)
def test_frames_that_are_not_ours_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        sizes(data)


@pytest.mark.parametrize("text", [b"", b"[1]", b"{", b"[" * 100_000, b"\xff"])
def test_headers_that_are_no_objects_are_refused(text: bytes) -> None:
    with pytest.raises(FrameError):
        parse(text)


def test_a_frame_comes_back_as_it_was() -> None:
    data = pack({"op": "run"}, b"\0\1")
    header, payload = sizes(data[:16])
    assert parse(data[16 : 16 + header]) == {"op": "run"}
    assert data[16 + header :] == b"\0\1"
    assert payload == 2
