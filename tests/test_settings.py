from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import ConfigError
from bot.settings import Settings, load_settings, unknown_names

KEY = "-----BEGIN RSA PRIVATE KEY-----\nnot a real one\n-----END RSA PRIVATE KEY-----\n"
GOOD = {
    "HOSTSIDE_APP_ID": "7",
    "HOSTSIDE_PRIVATE_KEY": KEY,
    "HOSTSIDE_WEBHOOK_SECRET": "hush-hush",
}


def environment(monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    for name, value in (GOOD | {f"HOSTSIDE_{k}": v for k, v in changed.items()}).items():
        monkeypatch.setenv(name, value)


def test_three_variables_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch)
    settings = load_settings(None)
    assert settings.app_id == 7
    assert settings.key == KEY
    assert settings.secrets == (b"hush-hush",)
    assert settings.github_api_version == ""  # each server hears the one it knows
    assert settings.broker == "filesystem://localhost"
    assert settings.database.endswith("hostside-data/hostside.db")


def test_a_key_on_one_line_gets_its_lines_back(monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, PRIVATE_KEY=KEY.replace("\n", "\\n"))
    assert load_settings(None).key == KEY


def test_the_key_may_be_a_file_and_the_settings_a_dotenv(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in GOOD:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "app.pem").write_text(KEY)
    dotenv = tmp_path / ".env"
    dotenv.write_text(
        "HOSTSIDE_APP_ID=9\nHOSTSIDE_WEBHOOK_SECRET=new\nHOSTSIDE_WEBHOOK_SECRET_PREVIOUS=old\n"
        f"HOSTSIDE_PRIVATE_KEY_FILE={tmp_path / 'app.pem'}\nHOSTSIDE_ALLOWED_BOTS=1, 2\nOTHER=x\n"
    )
    settings = load_settings(str(dotenv))
    assert (settings.app_id, settings.key) == (9, KEY)
    assert settings.secrets == (b"new", b"old")
    assert settings.allowed_bots == (1, 2)


def test_everything_that_is_wrong_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, PORT="many", BROKER_URL="sqla+sqlite://", GITHUB_API_URL="ghe.test")
    monkeypatch.delenv("HOSTSIDE_APP_ID")
    with pytest.raises(ConfigError) as caught:
        load_settings(None)
    text = str(caught.value)
    for name in ("APP_ID is missing", "PORT", "BROKER_URL", "GITHUB_API_URL"):
        assert f"HOSTSIDE_{name}" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"PRIVATE_KEY": ""}, "PRIVATE_KEY_FILE must be set", id="no key"),
        pytest.param({"PRIVATE_KEY": "hush-hush-key"}, "holds no PEM key", id="no PEM"),
        pytest.param(
            {"PRIVATE_KEY": "", "PRIVATE_KEY_FILE": "/nowhere/app.pem"},
            "/nowhere/app.pem cannot be read",
            id="no such file",
        ),
        pytest.param({"WEBHOOK_SECRET": ""}, "WEBHOOK_SECRET", id="an empty secret"),
        pytest.param({"DATABASE_URL": "mysql://x"}, "sqlite:// or postgresql://", id="database"),
        pytest.param({"LOG_LEVEL": "loud"}, "DEBUG, INFO", id="level"),
    ],
)
def test_a_broken_setting_is_named_and_no_secret_shown(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], words: str
) -> None:
    environment(monkeypatch, **changed)
    with pytest.raises(ConfigError) as caught:
        load_settings(None)
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_misspelt_name_is_noticed() -> None:
    names = {"HOSTSIDE_WEBHOOK_SECERT": "x", "HOSTSIDE_DEBUG": "1", "HOSTSIDE_PORT": "1", "X": "1"}
    assert unknown_names(names) == ("HOSTSIDE_WEBHOOK_SECERT",)


def test_the_documentation_names_every_setting() -> None:
    text = (Path(__file__).parents[1] / "docs" / "app.md").read_text()
    unnamed = [n for n in Settings.model_fields if f"`HOSTSIDE_{n.upper()}`" not in text]
    assert unnamed == []
