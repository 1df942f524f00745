"""A tree of hostile files: nothing crashes, nothing hangs, everything is named."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from bot.cli import main

LOOPS = b"".join(b" " * depth + b"for i in x:\n" for depth in range(90))
HOSTILE: dict[str, bytes] = {
    "brackets": b"import torch\nx = " + b"[" * 5000 + b"]" * 5000 + b"\n",
    "open brackets": b"import torch\nx = " + b"(" * 3000,
    "unary": b"import torch\nx = " + b"-" * 50_000 + b"1\n",
    "not": b"import torch\nx = " + b"not " * 20_000 + b"1\n",
    "lambda": b"import torch\nx = " + b"lambda:" * 12_000 + b"1\n",
    "attributes": b"import torch\nx = a" + b".b" * 40_000 + b"\n",
    "calls": b"import torch\nx = a" + b"()" * 40_000 + b"\n",
    "sums": b"import torch\nx = " + b"1 + " * 20_000 + b"1\n",
    "elif": b"import torch\nif a: pass\n" + b"elif a: pass\n" * 20_000,
    "long line": b"import torch\nx = '" + b"a" * 3_000_000 + b"'\n",
    "many lines": b"import torch\n" + b"x = 1\n" * 300_000,
    "nul": b"import torch\n\0\0\0",
    "utf-16": "import torch\n".encode("utf-16"),
    "python 2": b"import torch\nprint 1\n",
    "torn": b"import torch\ndef f(\n",
    "surrogate": b"import torch\nx = '\xed\xa0\x80'\n",
    "type parameters": b"import torch\ndef f[T](x: T) -> T:\n    return x\n",
    "nested f-strings": b"import torch\nx = f'{f'{1}'}'\n",
    "loops": b"import torch\n" + LOOPS + b" " * 90 + b"x.item()\n",
    "empty": b"",
}  # fmt: skip


@pytest.mark.slow
def test_every_hostile_file_is_named_within_the_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, data in HOSTILE.items():
        (tmp_path / f"{name}.py").write_bytes(data)
    started = time.monotonic()
    # 2: there are files with GPU code that nothing can be said of.
    assert main(["check", str(tmp_path), "--format", "json"]) == 2
    assert time.monotonic() - started < 120
    document = json.loads(capfd.readouterr().out)
    states = {Path(file["path"]).stem: file["status"] for file in document["files"]}
    assert set(states) == set(HOSTILE)
    reasons = {Path(file["path"]).stem: file["reason"] for file in document["files"]}
    silent = [n for n, state in states.items() if state != "analysed" and not reasons[n]]
    assert silent == []
    crashed = [n for n, reason in reasons.items() if "crash" in reason or "nternal" in reason]
    assert crashed == []
    assert states["type parameters"] == states["nested f-strings"] == "analysed"
