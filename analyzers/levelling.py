"""Newer syntax written as older syntax of the same length."""

from __future__ import annotations


def level(text: str) -> str:
    """The text with constructs newer than this interpreter replaced; empty if there are none."""
    return ""
