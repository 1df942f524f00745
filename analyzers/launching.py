"""What rules ask of a launch: its dimensions, whether they are known, and what the kernel does."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from analyzers.dryrun.values import Kind, Value
from analyzers.finding import Span
from analyzers.kernels import Kernel
from analyzers.places import Place
from analyzers.timeline import Launch, Timeline

_THREADS = re.compile(r"thread|tpb|block_?(size|dim|shape)|\bbs\b|nthreads|^tx$|\bblock\b", re.I)
_BLOCKS = re.compile(r"blocks|bpg|grid|n_?blk|blk_?cnt|num_?blocks|per_?grid", re.I)
_BLOCKS_NOT = re.compile(r"per_?block|block_?(size|dim)", re.I)


@dataclass(frozen=True)
class Shape:
    """The dimensions of a grid or a block, x first; None for one that is not known."""

    parts: tuple[Value, ...]

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """The known dimensions."""
        return tuple(
            p.constant if isinstance(p.constant, int) and p.known else None for p in self.parts
        )

    @property
    def product(self) -> int | None:
        """How many there are in all; None unless every dimension is known."""
        result = 1
        for number in self.numbers:
            if number is None:
                return None
            result *= number
        return result


def shape(value: Value | None) -> Shape | None:
    """The dimensions that a grid or block value stands for; None when it cannot be seen."""
    if value is None:
        return None
    if value.kind is Kind.SEQUENCE:
        return Shape(value.items) if value.items else None
    if value.kind is Kind.NUMBER or _arithmetic(value):
        return Shape((value,))
    return None


def _arithmetic(value: Value) -> bool:
    return value.kind is Kind.UNKNOWN and hasattr(value.ref, "operator")


def kernel_of(value: Value) -> Kernel | None:
    """The definition of the kernel, when it is written in Python in this file."""
    node: Any = getattr(value.ref, "node", None)
    return Kernel(node) if node is not None else None


def is_triton(launch: Launch) -> bool:
    """Whether the grid counts programs, not blocks of threads."""
    return launch.kernel.type.startswith("triton")


def has_threads(launch: Launch) -> bool:
    """Whether the launch states a grid and a block of threads."""
    return launch.block is not None and not is_triton(launch)


def is_ceiling(value: Value) -> bool:
    """`(n + b - 1) // b`, `-(-n // b)`, `ceil(n / b)`, `cdiv(n, b)` …"""
    made = value.made_by
    if made is not None and made.fact.effect == "ceil_division":
        return True
    derived = value.ref
    operator = getattr(derived, "operator", "")
    if operator == "neg":
        return getattr(derived.left.ref, "operator", "") == "//"
    if operator == "//":
        return getattr(derived.left.ref, "operator", "") in ("+", "-")
    if operator in ("+", "*"):
        return any(
            getattr(side.ref, "operator", "") == "//" for side in (derived.left, derived.right)
        )
    return False


def is_floor_division(value: Value) -> bool:
    """`n // b` where nothing makes it round up."""
    derived = value.ref
    if getattr(derived, "operator", "") != "//":
        return False
    left, right = derived.left, derived.right
    if getattr(left.ref, "operator", "") in ("+", "-", "neg"):
        return False
    if left.known and right.known and right.constant:
        return left.constant % right.constant != 0
    return not value.known


def names_threads(text: str) -> bool:
    """Whether the name says that it counts the threads of a block."""
    return bool(_THREADS.search(text)) and not (
        bool(_BLOCKS.search(text)) and not _BLOCKS_NOT.search(text)
    )


def names_blocks(text: str) -> bool:
    """Whether the name says that it counts the blocks of a grid."""
    return bool(_BLOCKS.search(text)) and not _BLOCKS_NOT.search(text)


def serious(place: Place) -> bool:
    """Whether the launch is more than a test, a demonstration or a failed attempt."""
    function = place.function
    if function is not None and function.roles & {"test", "on_cpu"}:
        return False
    return not place.guarded


def around(timeline: Timeline, place: Place) -> str:
    """The text of the function around a place, or of the file."""
    return timeline.text(place.function.span) if place.function else timeline.source.text


def part_text(timeline: Timeline, span: Span | None, position: int) -> str:
    """How one dimension of a grid or block is written; empty when it is not written there."""
    text = timeline.text(span) if span is not None else ""
    try:
        node = ast.parse(f"({text.strip()})", mode="eval").body
    except SyntaxError:
        return ""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return ast.unparse(parts[position]) if position < len(parts) else ""
