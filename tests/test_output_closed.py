"""A reader that goes away, a disk that is full, an output that is closed: no fault of ours."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", ["rules", "explain GPU105", "--help"])
@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        pytest.param(
            "> /dev/full",
            2,
            "hostside: the output cannot be written: No space left on device\n",
            id="a full disk",
        ),
        pytest.param("| true; exit ${PIPESTATUS[0]}", 0, "", id="a reader that went away"),
        pytest.param(">&-", 0, "", id="a closed output"),
    ],
)
def test_the_output_that_cannot_be_written(command: str, where: str, code: int, said: str) -> None:
    line = f"{sys.executable} -m bot {command} {where}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, said)
