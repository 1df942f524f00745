"""Versioned JSON both ways for frozen dataclasses, with the reader on its guard.

A benchmark result comes from a machine that ran a stranger's code, so reading checks every field:
unknown keys, control characters, numbers that are not finite, and oversized texts are refused
with one sentence. The harness inside the sandbox never imports this module (it needs pydantic).
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from gpu_runner.errors import FormatError

# No control characters (terminal escapes) and no bidirectional overrides in anything we print.
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
_LINE = rf"^[^\t\n{_CONTROLS}]*$"
_TEXT = rf"^[^{_CONTROLS}]*$"

Label = Annotated[str, Field(min_length=1, max_length=300, pattern=_LINE)]
Sentence = Annotated[str, Field(max_length=2_000, pattern=_LINE)]
Text = Annotated[str, Field(max_length=16_000, pattern=_TEXT)]
Sha = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
Count = Annotated[int, Field(ge=0, le=2**62)]
Positive = Annotated[int, Field(ge=1, le=2**62)]
Amount = Annotated[float, Field(ge=0, le=1e18)]
Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[float, Field(ge=-1e18, le=1e18)]

T = TypeVar("T")

LARGEST = 64 * 1024 * 1024  # bytes of JSON we are willing to read


class Record:
    """Base of everything that travels: unknown keys and loose types are refused on reading."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False
    )


class Message(Record):
    """A record that is a whole file or message of its own."""

    def to_json(self) -> str:
        """This message as one JSON object, readable by `from_json` of the same version."""
        return _adapter(type(self)).dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The message that the JSON holds; `FormatError` says which field is wrong and why."""
        if len(text) > LARGEST:
            raise FormatError(
                f"{cls.__name__} is larger than {LARGEST >> 20} MiB; run fewer benchmarks at once"
            )
        try:
            return _adapter(cls).validate_json(text)
        except ValidationError as problem:
            raise FormatError(_sentence(cls.__name__, problem)) from None

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """JSON schema (2020-12) of this message, as published in `docs/schema/`."""
        return _adapter(cls).json_schema()


@functools.cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def _sentence(name: str, problem: ValidationError) -> str:
    first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(_printable(str(part)) for part in first["loc"][:8]) or "the top level"
    wrong = "control characters or another form than asked for"
    said = wrong if first["type"] == "string_pattern_mismatch" else _printable(first["msg"])
    more = problem.error_count() - 1
    rest = f" (and {more} more)" if more else ""
    return (
        f"{name} is not valid at {place}: {said}{rest}; "
        "it comes from another version of Hostside or was changed on the way"
    )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:120]
