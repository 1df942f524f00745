"""The service's figures for Prometheus; those about jobs are read from the job table itself."""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bot import upkeep
from bot.bench_records import BenchRecords
from bot.bench_work import NO_RUNNER_SECONDS
from bot.store import Store

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The figures of one process, with a registry of its own."""

    def __init__(self, store: Store) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Jobs(store))
        self.registry.register(_Benches(store))
        self.deliveries = Counter(
            "hostside_deliveries", "Webhook deliveries", ["event", "answer"],
            registry=self.registry,
        )  # fmt: skip
        self.intake = Histogram(
            "hostside_intake_seconds", "Time until a delivery was answered",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )  # fmt: skip
        self.bells = Counter(
            "hostside_bells", "Messages to the workers", ["result"], registry=self.registry
        )

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)


class _Jobs(Collector):
    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not ask the database

    def collect(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily(
            "hostside_jobs", "Jobs by kind and state", labels=["kind", "state"]
        )
        for (kind, state), number in upkeep.counts(self._store).items():
            jobs.add_metric([kind, state], number)
        yield jobs
        oldest = upkeep.oldest_queued(self._store)
        age = time.time() - oldest if oldest else 0.0
        text = "Age of the oldest job that waits to be started"
        yield GaugeMetricFamily("hostside_oldest_queued_seconds", text, value=max(age, 0.0))


class _Benches(Collector):
    def __init__(self, store: Store) -> None:
        self._records = BenchRecords(store)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        benches = GaugeMetricFamily("hostside_benches", "Benchmarks by stage", labels=["stage"])
        for stage, number in self._records.counts().items():
            benches.add_metric([stage], number)
        yield benches
        online = self._records.runners(time.time() - NO_RUNNER_SECONDS)
        text = "Machines that measure and were heard of lately"
        yield GaugeMetricFamily("hostside_runners_online", text, value=len(online))
