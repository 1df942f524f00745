"""Log lines as JSON, one to a line, with the delivery they belong to.

No secret and nothing from a payload's text or a repository's files is ever passed to a logger; the
redaction here is the second fence, for what libraries say in their exceptions.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

# By their prefixes: the length of tokens changes.
_SECRET = re.compile(
    r"(gh[a-z]_|github_pat_)[\w.-]+|eyJ[\w-]{8,}\.[\w.-]+"
    r"|-----BEGIN[\s\S]*?(?:END [A-Z ]*-----|\Z)|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_CONTEXT: ContextVar[dict[str, Any]] = ContextVar("hostside_log", default={})  # noqa: B039  # never changed in place
_FIELDS = "fields"


@contextmanager
def about(**fields: Any) -> Generator[None]:
    """Every line within carries these fields."""
    token = _CONTEXT.set(_CONTEXT.get() | fields)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def say(logger: logging.Logger, message: str, level: int = logging.INFO, **fields: Any) -> None:
    """One line with fields."""
    logger.log(level, message, extra={_FIELDS: fields})


def redact(text: str) -> str:
    """The text without anything that looks like a credential."""
    return _SECRET.sub("[secret]", text)


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _CONTEXT.get() | getattr(record, _FIELDS, {})
        if record.exc_info:
            line["error"] = _where(record.exc_info)
        return redact(json.dumps(line, ensure_ascii=False, default=str))


def _where(problem: Any) -> str:
    """The exception's kind and place; its message may quote source code, so it is left out."""
    kind, _, trace = problem
    places: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return f"{kind.__name__} at {' > '.join(places[-6:])}"


def set_up(level: str) -> None:
    """Send every logger's lines to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("httpx", "httpcore", "kombu", "amqp", "celery", "hishel"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
