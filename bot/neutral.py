"""Strangers' text made harmless: no mention, markup, broken fence or hidden character."""

from __future__ import annotations

import html
import re

from bot.suggestions import DECEPTIVE

_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_ACTIVE = re.compile(r"([\\*_\[\]!|~#])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# A word joiner keeps an address readable and stops it from calling anybody.
_CALL = re.compile(r"@(?=[\w-])")
_ISSUE = re.compile(r"#(?=\d)|(?i:\bGH)(?=-\d)")
_BLOCK = re.compile(r"^(\d*)([-+=.)])")  # what starts a list or underlines a heading
_LINK = re.compile(r"(?i)\b(https?|ftp)://|\bwww\.")


def visible(text: str) -> str:
    """The text with characters that hide or reorder others written as <U+202E>."""
    return DECEPTIVE.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)


def prose(text: str) -> str:
    """A sentence for Markdown: its code spans stay, everything else is plain text."""
    text = " ".join(visible(text).split())
    parts: list[str] = []
    end = 0
    for match in _SPAN.finditer(text):
        parts += [_plain(text[end : match.start()]), code(match[2])]
        end = match.end()
    return _BLOCK.sub(r"\1\\\2", "".join([*parts, _plain(text[end:])]))


def _plain(text: str) -> str:
    text = "".join(_ENTITIES.get(character, character) for character in text)
    text = _ACTIVE.sub(r"\\\1", text)
    text = _LINK.sub(lambda match: match[0].replace("/", "&#47;").replace(".", "&#46;"), text)
    text = _ISSUE.sub("\\g<0>\u2060", _CALL.sub("@\u2060", text))
    return text.replace("`", "&#96;")  # last, for it holds what the others change


def markup(text: str) -> str:
    """A sentence as HTML, its code spans as `<code>`; for HTML blocks, where Markdown sleeps."""
    text = " ".join(visible(text).split())
    parts: list[str] = []
    end = 0
    for match in _SPAN.finditer(text):
        parts += [_calm(text[end : match.start()]), f"<code>{_calm(match[2].strip())}</code>"]
        end = match.end()
    return "".join([*parts, _calm(text[end:])])


def _calm(text: str) -> str:
    calm = _ISSUE.sub("\\g<0>\u2060", _CALL.sub("@\u2060", text))
    return html.escape(calm)


def code(text: str) -> str:
    """A code span that holds exactly this text."""
    text = " ".join(visible(text).split())
    fence = "`" * (longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(text: str, language: str = "") -> str:
    """A fenced block that no line of the text can close."""
    fence = "`" * max(3, longest_run(text) + 1)
    # An empty text is no line at all: an empty suggestion deletes, a blank one leaves a blank line.
    lines = f"{text.removesuffix(chr(10))}\n" if text else ""
    return f"{fence}{language}\n{lines}{fence}"


def longest_run(text: str) -> int:
    """How many backticks follow each other at most."""
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
