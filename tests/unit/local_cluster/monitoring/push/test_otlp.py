"""The push by OpenTelemetry: what the exporter gets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
)

from local_cluster.monitoring.push.otlp import MetricsPush, find_exporter, open_push
from local_cluster.monitoring.push.wanted import is_push_wanted
from local_cluster.prometheus_text import Family, Sample, counter, gauge


class KeptExports(MetricExporter):
    """Keeps what it is to export."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, list[tuple[dict[str, Any], float]]] = {}
        self.service = ""

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        for of_resource in metrics_data.resource_metrics:
            self.service = str(of_resource.resource.attributes["service.name"])
            for scope in of_resource.scope_metrics:
                for metric in scope.metrics:
                    self.values[metric.name] = [
                        (dict(point.attributes or {}), getattr(point, "value"))  # noqa: B009
                        for point in metric.data.data_points
                    ]
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        pass


async def test_the_last_push_has_the_metrics_with_labels_and_kinds() -> None:
    collected = asyncio.Event()

    async def collect() -> list[Family]:
        collected.set()
        return [
            gauge("g", "A gauge.", Sample(1, {"at": "a"}), Sample(2, {"at": "b"})),
            counter("c_total", "A counter.", Sample(7)),
        ]

    exporter = KeptExports()
    push = MetricsPush(collect, {"service.name": "t"}, exporter)
    push.start()
    await collected.wait()
    await asyncio.sleep(0)
    await push.stop()
    assert exporter.values == {
        "g": [({"at": "a"}, 1), ({"at": "b"}, 2)],
        "c_total": [({}, 7)],
    }
    assert exporter.service == "t"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
    ],
)
def test_the_environment_decides(
    environment: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "OTEL_METRICS_EXPORTER",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_push_wanted() is wanted


def test_an_exporter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "carrier-pigeon")
    with pytest.raises(ValueError, match="'carrier-pigeon' is not installed"):
        find_exporter()


async def test_a_push_that_cannot_be_had_is_logged_and_keeps_nobody_from_serving(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def collect() -> list[Family]:
        return []

    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "carrier-pigeon")
    assert open_push(collect, {}) is None
    assert "metrics are not pushed: the OpenTelemetry exporter 'carrier-pigeon'" in caplog.text


def test_an_installed_exporter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "console")
    assert type(find_exporter()).__name__ == "ConsoleMetricExporter"
