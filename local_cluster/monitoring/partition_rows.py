"""Metrics of partitions: one row of samples per replica of this broker.

Names are those of the JMX exporter for `kafka.log:type=Log` and `kafka.cluster:type=Partition`. As
in Kafka, a follower reports 0 for what only a leader knows. The names of kafka_exporter follow.
Only the leader has them, so that a sum counts each partition once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from local_cluster.monitoring.monitored import MonitoredBroker
from local_cluster.prometheus_text import Head
from local_cluster.replication.partition import Partition

Row = tuple[str, ...]
"""One sample line, or none (""), for each head."""

_LOG: Final = "kafka_log_log_"
_PARTITION: Final = "kafka_cluster_partition_"
_EXPORTER: Final = "kafka_topic_partition_"

HEADS: Final = (
    Head(f"{_LOG}size", "gauge", "Bytes of the log's segments."),
    Head(f"{_LOG}numlogsegments", "gauge", "Segments of the log."),
    Head(f"{_LOG}logstartoffset", "gauge", "First offset of the log."),
    Head(f"{_LOG}logendoffset", "gauge", "Offset after the last record of the log."),
    Head(f"{_PARTITION}underreplicated", "gauge", "1 if the ISR lacks a replica; 0 at followers."),
    Head(f"{_PARTITION}underminisr", "gauge", "1 if the ISR is below min.insync.replicas."),
    Head(f"{_PARTITION}atminisr", "gauge", "1 if the ISR has just min.insync.replicas members."),
    Head(f"{_PARTITION}insyncreplicascount", "gauge", "Members of the ISR; 0 at followers."),
    Head(f"{_PARTITION}replicascount", "gauge", "Replicas; 0 at followers."),
    Head(
        f"{_PARTITION}laststableoffsetlag",
        "gauge",
        "Committed records behind the last stable offset.",
    ),
    Head(f"{_EXPORTER}current_offset", "gauge", "High watermark, at the leader."),
    Head(f"{_EXPORTER}oldest_offset", "gauge", "First offset, at the leader."),
    Head(f"{_EXPORTER}leader", "gauge", "Broker id of the leader, at the leader."),
    Head(f"{_EXPORTER}replicas", "gauge", "Replicas, at the leader."),
    Head(f"{_EXPORTER}in_sync_replica", "gauge", "Members of the ISR, at the leader."),
    Head(
        f"{_EXPORTER}leader_is_preferred", "gauge", "1 if the leader is the first of the replicas."
    ),
    Head(
        f"{_EXPORTER}under_replicated_partition",
        "gauge",
        "1 if the ISR lacks a replica, at the leader.",
    ),
)
_FOLLOWER: Final = ("",) * 7


class ReplicaCounts:
    """Sums over the replicas of this broker."""

    def __init__(self) -> None:
        self.partitions = 0
        self.leaders = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0
        self.producer_ids = 0
        self.late_transactions = 0
        """Partitions with a transaction that is open for longer than any may be."""
        self.log_bytes: dict[str, int] = {}
        """By topic."""


def partition_rows(broker: MonitoredBroker, counts: ReplicaCounts) -> Iterator[Row]:
    """Yield the row of each replica, and add the replicas to `counts`."""
    broker_id = broker.settings.broker_id
    # Not over the replicas themselves, which may change between two steps.
    for topic, _ in broker.replicas.traffic:
        for index in broker.log_directories.partitions_of(topic):
            partition = broker.replicas.get(topic, index)
            if partition is not None:
                yield _row(partition, broker_id, counts)


def _row(partition: Partition, broker_id: int, counts: ReplicaCounts) -> Row:
    replica_log = partition.log
    at = f'{{topic="{partition.topic}",partition="{partition.partition}"}}'
    size_bytes = replica_log.segments.size_bytes
    counts.partitions += 1
    counts.producer_ids += len(replica_log.producers)
    topic_bytes = counts.log_bytes.get(partition.topic, 0)
    counts.log_bytes[partition.topic] = topic_bytes + size_bytes
    high_watermark = partition.high_watermark
    isr = replicas = is_under = is_under_min = is_at_min = lso_lag = 0
    exporter: Row = _FOLLOWER
    if partition.is_leader:
        isr, replicas, preferred = 1, 1, broker_id
        if partition.in_sync is not None:
            state = partition.in_sync.state
            isr, replicas, preferred = len(state.isr), len(state.replicas), state.replicas[0]
        min_isr = replica_log.config.min_insync_replicas
        is_under, is_under_min = int(isr < replicas), int(isr < min_isr)
        is_at_min = int(isr == min_isr)
        lso_lag = high_watermark - partition.last_stable_offset
        counts.leaders += 1
        counts.under_replicated += is_under
        counts.under_min_isr += is_under_min
        counts.at_min_isr += is_at_min
        exporter = (
            f"{_EXPORTER}current_offset{at} {high_watermark}\n",
            f"{_EXPORTER}oldest_offset{at} {replica_log.log_start_offset}\n",
            f"{_EXPORTER}leader{at} {broker_id}\n",
            f"{_EXPORTER}replicas{at} {replicas}\n",
            f"{_EXPORTER}in_sync_replica{at} {isr}\n",
            f"{_EXPORTER}leader_is_preferred{at} {int(preferred == broker_id)}\n",
            f"{_EXPORTER}under_replicated_partition{at} {is_under}\n",
        )
    return (
        f"{_LOG}size{at} {size_bytes}\n",
        f"{_LOG}numlogsegments{at} {len(replica_log.segments.base_offsets)}\n",
        f"{_LOG}logstartoffset{at} {replica_log.log_start_offset}\n",
        f"{_LOG}logendoffset{at} {replica_log.log_end_offset}\n",
        f"{_PARTITION}underreplicated{at} {is_under}\n",
        f"{_PARTITION}underminisr{at} {is_under_min}\n",
        f"{_PARTITION}atminisr{at} {is_at_min}\n",
        f"{_PARTITION}insyncreplicascount{at} {isr}\n",
        f"{_PARTITION}replicascount{at} {replicas}\n",
        f"{_PARTITION}laststableoffsetlag{at} {lso_lag}\n",
        *exporter,
    )
