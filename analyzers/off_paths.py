"""What the path of a file says: whether it is a test, or a benchmark."""

from __future__ import annotations

import re
from functools import lru_cache

_TEST = r"tests?|testing|conftest"
# What measures, and what runs once.
_OFF = r"bench(mark)?(s|ing)?|profil(e|er|ing)|timers?|convert(er|ers)?|ckpts?|demos?"
_TRIED_OUT = re.compile(r"(^|/)((tests?|testing|bench\w*)/|(test_|bench)\w*\.py)|_test\.py$")
_TESTS = re.compile(rf"(^|[/_.-])({_TEST})([/_.-]|$)", re.IGNORECASE)
_TESTS_AND_BENCHMARKS = re.compile(rf"(^|[/_.-])({_TEST}|{_OFF})([/_.-]|$)", re.IGNORECASE)


@lru_cache(maxsize=256)
def is_test(path: str) -> bool:
    """Whether the file checks something: nobody waits for it to be fast."""
    return _TESTS.search(path) is not None


@lru_cache(maxsize=256)
def is_test_or_benchmark(path: str) -> bool:
    """Whether waits are the subject of the file, or cost nothing that anybody would notice."""
    return _TESTS_AND_BENCHMARKS.search(path) is not None


def is_tried_out(path: str) -> bool:
    """Whether folder or file name say that it is a test or benchmark, and nothing looser."""
    return _TRIED_OUT.search(path) is not None
