"""A snapshot of a deployment, and the one before, to rows with rates. Pure.

Guarantees: an unknown value is None, never 0. A counter that went back belongs to a process that
was started again, and has no rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from topology.top.samples import Samples, maxima_by, total, totals_by

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"
_CONNECTIONS: Final = "kafka_server_socket_server_metrics_connection_count"
_IS_CONTROLLER: Final = "kafka_controller_kafkacontroller_activecontrollercount"
_LOOP_DELAY: Final = "heliograph_event_loop_delay_seconds"
_GROUP: Final = "kafka_consumergroup_"
_MIRROR: Final = "heliograph_mirror_"

BROKER_METRICS: Final = frozenset(
    {
        *(f"{_TOPICS}{name}_total" for name in ("bytesin", "bytesout", "messagesin")),
        *(f"{_REPLICAS}{name}" for name in ("leadercount", "partitioncount")),
        f"{_REPLICAS}underreplicatedpartitions",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        _IS_CONTROLLER,
        *(f"{_GROUP}{name}" for name in ("members", "lag", "group_lag_seconds", "current_offset")),
        _CONNECTIONS,
        _LOOP_DELAY,
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
    }
)
MIRROR_METRICS: Final = frozenset(f"{_MIRROR}{name}_copied_total" for name in ("bytes", "records"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was known at one moment."""

    taken_s: float
    """A clock that never goes back."""
    status: Mapping[str, Any]
    """The status document."""
    scrapes: Mapping[str, Samples]
    """Samples by URL of the process; one that did not answer is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """What the brokers of a cluster report together."""

    name: str
    kind: str
    datacenter: str
    brokers: str
    """How many run, of how many."""
    controller: int | None
    """Id of the broker that is the controller."""
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    records_in_per_s: float | None
    under_replicated: int | None
    offline: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """One broker."""

    cluster: str
    id: int
    state: str
    cpu_share: float | None
    """CPU-seconds per second."""
    memory_bytes: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    partitions: int | None
    leaders: int | None
    connections: int | None
    loop_delay_s: float | None
    """99 % of the callbacks of the last minute ran at most so late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """One link, with the rates of all its workers."""

    name: str
    state: str
    reason: str | None
    lag_records: int | None
    lag_seconds: float | None
    records_per_s: float | None
    bytes_per_s: float | None
    probe: str | None
    probe_p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group, as its coordinator reports it."""

    cluster: str
    name: str
    members: int | None
    lag_records: int | None
    lag_seconds: float | None
    """Of the partition that is furthest behind."""
    committed_per_s: float | None
    """Offsets per second by which its committed positions moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that the screen shows."""

    name: str
    state: str
    problems: tuple[str, ...]
    clusters: tuple[ClusterRow, ...]
    links: tuple[LinkRow, ...]
    brokers: tuple[BrokerRow, ...]
    groups: tuple[GroupRow, ...]


def view_of(now: Snapshot, before: Snapshot | None = None) -> View:
    """Return the rows of a snapshot. Without the one before, rates are unknown."""
    rates = _Rates(now, before)
    status = now.status
    groups = sorted(_groups(rates), key=lambda each: (-(each.lag_records or 0), each.name))
    return View(
        name=status["name"],
        state=status["state"],
        problems=tuple(str(each["problem"]) for each in status["problems"]),
        clusters=tuple(_cluster(each, rates) for each in status["clusters"]),
        links=tuple(_link(each, rates) for each in status["links"]),
        brokers=tuple(
            _broker(cluster["name"], each, rates)
            for cluster in status["clusters"]
            for each in cluster["brokers"] or ()
        ),
        groups=tuple(groups),
    )


class _Rates:
    """Values and rates of the processes, by URL."""

    def __init__(self, now: Snapshot, before: Snapshot | None) -> None:
        self.status = now.status
        self._now = now.scrapes
        self._before = before.scrapes if before is not None else {}
        self._seconds = now.taken_s - before.taken_s if before is not None else 0.0

    def samples(self, url: str | None) -> Samples:
        return self._now.get(url or "", {})

    def value(
        self, url: str | None, name: str, labels: Mapping[str, str] | None = None
    ) -> float | None:
        return total(self.samples(url), name, labels)

    def rate(
        self, url: str | None, name: str, labels: Mapping[str, str] | None = None
    ) -> float | None:
        """Return the growth of a counter per second."""
        earlier = total(self._before.get(url or "", {}), name, labels)
        return self._growth(earlier, self.value(url, name, labels))

    def values_by(self, url: str | None, name: str, label: str) -> dict[str, float]:
        """Return the sums by the value of a label."""
        return totals_by(self.samples(url), name, label)

    def rates_by(self, url: str | None, name: str, label: str) -> dict[str, float | None]:
        """Return the growth per second by the value of a label."""
        earlier = totals_by(self._before.get(url or "", {}), name, label)
        later = self.values_by(url, name, label)
        return {key: self._growth(earlier.get(key), value) for key, value in later.items()}

    def _growth(self, earlier: float | None, later: float | None) -> float | None:
        if later is None or earlier is None or later < earlier or self._seconds <= 0:
            return None
        return (later - earlier) / self._seconds


def _cluster(cluster: Mapping[str, Any], rates: _Rates) -> ClusterRow:
    brokers = cluster["brokers"] or ()
    urls = [each["url"] for each in brokers if each.get("url")]
    controller = next(
        (each["id"] for each in brokers if rates.value(each.get("url"), _IS_CONTROLLER)),
        None,
    )
    running = sum(each["state"] == "running" for each in brokers)
    return ClusterRow(
        name=cluster["name"],
        kind=cluster["kind"],
        datacenter=cluster["datacenter"],
        brokers=f"{running}/{len(brokers)}" if cluster["brokers"] is not None else "?",
        controller=controller,
        bytes_in_per_s=_sum(_traffic(each, "bytesin", rates) for each in urls),
        bytes_out_per_s=_sum(_traffic(each, "bytesout", rates) for each in urls),
        records_in_per_s=_sum(_traffic(each, "messagesin", rates) for each in urls),
        under_replicated=_whole(
            _sum(rates.value(each, f"{_REPLICAS}underreplicatedpartitions") for each in urls)
        ),
        offline=_whole(
            _sum(
                rates.value(each, "kafka_controller_kafkacontroller_offlinepartitionscount")
                for each in urls
            )
        ),
    )


def _broker(cluster: str, broker: Mapping[str, Any], rates: _Rates) -> BrokerRow:
    url = broker.get("url")
    return BrokerRow(
        cluster=cluster,
        id=broker["id"],
        state=broker["state"],
        cpu_share=rates.rate(url, "process_cpu_seconds_total"),
        memory_bytes=rates.value(url, "process_resident_memory_bytes"),
        bytes_in_per_s=_traffic(url, "bytesin", rates),
        bytes_out_per_s=_traffic(url, "bytesout", rates),
        partitions=_whole(rates.value(url, f"{_REPLICAS}partitioncount")),
        leaders=_whole(rates.value(url, f"{_REPLICAS}leadercount")),
        connections=_whole(rates.value(url, _CONNECTIONS)),
        loop_delay_s=rates.value(url, _LOOP_DELAY, {"quantile": "0.99"}),
    )


def _link(link: Mapping[str, Any], rates: _Rates) -> LinkRow:
    urls = [each["url"] for each in rates.status["mirrors"] if each["cluster"] == link["target"]]
    of_link = {"link": link["name"]}
    probe = link["probe"] or {}
    return LinkRow(
        name=link["name"],
        state=link["state"],
        reason=link["reason"],
        lag_records=link["lag_records"],
        lag_seconds=link["lag_seconds"],
        records_per_s=_sum(
            rates.rate(each, f"{_MIRROR}records_copied_total", of_link) for each in urls
        ),
        bytes_per_s=_sum(
            rates.rate(each, f"{_MIRROR}bytes_copied_total", of_link) for each in urls
        ),
        probe=probe.get("state"),
        probe_p99_ms=(probe.get("latency_ms") or {}).get("p99"),
    )


def _groups(rates: _Rates) -> Iterator[GroupRow]:
    """Yield the groups of every cluster; its coordinator tells each."""
    for cluster in rates.status["clusters"]:
        for broker in cluster["brokers"] or ():
            url, label = broker.get("url"), "consumergroup"
            members = rates.values_by(url, f"{_GROUP}members", label)
            lags = rates.values_by(url, f"{_GROUP}lag", label)
            seconds = maxima_by(rates.samples(url), f"{_GROUP}group_lag_seconds", label)
            committed = rates.rates_by(url, f"{_GROUP}current_offset", label)
            for name in members.keys() | lags.keys():
                yield GroupRow(
                    cluster=cluster["name"],
                    name=name,
                    members=_whole(members.get(name)),
                    lag_records=_whole(lags.get(name)),
                    lag_seconds=seconds.get(name),
                    committed_per_s=committed.get(name),
                )


def _traffic(url: str | None, name: str, rates: _Rates) -> float | None:
    """Return the rate over all topics: the sample without a topic is their sum."""
    return rates.rate(url, f"{_TOPICS}{name}_total", {"topic": ""})


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of what is known; None if nothing is."""
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
