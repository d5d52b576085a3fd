"""Metrics of one aggregator: OpenTelemetry instruments, exported as Prometheus text.

Names follow Prometheus: base units, `_total` for counters. Labels are per link, never per message
or offset. An unknown value has no sample, so it never reads as 0.

    heliograph_offset_map_ready{link,datacenter}           1 once read to its end, else 0
    heliograph_offset_map_partitions{link,datacenter}      source partitions with mapped offsets
    heliograph_offset_map_lag_records{link,datacenter}     map records that were not read yet
    heliograph_offset_map_age_seconds{link,datacenter}     since the last read of the map topic
    heliograph_link_lag_{records,bytes,seconds}{link,datacenter}  as mirror workers report it
    heliograph_probe_{sent,received}_records_total{link,datacenter}  since the aggregator started
    heliograph_probe_lost_records{link,datacenter}         known lost records
    heliograph_probe_{doubled,out_of_order,altered}_records_total{link,datacenter}
    heliograph_probe_degraded{link,datacenter}             1 while the probe finds fault, else 0
    heliograph_probe_last_arrival_age_seconds{link,datacenter}   since the last arrival
    heliograph_probe_latency_seconds{link,datacenter}      histogram, from sending to arrival
    heliograph_audit_records{link,datacenter,verdict}      records by verdict of the audit
    heliograph_audit_findings{link,datacenter,verdict}     batches that are lost, altered, ...
    heliograph_audit_age_seconds{link,datacenter}          of the oldest copy not compared yet
    heliograph_complete_through_timestamp_seconds{link,datacenter}  least over its topics
    heliograph_completeness_gaps{link,datacenter}          journalled gaps of its copies
    heliograph_worker_clock_skew_seconds{worker}           the worker's clock minus this one
    heliograph_merged_topics                               merged topics in the catalog
    heliograph_offset_translations_total{link,direction,state}
    http_server_request_duration_seconds{http_request_method,http_route,...}
    heliograph_build_info{version}
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from aggregator.aggregate import Aggregate
from aggregator.audit.audit_document import Document
from aggregator.completeness.parts import PartCompleteness
from aggregator.link_lag import LinkLag
from aggregator.maps.followed_topic import Followed, TopicState
from aggregator.maps.link_map import LinkMap
from aggregator.probe.instruments import ProbeInstruments
from mirror_maker.formats.verdicts import FAULTS

SERVICE_NAME: Final = "heliograph-aggregator"
DURATION_BUCKETS_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class AggregatorMetrics:
    """The instruments of one process. Each instance has its own registry, so tests share none."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self._registry = CollectorRegistry()
        self._provider = MeterProvider(
            metric_readers=[
                PrometheusMetricReader(registry=self._registry, scope_info_enabled=False)
            ],
            resource=Resource.create(
                {
                    "service.name": SERVICE_NAME,
                    "heliograph.cluster": aggregate.settings.aggregate,
                }
            ),
            views=[
                View(
                    instrument_name="http.server.request.duration",
                    aggregation=ExplicitBucketHistogramAggregation(DURATION_BUCKETS_SECONDS),
                )
            ],
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter("heliograph.aggregator")
        self._translations = meter.create_counter(
            "heliograph_offset_translations", description="Translated offsets, by state"
        )
        self._durations = meter.create_histogram(
            "http.server.request.duration", unit="s", description="Duration of HTTP requests"
        )
        self._probes = ProbeInstruments(
            meter, lambda: aggregate.probes, lambda: aggregate.monotonic() * 1000
        )
        self._copies_of_links: dict[str, list[PartCompleteness]] = {}
        """The completeness of each link's copies, put together once per scrape."""
        self._observe_maps(meter)
        self._observe_lag(meter)
        self._observe_audits(meter)
        self._observe_completeness(meter)
        meter.create_observable_gauge(
            "heliograph_merged_topics",
            callbacks=[self._merged_topics],
            description="Merged topics in the catalog",
        )
        meter.create_observable_gauge(
            "heliograph_build_info",
            callbacks=[lambda _: [Observation(1, {"version": version()})]],
            description="The version that runs",
        )

    @property
    def _datacenters(self) -> dict[str, str]:
        """The datacenter of each link, by its name."""
        return {link.name: link.datacenter for link in self._aggregate.settings.links}

    def _observe_maps(self, meter: Meter) -> None:
        for name, unit, observe, description in (
            ("ready", "", _ready, "Whether the map was read to its end"),
            ("partitions", "", _partitions, "Source partitions with mapped offsets"),
            ("lag_records", "", _lag_records, "Map records that were not read yet"),
            ("age", "s", self._age_seconds, "Time since the last read of the map topic"),
        ):
            meter.create_observable_gauge(
                f"heliograph_offset_map_{name}",
                callbacks=[self._per_link(observe)],
                unit=unit,
                description=description,
            )

    def _observe_lag(self, meter: Meter) -> None:
        for name, unit, lag_of in (
            ("records", "", lambda lag: lag.records),
            ("bytes", "", lambda lag: lag.bytes),
            ("seconds", "", lambda lag: lag.seconds),
        ):
            meter.create_observable_gauge(
                f"heliograph_link_lag_{name}",
                callbacks=[self._per_link_lag(lag_of)],
                unit=unit,
                description=f"Lag of the link in {name}",
            )

    def _observe_audits(self, meter: Meter) -> None:
        for name, unit, samples, description in (
            ("records", "", _audit_records, "Records of the copies, by the audit's verdict"),
            ("findings", "", _audit_findings, "Faulty batches of the copies"),
            ("age", "s", _audit_age, "Age of the oldest copy that was not compared"),
        ):
            meter.create_observable_gauge(
                f"heliograph_audit_{name}",
                callbacks=[self._per_audit(samples)],
                unit=unit,
                description=description,
            )

    def _observe_completeness(self, meter: Meter) -> None:
        meter.create_observable_gauge(
            "heliograph_complete_through_timestamp",
            callbacks=[self._per_link_parts(_complete_through_seconds)],
            unit="s",
            description="Time through which all copies of the link are complete",
        )
        meter.create_observable_gauge(
            "heliograph_completeness_gaps",
            callbacks=[self._per_link_parts(lambda parts: sum(part.gaps for part in parts))],
            description="Gaps in the journal of the link",
        )
        meter.create_observable_gauge(
            "heliograph_worker_clock_skew",
            callbacks=[
                lambda _: [
                    Observation(each.skew_ms / 1000, {"worker": each.worker_id})
                    for each in self._aggregate.clocks
                ]
            ],
            unit="s",
            description="Clock of a mirror worker minus the aggregator's",
        )

    def _per_link_parts(
        self, value_of: Callable[[list[PartCompleteness]], float | None]
    ) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(value, {"link": link, "datacenter": self._datacenters[link]})
                for link, copies in self._copies_of_links.items()
                if (value := value_of(copies)) is not None
            ]

        return observe

    def count_translation(self, link: str, direction: str, state: str) -> None:
        """Count a translation; `direction` is forward or reverse."""
        self._translations.add(1, {"link": link, "direction": direction, "state": state})

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record an HTTP request; `route` is the pattern, never the requested path."""
        self._durations.record(
            seconds,
            {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
            },
        )

    def record_probe_latency(self, link: str, latency_ms: float) -> None:
        """Record the arrival of a probe record."""
        self._probes.record_latency(link, latency_ms)

    def render(self) -> bytes:
        """Return every metric in Prometheus text format, version 0.0.4."""
        self._copies_of_links = self._group_by_link()
        return generate_latest(self._registry)

    def _group_by_link(self) -> dict[str, list[PartCompleteness]]:
        topics = self._aggregate.completeness_parts() or {}
        found: dict[str, list[PartCompleteness]] = {}
        for part in (each for copies in topics.values() for each in copies):
            found.setdefault(part.link, []).append(part)
        return found

    def close(self) -> None:
        """Stop the provider."""
        self._provider.shutdown()

    def _per_link(
        self, value_of: Callable[[Followed[LinkMap]], float | None]
    ) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(value, {"link": link, "datacenter": self._datacenters[link]})
                for link, status in self._aggregate.maps.topics()
                if (value := value_of(status)) is not None
            ]

        return observe

    def _per_link_lag(
        self, value_of: Callable[[LinkLag], float | None]
    ) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(value, {"link": link, "datacenter": datacenter})
                for link, datacenter in self._datacenters.items()
                if (value := value_of(self._aggregate.link_lag(link))) is not None
            ]

        return observe

    def _per_audit(
        self, samples: Callable[[Document], Iterable[tuple[dict[str, str], float]]]
    ) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(
                    value, {"link": each["link"], "datacenter": each["datacenter"], **labels}
                )
                for each in self._aggregate.audit_documents()
                for labels, value in samples(each)
            ]

        return observe

    def _age_seconds(self, status: Followed[LinkMap]) -> float | None:
        return None if status.read_at is None else self._aggregate.monotonic() - status.read_at

    def _merged_topics(self, _: CallbackOptions) -> list[Observation]:
        catalog = self._aggregate.catalog()
        return [] if catalog is None else [Observation(len(catalog.merged))]


def _complete_through_seconds(parts: list[PartCompleteness]) -> float | None:
    times = [part.complete_through_ms for part in parts]
    known = [time_ms for time_ms in times if time_ms is not None]
    return min(known) / 1000 if known and len(known) == len(times) else None


def _ready(status: Followed[LinkMap]) -> float | None:
    return int(status.state is TopicState.READY)


def _partitions(status: Followed[LinkMap]) -> float | None:
    return None if status.value is None else status.value.partitions


def _audit_records(link: Document) -> Iterable[tuple[dict[str, str], float]]:
    for verdict, count in link["records"].items():
        yield {"verdict": verdict}, count


def _audit_findings(link: Document) -> Iterable[tuple[dict[str, str], float]]:
    found = Counter(each["verdict"] for part in link["partitions"] for each in part["findings"])
    for verdict in sorted(FAULTS):
        yield {"verdict": verdict.value}, found[verdict.value]


def _audit_age(link: Document) -> Iterable[tuple[dict[str, str], float]]:
    if link["age_seconds"] is not None:
        yield {}, link["age_seconds"]


def _lag_records(status: Followed[LinkMap]) -> float | None:
    return status.lag_records


def version() -> str:
    """Return the version of the installed distribution; `unknown` in a bare checkout."""
    try:
        return importlib.metadata.version("heliograph")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
