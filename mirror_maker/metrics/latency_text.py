"""Latency and copy counts as Prometheus text: our histogram, and MirrorMaker 2's own names. Pure.

MirrorMaker 2's are those that the usual rules make of its MBeans
`kafka.connect.mirror:type=MirrorSourceConnector,source=,target=,topic=,partition=` and
`...:type=MirrorCheckpointConnector,source=,target=,group=,topic=,partition=`, so that its
dashboards show this mirror as well. Its `topic` is the copy's name. Rates are of its window
(`rates.py`); where its -min, -max and -avg are of one too, these are since the flow was taken over.
A checkpoint's latency is from asking for a group's position to its commit or checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from mirror_maker.metrics.latency import BOUNDS_MS, LatencyStats, summed_counts

JsonObject = Mapping[str, Any]
Labels = Callable[..., str]

HISTOGRAM: Final = "heliograph_mirror_replication_latency_seconds"
MM2_PREFIX: Final = "kafka_connect_mirror_mirrorsourceconnector_"
CHECKPOINT_PREFIX: Final = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
CONSUMER_LAG: Final = "kafka_consumer_fetch_manager_records_lag"
"""Of the consumer inside MirrorMaker 2; its client id is the link's name here."""
_STATS: Final = {"": "last_ms", "_min": "min_ms", "_max": "max_ms", "_avg": "mean_ms"}
"""Suffix of a name -> which value of a latency it has."""
_MM2: Final = {
    "record_count": ("records_copied", None),
    "record_rate": ("records_per_second", None),
    "byte_count": ("bytes_copied", None),
    "byte_rate": ("bytes_per_second", None),
    **{f"record_age_ms{suffix}": ("record_age", key) for suffix, key in _STATS.items()},
    **{f"replication_latency_ms{suffix}": ("latency", key) for suffix, key in _STATS.items()},
}
"""Name behind the prefix -> where the value is in the status of a flow."""


def latency_lines(links: Sequence[JsonObject], labels: Labels) -> Iterator[str]:
    """One histogram per link and source topic: quantiles of partitions cannot be added up."""
    yield f"# HELP {HISTOGRAM} From a record's timestamp to its acknowledgement by the target."
    yield f"# TYPE {HISTOGRAM} histogram"
    for link in links:
        for topic in dict.fromkeys(flow["topic"] for flow in link["flows"]):
            found = [flow["latency"] for flow in link["flows"] if flow["topic"] == topic]
            counts = summed_counts(each["counts"] for each in found)
            count = 0
            for bound_ms, of_bucket in zip((*BOUNDS_MS, None), counts, strict=True):
                count += of_bucket
                le = "+Inf" if bound_ms is None else f"{bound_ms / 1000:g}"
                yield f"{HISTOGRAM}_bucket{labels(link=link['name'], topic=topic, le=le)} {count}"
            of_topic = labels(link=link["name"], topic=topic)
            yield f"{HISTOGRAM}_sum{of_topic} {sum(each['sum_ms'] for each in found) / 1000}"
            yield f"{HISTOGRAM}_count{of_topic} {count}"


def mm2_lines(target: str, links: Sequence[JsonObject], labels: Labels) -> Iterator[str]:
    """MirrorMaker 2's names; what is not known yet has no sample."""
    for name, (key, inner) in _MM2.items():
        yield f"# TYPE {MM2_PREFIX}{name} gauge"
        for link in links:
            for flow in link["flows"]:
                value = flow[key] if inner is None else flow[key][inner]
                if value is not None:
                    at = labels(
                        source=link["source"],
                        target=target,
                        topic=flow["target_topic"],
                        partition=str(flow["partition"]),
                    )
                    yield f"{MM2_PREFIX}{name}{at} {value}"
    yield f"# TYPE {CONSUMER_LAG} gauge"
    for link in links:
        for flow in link["flows"]:
            if flow["lag_records"] is not None:
                at = labels(
                    clientid=link["name"], topic=flow["topic"], partition=str(flow["partition"])
                )
                yield f"{CONSUMER_LAG}{at} {flow['lag_records']}"


def checkpoint_lines(target: str, links: Sequence[JsonObject], labels: Labels) -> Iterator[str]:
    """How long positions of groups take, by MirrorMaker 2's names."""
    for suffix, key in _STATS.items():
        yield f"# TYPE {CHECKPOINT_PREFIX}{suffix} gauge"
        for link in links:
            for each in (link.get("groups") or {}).get("latencies") or ():
                at = labels(
                    source=link["source"],
                    target=target,
                    group=each["group"],
                    topic=each["target_topic"],
                    partition=str(each["partition"]),
                )
                yield f"{CHECKPOINT_PREFIX}{suffix}{at} {each[key]}"


def latency_status(stats: LatencyStats) -> dict[str, float | None]:
    """A latency for `/status`; null before the first."""
    return {
        "last_ms": stats.last_ms,
        "min_ms": stats.min_ms,
        "max_ms": stats.max_ms,
        "mean_ms": stats.mean_ms,
    }
