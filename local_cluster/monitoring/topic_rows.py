"""Metrics of topics on this broker, as in Kafka's BrokerTopicMetrics: one row per topic.

The first row has the sums of all topics, without a label.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from local_cluster.counters.traffic import FIELDS
from local_cluster.monitoring.monitored import MonitoredBroker
from local_cluster.monitoring.partition_rows import ReplicaCounts, Row
from local_cluster.prometheus_text import Head

_TRAFFIC: Final = {
    "messages_in": ("messagesin", "Records from producers."),
    "bytes_in": ("bytesin", "Bytes from producers."),
    "bytes_out": ("bytesout", "Bytes to consumers."),
    "replication_bytes_in": ("replicationbytesin", "Bytes from leaders."),
    "replication_bytes_out": ("replicationbytesout", "Bytes to followers."),
    "produce_requests": ("totalproducerequests", "Appends by producers, per partition."),
    "failed_produce_requests": ("failedproducerequests", "Appends that failed."),
    "fetch_requests": ("totalfetchrequests", "Reads, per partition."),
    "failed_fetch_requests": ("failedfetchrequests", "Reads that failed unexpectedly."),
}
_TOPIC_BYTES: Final = "heliograph_topic_log_bytes"
_TOPIC_PARTITIONS: Final = "kafka_topic_partitions"
_NAMES: Final = tuple(
    f"kafka_server_brokertopicmetrics_{_TRAFFIC[field][0]}_total" for field in FIELDS
)

HEADS: Final = (
    *(
        Head(name, "counter", _TRAFFIC[field][1])
        for name, field in zip(_NAMES, FIELDS, strict=True)
    ),
    Head(_TOPIC_BYTES, "gauge", "Bytes of a topic's logs on this broker."),
    Head(_TOPIC_PARTITIONS, "gauge", "Partitions of a topic, at the leader of its partition 0."),
)


def topic_rows(broker: MonitoredBroker, counts: ReplicaCounts) -> Iterator[Row]:
    """Yield the row of all topics, then that of each topic. `counts` are complete."""
    traffic = broker.replicas.traffic
    sums = zip(_NAMES, traffic.sums(), strict=True)
    yield *(f"{name} {value}\n" for name, value in sums), "", ""
    for topic, each in traffic:
        at = f'{{topic="{topic}"}}'
        state = broker.metadata.topics.get(topic)
        first = broker.replicas.get(topic, 0)
        leads_first = state is not None and first is not None and first.is_leader
        yield (
            *(f"{n}{at} {v}\n" for n, v in zip(_NAMES, each.values(), strict=True)),
            f"{_TOPIC_BYTES}{at} {counts.log_bytes.get(topic, 0)}\n",
            f"{_TOPIC_PARTITIONS}{at} {len(state.partitions)}\n" if state and leads_first else "",
        )
