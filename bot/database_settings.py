"""Where the service's database is: all that a command needs which only looks into it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from bot.errors import ConfigError, UsageError

PREFIX = "HOSTSIDE_"
DOTENV = ".env"
_DATABASES = ("sqlite", "postgresql")


class DatabaseSettings(BaseSettings):
    """The folder of the service's data, and the database if it is elsewhere."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    data_dir: Path = Path("hostside-data")
    database_url: str = ""  # empty: a file of data_dir

    @field_validator("database_url")
    @classmethod
    def _database(cls, value: str) -> str:
        kind = value.partition(":")[0].partition("+")[0]
        if value and kind not in _DATABASES:
            raise ValueError("should start with sqlite:// or postgresql://")
        if kind == "postgresql":
            return "postgresql+psycopg:" + value.partition(":")[2]
        return value

    @property
    def database(self) -> str:
        """Where the job table is, as SQLAlchemy wants it."""
        return self.database_url or f"sqlite:///{self.database_file}"

    @property
    def database_file(self) -> Path:
        """The file of the default database."""
        return (self.data_dir / "hostside.db").absolute()

    @property
    def existing_database(self) -> str:
        """The same; a UsageError when it would be made only now."""
        if not self.database_url and not self.database_file.is_file():
            raise UsageError(
                f"there is no database in {self.data_dir}; set {PREFIX}DATA_DIR or "
                f"{PREFIX}DATABASE_URL as the service has it"
            )
        return self.database


def database_settings(dotenv: str | None = DOTENV) -> DatabaseSettings:
    """Where the database of this environment is; a ConfigError says what is wrong."""
    try:
        return DatabaseSettings(_env_file=dotenv)  # pyright: ignore[reportCallIssue]
    except ValidationError as problem:
        (said,) = (each["msg"] for each in problem.errors(include_input=False)[:1])
        said = said.removeprefix("Value error, ")
        raise ConfigError(f"{PREFIX}DATABASE_URL {said}") from None
