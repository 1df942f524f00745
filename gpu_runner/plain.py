"""Text from a stranger's program made safe to print: no escapes, no controls, no endless length."""

from __future__ import annotations

import re

# Control sequences a terminal would act on: CSI … final byte, OSC … bell or ST, two-byte escapes.
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def plain(data: bytes | str, most: int = 16_000) -> str:
    """The text without anything a terminal or a page would interpret, cut to `most` characters."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    text = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    text = CONTROLS.sub("", ESCAPES.sub("", text))
    if len(text) <= most:
        return text
    cut = " … (cut)"
    return text[: max(0, most - len(cut))] + cut[:most]


def one_line(data: bytes | str, most: int = 500) -> str:
    """The same on one line, for sentences and names."""
    return " ".join(plain(data, 4 * most).split())[:most]
