"""A worker's status as Prometheus text: our own metrics, and MirrorMaker 2's by their names. Pure.

An unknown value has no sample, because a 0 that means "unknown" would hide an outage.

MirrorMaker 2's names are those that the usual exporter rules make of its MBeans
`kafka.connect.mirror:type=MirrorSourceConnector,source=,target=,topic=,partition=` and
`...:type=MirrorCheckpointConnector,source=,target=,group=,topic=,partition=`, so its dashboards
show this mirror too. Their `topic` is the name of the copy. Rates cover MirrorMaker 2's window
(`WindowedRate`). Its -min, -max and -avg cover a window as well; here they cover the time since the
worker took the flow over. The latency of a checkpoint runs from the request for a group's position
to the commit or checkpoint.

`docs/design/mirror-metrics-text.md` says why this is not written with prometheus_client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from local_cluster.prometheus_text import labels_text
from mirror_maker.metrics.latency import BOUNDS_MS, summed_counts
from mirror_maker.model import FlowState

JsonObject = Mapping[str, Any]
Samples = Iterable[tuple[str, object]]
"""Labels and value; None has no sample."""

PREFIX: Final = "heliograph_mirror_"
HISTOGRAM: Final = "heliograph_mirror_replication_latency_seconds"
MM2_PREFIX: Final = "kafka_connect_mirror_mirrorsourceconnector_"
CHECKPOINT_PREFIX: Final = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
CONSUMER_LAG: Final = "kafka_consumer_fetch_manager_records_lag"
"""Metric of the consumer inside MirrorMaker 2."""
_CONNECT: Final[Mapping[str, Callable[[JsonObject], int]]] = {
    "kafka_connect_worker_connector_count": lambda _: 1,
    "kafka_connect_worker_task_count": lambda link: len(link["flows"]),
    "kafka_connect_coordinator_assigned_connectors": lambda _: 1,
    "kafka_connect_coordinator_assigned_tasks": lambda link: len(link["flows"]),
}
"""Metrics of the Connect worker around MirrorMaker 2 -> what a link adds: it is a connector here,
and each partition that this worker copies a task. Dashboards find their clusters by the first."""

_STATS: Final = {"": "last_ms", "_min": "min_ms", "_max": "max_ms", "_avg": "mean_ms"}
"""Suffix of a metric's name -> key of the latency statistics."""
_MM2: Final = {
    "record_count": ("records_copied", None),
    "record_rate": ("records_per_second", None),
    "byte_count": ("bytes_copied", None),
    "byte_rate": ("bytes_per_second", None),
    **{f"record_age_ms{suffix}": ("record_age", key) for suffix, key in _STATS.items()},
    **{f"replication_latency_ms{suffix}": ("latency", key) for suffix, key in _STATS.items()},
}
"""Name behind the prefix -> key of the value in the status of a flow, and inside that."""
_LINK_GAUGES: Final[Mapping[str, tuple[str, Callable[[JsonObject], object]]]] = {
    "rights_missing": (
        "Operations that a cluster refused.",
        lambda link: len(link["rights_missing"]) if "rights_missing" in link else None,
    ),
    "map_unwritten_seconds": (
        "How long the map could not be written.",
        lambda link: link.get("map_unwritten_seconds"),
    ),
    "partitions": ("Partitions that this worker copies.", lambda link: link["partitions"]),
}
_FLOW_METRICS: Final = {
    "lag_records": ("gauge", "Source records not yet on the target."),
    "lag_bytes": ("gauge", "Source bytes not yet on the target."),
    "lag_seconds": ("gauge", "Age of the oldest source record not yet on the target."),
    "records_copied": ("counter", "Records acknowledged by the target."),
    "bytes_copied": ("counter", "Bytes of batches acknowledged by the target, as compressed."),
    "batches_left_out": ("counter", "Source batches not to be copied: control, aborted, empty."),
    "restarts": ("counter", "How often the flow had to prove its position again."),
}


class _Flow:
    """The status of one flow, with its labels rendered once."""

    def __init__(self, link: JsonObject, status: JsonObject) -> None:
        self.status = status
        self._labels = _labels(
            link=link["name"], topic=status["topic"], partition=str(status["partition"])
        )

    def labels(self, **more: str) -> str:
        """Return the labels, with one or none more behind them."""
        return self._labels if not more else f"{self._labels[:-1]},{_labels(**more)[1:]}"


def render_metrics(status: JsonObject) -> str:
    """Return the Prometheus exposition of a worker's status."""
    return "\n".join(_metric_lines(status["target"], status["links"])) + "\n"


def _metric_lines(target: str, links: Sequence[JsonObject]) -> Iterator[str]:
    flows = [_Flow(link, flow) for link in links for flow in link["flows"]]
    yield from _link_lines(links)
    for key, (kind, text) in _FLOW_METRICS.items():
        name = f"{key}_total" if kind == "counter" else key
        yield from _family(name, kind, text, ((each.labels(), each.status[key]) for each in flows))
    yield from _family(
        "batches_total",
        "counter",
        "Batches copied, by path.",
        _counted(flows, "path", lambda flow: flow["batches"]),
    )
    yield from _latency_lines(links)
    yield from _mm2_lines(target, links)
    yield from _checkpoint_lines(target, links)
    yield from _trouble_lines(flows)
    yield from _audit_lines(flows, links)
    yield from _family(
        "group_positions",
        "gauge",
        "Positions of consumer groups, by sync state.",
        (
            (_labels(link=link["name"], state=state), count)
            for link in links
            for state, count in ((link.get("groups") or {}).get("states") or {}).items()
        ),
    )


