"""What is known of GPUs: limits of a launch, and of the product a project is written for."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """What every GPU since compute capability 7.0 has in common."""

    threads_per_block: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    warp: int
    static_shared_bytes: int  # per block, without an opt-in
    portable_blocks: tuple[int, ...]  # fill an SM of every capability


@dataclass(frozen=True, slots=True)
class Product:
    """One GPU by name."""

    name: str
    capability: str
    sms: int
    threads_per_sm: int
    fp32_per_fp64: int  # how many times faster it computes in single precision


@cache
def limits() -> Limits:
    """The limits that all GPUs share."""
    common = _read()["common"]
    return Limits(
        threads_per_block=common["threads_per_block"],
        block=(common["block_x"], common["block_y"], common["block_z"]),
        grid=(common["grid_x"], common["grid_y"], common["grid_z"]),
        warp=common["warp"],
        static_shared_bytes=common["shared_per_block_default"],
        portable_blocks=tuple(common["portable_block_sizes"]),
    )


@cache
def product(name: str | None) -> Product | None:
    """The GPU of that name or alias, whatever its case; None when it is not in the table."""
    data = _read()
    wanted = _plain(name or "")
    for known, entry in data["gpu"].items():
        if wanted and wanted in {_plain(known), *map(_plain, entry["aliases"])}:
            capability = entry["capability"]
            return Product(
                name=known,
                capability=capability,
                sms=entry["sms"],
                threads_per_sm=data["limits"][capability]["threads_per_sm"],
                fp32_per_fp64=entry["fp32_per_fp64"],
            )
    return None


def _plain(name: str) -> str:
    return name.lower().replace("nvidia", "").replace(" ", "").replace("-", "").replace("_", "")


@cache
def _read() -> dict[str, Any]:
    path = resources.files("analyzers.facts") / "gpus.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
