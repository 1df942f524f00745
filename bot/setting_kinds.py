"""Kinds of settings that the service and a runner share, with what is wrong in one sentence."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

_BROKERS = ("filesystem", "redis", "rediss", "amqp", "amqps")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def _broker(value: str) -> str:
    if value and value.partition(":")[0] not in _BROKERS:
        raise ValueError("should start with redis://, amqp:// or filesystem://")
    return value


def _level(value: str) -> str:
    if value.upper() not in _LEVELS:
        raise ValueError("should be DEBUG, INFO, WARNING or ERROR")
    return value.upper()


BrokerUrl = Annotated[str, AfterValidator(_broker)]  # may be empty
LogLevel = Annotated[str, AfterValidator(_level)]
