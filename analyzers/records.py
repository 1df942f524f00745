"""Frozen records that cost little to make: one analysis makes hundreds of thousands of them.

A frozen dataclass sets each field through a function call, and `dataclasses.replace` looks up each
field by name. Together that was a quarter of the time of a dry run.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """The class as a dataclass with slots, frozen for readers and for the type checker.

    Only they enforce it: nothing stops an assignment at run time, which is what makes it fast.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


def replace(value: T, **changes: Any) -> T:
    """A copy of a record with some fields changed."""
    cls = value.__class__
    made = cls(*_reader(cls)(value))
    for name, new in changes.items():
        setattr(made, name, new)
    return made


@cache
def _reader(cls: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all fields of a record of that class, which has two or more."""
    return attrgetter(*cls.__match_args__)


class Word(enum.Enum):
    """One word of a closed vocabulary; looked up in sets and dictionaries without a detour.

    The hash of a plain `Enum` is computed anew from its name each time.
    """

    __hash__ = object.__hash__
