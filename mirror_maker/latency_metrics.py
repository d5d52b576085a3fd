"""Latency and copy counts as Prometheus text: our histogram, and MirrorMaker 2's own names. Pure.

MirrorMaker 2's are those that the usual rules make of its MBeans
`kafka.connect.mirror:type=MirrorSourceConnector,source=,target=,topic=,partition=`, so that its
dashboards show this mirror as well. Its `topic` is the copy's name. Where its -min, -max and -avg
are of a window, these are since the flow was taken over. Rates are for the reader to take from the
counts, and record ages are not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from .latency import BOUNDS_MS, summed_counts

JsonObject = Mapping[str, Any]
Labels = Callable[..., str]

HISTOGRAM: Final = "heliograph_mirror_replication_latency_seconds"
MM2_PREFIX: Final = "kafka_connect_mirror_mirrorsourceconnector_"
_MM2: Final = {
    "record_count": ("records_copied", None),
    "byte_count": ("bytes_copied", None),
    "replication_latency_ms": ("latency", "last_ms"),
    "replication_latency_ms_min": ("latency", "min_ms"),
    "replication_latency_ms_max": ("latency", "max_ms"),
    "replication_latency_ms_avg": ("latency", "mean_ms"),
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
