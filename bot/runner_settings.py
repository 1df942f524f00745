"""What a machine that measures must know: where the service is, and the secret to sign in with.

It has no credential for GitHub, no database and no App key; it only makes connections, never takes
any.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from bot.errors import ConfigError
from bot.setting_kinds import BrokerUrl, LogLevel
from bot.settings import DOTENV, PREFIX, complaint

_BELL_SECONDS = 4 * 3600.0  # longer than any benchmark, so that a bell is answered once


class RunnerSettings(BaseSettings):
    """Environment variables that start with HOSTSIDE_, or lines of `.env`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    server_url: str
    runner_token: SecretStr = Field(min_length=1)
    broker_url: BrokerUrl = ""  # empty: the service is asked every few seconds
    data_dir: Path = Path("hostside-data")  # for a broker that is a folder
    sandbox_image: str = ""
    log_level: LogLevel = "INFO"

    @field_validator("server_url")
    @classmethod
    def _web_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("should be the service's address; it starts with https://")
        return value.rstrip("/")

    @property
    def broker(self) -> str:
        """Where the bell hangs; empty when there is none."""
        return self.broker_url

    @property
    def job_seconds(self) -> float:
        """How long a bell may take to be answered."""
        return _BELL_SECONDS

    @property
    def exposed(self) -> bool:
        """Whether the secret travels over a network unencrypted."""
        parts = urlsplit(self.server_url)
        return parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1")


def load_runner_settings(dotenv: str | None = DOTENV) -> RunnerSettings:
    """The settings of this environment; a ConfigError names everything that is wrong."""
    try:
        return RunnerSettings(_env_file=dotenv)  # pyright: ignore[reportCallIssue]  # by environment
    except ValidationError as problem:
        raise ConfigError(complaint(problem)) from None  # its text would show values


def usual_name() -> str:
    """What this machine is called when nobody says otherwise."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-._")
    return name[:60] or "runner"