def _link_lines(links: Sequence[JsonObject]) -> Iterator[str]:
    yield from _family(
        "link_state",
        "gauge",
        "1 for the state that the link is in.",
        ((_labels(link=link["name"], state=link["state"]), 1) for link in links),
    )
    for name, (text, value) in _LINK_GAUGES.items():
        samples = ((_labels(link=link["name"]), value(link)) for link in links)
        yield from _family(name, "gauge", text, samples)


def _latency_lines(links: Sequence[JsonObject]) -> Iterator[str]:
    """One histogram per link and source topic: quantiles of partitions cannot be added up."""
    yield f"# HELP {HISTOGRAM} From a record's timestamp to its acknowledgement by the target."
    yield f"# TYPE {HISTOGRAM} histogram"
    for link in links:
        latencies: dict[str, list[JsonObject]] = {}
        for flow in link["flows"]:
            latencies.setdefault(flow["topic"], []).append(flow["latency"])
        for topic, found in latencies.items():
            counts = summed_counts(each["counts"] for each in found)
            count = 0
            for bound_ms, of_bucket in zip((*BOUNDS_MS, None), counts, strict=True):
                count += of_bucket
                le = "+Inf" if bound_ms is None else f"{bound_ms / 1000:g}"
                yield f"{HISTOGRAM}_bucket{_labels(link=link['name'], topic=topic, le=le)} {count}"
            of_topic = _labels(link=link["name"], topic=topic)
            yield f"{HISTOGRAM}_sum{of_topic} {sum(each['sum_ms'] for each in found) / 1000}"
            yield f"{HISTOGRAM}_count{of_topic} {count}"


def _mm2_lines(target: str, links: Sequence[JsonObject]) -> Iterator[str]:
    copies = [
        (
            _labels(
                source=link["source"],
                target=target,
                topic=flow["target_topic"],
                partition=str(flow["partition"]),
            ),
            flow,
        )
        for link in links
        for flow in link["flows"]
    ]
    for name, (key, inner) in _MM2.items():
        yield f"# TYPE {MM2_PREFIX}{name} gauge"
        values = ((at, flow[key] if inner is None else flow[key][inner]) for at, flow in copies)
        yield from _samples(MM2_PREFIX + name, values)
    for name, count in _CONNECT.items():
        yield f"# TYPE {name} gauge"
        yield f"{name} {sum(map(count, links))}"
    yield f"# TYPE {CONSUMER_LAG} gauge"
    for link in links:
        client_id = _client_id(link, target)
        for flow in link["flows"]:
            at = _labels(clientid=client_id, topic=flow["topic"], partition=str(flow["partition"]))
            yield from _samples(CONSUMER_LAG, [(at, flow["lag_records"])])


def _client_id(link: JsonObject, target: str) -> str:
    """Return a client id as MirrorMaker 2's, with the quotes that JMX puts around it.

    Dashboards choose the consumers of copies by its end.
    """
    return f'"{link["source"]}->{target}|{link["name"]}|replication-consumer"'


def _checkpoint_lines(target: str, links: Sequence[JsonObject]) -> Iterator[str]:
    for suffix, key in _STATS.items():
        yield f"# TYPE {CHECKPOINT_PREFIX}{suffix} gauge"
        for link in links:
            for each in (link.get("groups") or {}).get("latencies") or ():
                at = _labels(
                    source=link["source"],
                    target=target,
                    group=each["group"],
                    topic=each["target_topic"],
                    partition=str(each["partition"]),
                )
                yield f"{CHECKPOINT_PREFIX}{suffix}{at} {each[key]}"


def _trouble_lines(flows: Sequence[_Flow]) -> Iterator[str]:
    failed = FlowState.FAILED.value
    yield from _family(
        "failed",
        "gauge",
        "1 where a partition has stopped.",
        ((each.labels(), int(each.status["state"] == failed)) for each in flows),
    )
    yield from _family(
        "trouble",
        "gauge",
        "1 for the trouble that stops a partition.",
        _counted(flows, "trouble", lambda flow: {flow["trouble"]: 1} if flow["trouble"] else {}),
    )
    yield from _family(
        "gaps",
        "gauge",
        "Gaps in the journal: what was skipped, by reason.",
        _counted(flows, "reason", lambda flow: flow["gaps_by_reason"]),
    )


def _audit_lines(flows: Sequence[_Flow], links: Sequence[JsonObject]) -> Iterator[str]:
    yield from _family(
        "audit_age_seconds",
        "gauge",
        "How old the oldest batch not compared is.",
        (
            (each.labels(), each.status["audit"]["age_seconds"])
            for each in flows
            if each.status.get("audit") is not None
        ),
    )
    yield from _family(
        "audit_findings",
        "gauge",
        "Batches that are wrong in the copy, by verdict.",
        _counted(flows, "verdict", lambda flow: (flow.get("audit") or {}).get("findings") or {}),
    )
    yield from _family(
        "audit_cpu_share",
        "gauge",
        "Share of a core used by the worker's audits.",
        (
            (_labels(link=link["name"]), link["audit"]["cpu_share"])
            for link in links
            if link.get("audit") is not None
        ),
    )


def _counted(
    flows: Iterable[_Flow], label: str, counts: Callable[[JsonObject], Mapping[str, int]]
) -> Iterator[tuple[str, int]]:
    """Yield the samples of a metric that each flow has several of, told apart by a label."""
    for each in flows:
        for value, count in counts(each.status).items():
            yield each.labels(**{label: value}), count


def _family(name: str, kind: str, text: str, samples: Samples) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {text}"
    yield f"# TYPE {PREFIX}{name} {kind}"
    yield from _samples(PREFIX + name, samples)


def _samples(name: str, samples: Samples) -> Iterator[str]:
    for labels, value in samples:
        if value is not None:
            yield f"{name}{labels} {value}"


def _labels(**labels: str) -> str:
    return labels_text(labels)
