from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from bot import tasks
from bot.settings import Settings
from bot.work import Bell


def settings(directory: Path, broker: str = "") -> Settings:
    key = "-----BEGIN PRIVATE KEY-----"
    return Settings.model_validate(
        {
            "app_id": 1,
            "private_key": key,
            "webhook_secret": "s",
            "data_dir": directory,
            "broker_url": broker,
        }
    )


def test_a_message_carries_the_number_of_a_job_and_nothing_else(tmp_path: Path) -> None:
    tasks.bell(settings(tmp_path))(Bell(17, "review"))
    (message,) = (tmp_path / "bell" / "messages").glob("*.msg")
    said = json.loads(message.read_text())
    args, kwargs, _ = json.loads(base64.b64decode(said["body"]))
    assert (args, kwargs) == ([17], {})
    assert said["properties"]["delivery_info"]["routing_key"] == "review"


def test_the_embedded_bell_is_heard_within_a_blink(tmp_path: Path) -> None:
    options = tasks.make_celery(settings(tmp_path)).conf.broker_transport_options
    assert options["polling_interval"] == 0.05


def test_redis_gives_nothing_to_a_second_worker_before_the_first_must_be_dead(
    tmp_path: Path,
) -> None:
    made = tasks.make_celery(settings(tmp_path, "redis://localhost/0")).conf
    assert made.broker_transport_options["visibility_timeout"] > made.task_time_limit
    assert made.task_time_limit > made.task_soft_time_limit
    assert made.task_acks_late
    assert made.worker_prefetch_multiplier == 1


@pytest.mark.parametrize(
    "broker", ["redis://127.0.0.1:1/0", "amqp://guest@127.0.0.1:1//"], ids=["Redis", "RabbitMQ"]
)
def test_a_broker_that_is_away_is_told_at_once(tmp_path: Path, broker: str) -> None:
    ring = tasks.bell(settings(tmp_path, broker))
    with pytest.raises(Exception, match=r"refused|111"):
        ring(Bell(1, "review"))
