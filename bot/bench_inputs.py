"""A benchmark as the inputs of a workflow run, and back: texts that fit into GitHub's limits.

GitHub Enterprise Server takes ten inputs, and 65,535 characters of all of them together.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
import zlib
from collections.abc import Mapping
from typing import Any

from bot.bench_result import ResultError, request_for
from bot.bench_work import Order
from gpu_runner.errors import FormatError
from gpu_runner.models import BenchRequest

NAMES = ("bench", "pr", "base", "head", "targets", "rounds", "gpu", "patch", "paths")
TOKEN = re.compile(r"[0-9a-f]{32}\Z")
_MOST_CHARACTERS = 65_000  # of 65,535: the names and quotes may count as well
_LARGEST_PATCH = 1 << 20
_REPO = re.compile(r"[^/\s]+/[^/\s]+\Z")
_NUMBER = re.compile(r"\d{1,9}\Z")


def inputs_of(order: Order, token: str) -> dict[str, str]:
    """What the workflow is started with; a ResultError when GitHub would not take that much."""
    made = {
        "bench": token,
        "pr": str(order.number),
        "base": order.base_sha,
        "head": order.head_sha,
        "targets": shlex.join(order.targets),
        "rounds": str(order.rounds or ""),
        "gpu": order.gpu,
        "patch": _packed(order.patch),
        "paths": json.dumps(order.paths) if order.paths else "",
    }
    if len(json.dumps(made)) > _MOST_CHARACTERS:
        raise ResultError(
            "the suggestion is too large to be handed to a workflow, whose inputs may have 65,535 "
            "characters; ask with `suggestion=none`, or measure with `hostside gpu-runner`"
        )
    return made


def order_of(inputs: Mapping[str, str], repo: str) -> Order:
    """The order that these inputs were made of, as far as measuring goes; checked."""
    said = {name: inputs.get(name, "") for name in NAMES}
    for name, form in (("bench", TOKEN), ("pr", _NUMBER)):
        if not form.match(said[name]):
            raise _wrong(name)
    if not _REPO.match(repo):
        raise ResultError("the repository's name is not of the form owner/name")
    if said["rounds"] and not _NUMBER.match(said["rounds"]):
        raise _wrong("rounds")
    order = Order(
        repo=repo,
        number=int(said["pr"]),
        installation=0,
        base_sha=said["base"],
        head_sha=said["head"],
        author="",
        targets=_words(said["targets"]),
        rounds=int(said["rounds"] or 0),
        gpu=said["gpu"],
        patch=unpacked_patch(said["patch"]),
        paths=_list(said["paths"]),
    )
    request_of_order(order, said["bench"])
    return order


def request_of_order(order: Order, token: str) -> BenchRequest:
    """The request, read once more as a stranger's: every field within its limits."""
    try:
        return BenchRequest.from_json(request_for(order, token).to_json())
    except (FormatError, ValueError) as problem:
        raise ResultError(f"the inputs ask for what cannot be measured ({problem})") from None


def _packed(patch: str) -> str:
    return base64.b64encode(zlib.compress(patch.encode(), 9)).decode() if patch else ""


def unpacked_patch(text: str) -> str:
    """The patch that an input holds."""
    if not text:
        return ""
    try:
        machine = zlib.decompressobj()
        content = machine.decompress(base64.b64decode(text, validate=True), _LARGEST_PATCH)
        if machine.unconsumed_tail or not machine.eof:
            raise _wrong("patch")
        return content.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        raise _wrong("patch") from None


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise _wrong("targets") from None


def _list(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    try:
        said: Any = json.loads(text)
    except ValueError:
        raise _wrong("paths") from None
    if not isinstance(said, list) or not all(isinstance(each, str) for each in said):  # pyright: ignore[reportUnknownVariableType]
        raise _wrong("paths")
    return tuple(str(each) for each in said)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _wrong(name: str) -> ResultError:
    return ResultError(f"the workflow's input `{name}` is not what Hostside sends")
