"""The expressions of a workflow file, as far as the shipped ones use them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|\|\||&&|==|!=|[()!,]|[A-Za-z_][\w.-]*|\d+)")
_INSIDE = re.compile(r"\$\{\{(.*?)\}\}", re.S)
STATUS = ("success", "failure", "cancelled", "always")


@dataclass
class Expressions:
    """Evaluates with these contexts; `ended` is how the steps or jobs before went."""

    contexts: dict[str, Any]
    ended: str = "success"

    def fill(self, text: str) -> Any:
        """A value of the file with its expressions evaluated; one alone keeps its type."""
        whole = re.fullmatch(_INSIDE, text.strip())
        if whole:
            return self.value(whole[1])
        return _INSIDE.sub(lambda found: shown(self.value(found[1])), text)

    def holds(self, condition: str) -> bool:
        """Whether an `if:` holds."""
        text = condition.removeprefix("${{").removesuffix("}}")
        if not any(f"{name}(" in text for name in STATUS):
            text = f"success() && ({text})"
        return bool(self.value(text))

    def value(self, text: str) -> Any:
        return _Parser(_TOKEN.findall(text), self).whole()

    def call(self, name: str, given: list[Any]) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "fromJSON": json.loads,
            "toJSON": json.dumps,
            "format": lambda form, *rest: _formatted(form, rest),
            "contains": lambda text, part: part.lower() in text.lower(),
            "always": lambda: True,
            "success": lambda: self.ended == "success",
            "failure": lambda: self.ended == "failure",
            "cancelled": lambda: self.ended == "cancelled",
        }
        return functions[name](*given)

    def look_up(self, path: str) -> Any:
        found: Any = self.contexts
        for name in path.split("."):
            found = found.get(name, "") if isinstance(found, dict) else ""
        return found


def shown(value: Any) -> str:
    """A value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _formatted(form: str, given: tuple[Any, ...]) -> str:
    return re.sub(r"\{(\d)\}", lambda found: shown(given[int(found[1])]), form)


@dataclass
class _Parser:
    tokens: list[str]
    world: Expressions

    def whole(self) -> Any:
        value = self._either()
        assert not self.tokens, self.tokens
        return value

    def _next(self, *wanted: str) -> bool:
        if self.tokens and self.tokens[0] in wanted:
            self.tokens.pop(0)
            return True
        return False

    def _either(self) -> Any:
        value = self._both()
        while self._next("||"):
            other = self._both()
            value = value or other
        return value

    def _both(self) -> Any:
        value = self._compared()
        while self._next("&&"):
            other = self._compared()
            value = value and other
        return value

    def _compared(self) -> Any:
        value = self._single()
        if self._next("=="):
            return shown(value).lower() == shown(self._single()).lower()
        if self._next("!="):
            return shown(value).lower() != shown(self._single()).lower()
        return value

    def _single(self) -> Any:
        if self._next("!"):
            return not self._single()
        if self._next("("):
            value = self._either()
            assert self._next(")")
            return value
        token = self.tokens.pop(0)
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if self._next("("):
            given: list[Any] = []
            while not self._next(")"):
                given.append(self._either())
                self._next(",")
            return self.world.call(token, given)
        return self.world.look_up(token)
