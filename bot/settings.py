"""The service's settings: environment variables that start with HOSTSIDE_, or lines of `.env`.

What is missing or broken is named at the start, all of it at once, never at the first webhook.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import NoDecode

from bot.database_settings import DOTENV, PREFIX, DatabaseSettings
from bot.errors import ConfigError
from bot.setting_kinds import BrokerUrl, LogLevel

# Read elsewhere, so not mistakes here.
_ELSEWHERE = frozenset({"DEBUG", "DOCS_URL", "SANDBOX", "SANDBOX_IMAGE", "SERVER_URL"})
SHORTEST_TOKEN = 20


class Settings(DatabaseSettings):
    """Everything an operator may set; only the App's identity has no default."""

    app_id: int = Field(gt=0)
    private_key: SecretStr = SecretStr("")
    private_key_file: Path | None = None
    webhook_secret: SecretStr = Field(min_length=1)
    webhook_secret_previous: SecretStr = SecretStr("")  # still accepted while a new one spreads
    github_api_url: str = "https://api.github.com"
    github_api_version: str = ""  # empty: the newest on github.com, 2022-11-28 elsewhere
    public_url: str = ""
    broker_url: BrokerUrl = ""  # empty: a folder of data_dir
    runner_token: SecretStr = SecretStr("")  # empty: no `hostside gpu-runner` can sign in
    runner_token_previous: SecretStr = SecretStr("")  # still accepted while a new one spreads
    bench_source_mib: int = Field(default=512, ge=1)  # of a repository's two commits, packed
    bench_per_repository: int = Field(default=50, ge=0)  # in 24 hours; 0: no limit
    bench_per_person: int = Field(default=20, ge=0)  # the same, in one repository
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    workers: int = Field(default=0, ge=0, le=64)  # 0: one for each core
    allowed_bots: Annotated[tuple[int, ...], NoDecode] = ()  # user ids whose commands count
    job_seconds: float = Field(default=600, ge=5)
    lease_seconds: float = Field(default=60, ge=1)
    max_attempts: int = Field(default=6, ge=1)
    retry_seconds: float = Field(default=10, gt=0)  # before the second attempt; then doubled
    reap_seconds: float = Field(default=1, gt=0)
    watch_seconds: float = Field(default=15, gt=0)  # between two looks at a workflow run
    sweep_seconds: float = Field(default=600, ge=0)  # 0: GitHub is not asked for failed deliveries
    keep_days: float = Field(default=30, gt=0)
    trace_days: float = Field(default=90, gt=0)  # raw traces of benchmarks; the reports stay
    write_seconds: float = Field(default=1, ge=0)  # between two writes to GitHub
    log_level: LogLevel = "INFO"

    @field_validator("allowed_bots", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        return value.replace(",", " ").split() if isinstance(value, str) else value

    @field_validator("github_api_url", "public_url")
    @classmethod
    def _web_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in ("http", "https") or not parts.netloc):
            raise ValueError("should be an address that starts with https://")
        return value.rstrip("/")

    @field_validator("runner_token", "runner_token_previous")
    @classmethod
    def _guessable(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and len(value.get_secret_value()) < SHORTEST_TOKEN:
            raise ValueError(
                f"should be {SHORTEST_TOKEN} characters or more; `openssl rand -hex 32`"
            )
        return value

    @model_validator(mode="after")
    def _one_key(self) -> Settings:
        if bool(self.private_key.get_secret_value()) == bool(self.private_key_file):
            raise ValueError(
                f"{PREFIX}PRIVATE_KEY or {PREFIX}PRIVATE_KEY_FILE must be set, and not both"
            )
        return self

    @property
    def key(self) -> str:
        """The App's private key in PEM."""
        if self.private_key_file is None:
            # One line is all that some hosts' forms allow.
            return self.private_key.get_secret_value().replace("\\n", "\n")
        return self.private_key_file.read_text(encoding="ascii")

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """The webhook secrets that count, the newest first."""
        both = (self.webhook_secret, self.webhook_secret_previous)
        return tuple(s.get_secret_value().encode() for s in both if s.get_secret_value())

    @property
    def runner_tokens(self) -> tuple[bytes, ...]:
        """What a machine that measures may sign in with; empty: there are none."""
        both = (self.runner_token, self.runner_token_previous)
        return tuple(s.get_secret_value().encode() for s in both if s.get_secret_value())

    @property
    def broker(self) -> str:
        """Where the bell hangs, as Celery wants it."""
        return self.broker_url or "filesystem://localhost"

    @property
    def concurrency(self) -> int:
        """How many jobs one worker does at a time."""
        return self.workers or os.cpu_count() or 1


def load_settings(dotenv: str | None = DOTENV) -> Settings:
    """The settings of this environment; a ConfigError names everything that is wrong."""
    try:
        settings = Settings(_env_file=dotenv)  # pyright: ignore[reportCallIssue]  # by environment
    except ValidationError as problem:
        raise ConfigError(complaint(problem)) from None  # its text would show values
    _readable_key(settings)
    return settings


def unknown_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that look like settings and are none: most likely misspelt."""
    known = {name.upper() for name in Settings.model_fields} | _ELSEWHERE
    return tuple(
        sorted(
            name
            for name in environment
            if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in known
        )
    )


def _readable_key(settings: Settings) -> None:
    name = f"{PREFIX}PRIVATE_KEY" + ("_FILE" if settings.private_key_file else "")
    try:
        key = settings.key
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is no text"
        raise ConfigError(
            f"{name}: {settings.private_key_file} cannot be read ({reason}); "
            "download the App's key from its settings page and name that file"
        ) from None
    if "PRIVATE KEY-----" not in key:
        raise ConfigError(f"{name} holds no PEM key; it starts with -----BEGIN … PRIVATE KEY-----")


def complaint(problem: ValidationError) -> str:
    """One line that names every setting that is wrong, and shows no value."""
    texts: list[str] = []
    for error in problem.errors(include_input=False, include_url=False):
        name = PREFIX + "_".join(str(part) for part in error["loc"]).upper() if error["loc"] else ""
        what = "is missing" if error["type"] == "missing" else error["msg"]
        what = what.removeprefix("Value error, ").removeprefix("Input ")
        texts.append(f"{name} {what}".strip())
    return f"{'; '.join(texts)}; set it in the environment or in {DOTENV}"
