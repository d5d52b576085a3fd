"""Pushes the metrics of a process by OpenTelemetry, where its standard variables ask for it.

The push is on if one of OTEL_METRICS_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT and
OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is set, and the exporter is not `none`. OTEL_METRIC_EXPORT_*
control the interval and the timeout; resource attributes come from OTEL_SERVICE_NAME and
OTEL_RESOURCE_ATTRIBUTES. Pushed are the metrics of the process as a whole: those of partitions,
topics and groups are for a scrape. The SDK exports in a thread of its own, from a snapshot that the
event loop takes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from local_cluster.monitoring.push.exporters import load_exporter
from local_cluster.periodic import Periodic
from local_cluster.prometheus_text import Family

STOP_MS_MAX: Final = 5_000
"""Milliseconds that the last push may take: whoever stops a process kills it after some time."""
INTERVAL_MS: Final = 60_000
"""Default of OTEL_METRIC_EXPORT_INTERVAL."""
_EXPORTER: Final = "OTEL_METRICS_EXPORTER"
_ENTRY_POINTS: Final = "opentelemetry_metrics_exporter"

log = logging.getLogger(__name__)


class MetricsPush:
    """The push of one process. Call `start` and `stop` on the loop."""

    def __init__(
        self,
        collect: Callable[[], Awaitable[list[Family]]],
        attributes: dict[str, str],
        exporter: MetricExporter | None = None,
    ) -> None:
        """`attributes` are of the resource; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win. The
        default exporter is that of the environment.

        Raises ValueError if that is not installed.
        """
        self._collect = collect
        interval_ms = int(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") or INTERVAL_MS)
        ours = Resource.create({**attributes})
        self._provider = MeterProvider(
            metric_readers=[
                PeriodicExportingMetricReader(
                    exporter or find_exporter(), export_interval_millis=interval_ms
                )
            ],
            resource=ours.merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        self._meter = self._provider.get_meter("heliograph")
        self._snapshot: dict[str, Family] = {}
        self._known: set[str] = set()
        self._snapshots = Periodic(
            "metrics to push", self._take_snapshot, interval_ms=interval_ms, runs_at_start=True
        )

    def start(self) -> None:
        self._snapshots.start()

    async def stop(self) -> None:
        """Push once more, for at most `STOP_MS_MAX`."""
        await self._snapshots.stop()
        await asyncio.to_thread(self._provider.shutdown, STOP_MS_MAX)

    async def _take_snapshot(self) -> None:
        self._snapshot = {each.head.name: each for each in await self._collect()}
        for name, family in self._snapshot.items():
            if name in self._known:
                continue
            self._known.add(name)
            create = (
                self._meter.create_observable_counter
                if family.head.kind == "counter"
                else self._meter.create_observable_gauge
            )
            create(name, callbacks=[self._observer(name)], description=family.head.text)

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            family = self._snapshot.get(name)
            for sample in () if family is None else family.samples:
                yield Observation(sample.value, dict(sample.labels))

        return observe


def open_push(
    collect: Callable[[], Awaitable[list[Family]]], attributes: dict[str, str]
) -> MetricsPush | None:
    """Return the push that the environment asks for; None if it cannot be had, which is logged.

    The variables may be those of the whole host, and must not keep a process from serving.
    """
    try:
        return MetricsPush(collect, attributes)
    except ValueError as error:
        log.error("metrics are not pushed: %s", error)
        return None


def find_exporter() -> MetricExporter:
    """Return the exporter that the environment names; `otlp` by default. Raises ValueError."""
    name = os.environ.get(_EXPORTER) or "otlp"
    remedy = f"set {_EXPORTER} to an installed one, or to none"
    exporter: MetricExporter = load_exporter(_ENTRY_POINTS, name, remedy)
    return exporter
