"""Read one partition for a consumer's Fetch: authorization, limits, errors."""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.handlers.data.current_leader import WRONG_LEADER_ERRORS, current_leader
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.state.epochs import EpochEnd
from local_cluster.replication.in_sync import InSyncReplicas
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_selector import (
    RACK_AWARE,
    SELECTOR_CONFIG,
    THE_LEADER,
    preferred_replica,
)
from local_cluster.wire import fetch as codec
from local_cluster.wire.errors import ErrorCode, KafkaError

FOLLOWER_FETCHING_SINCE: Final = 11
"""The version from which clients fetch from a preferred read replica (KIP-392)."""
NOT_FOUND: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.topic_authorization_failed,
    }
)
EXPECTED_ERRORS: Final = NOT_FOUND | {
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.inconsistent_topic_id,
    ErrorCode.kafka_storage_error,
    ErrorCode.offset_out_of_range,
    ErrorCode.replica_not_available,
}
"""Errors that FailedFetchRequestsPerSec leaves out, as in Kafka: they are no broker's fault."""


class PartitionRead(NamedTuple):
    """The result of one partition; `partition` is None if there is nothing to wait for."""

    result: codec.PartitionFetchResponse
    partition: Partition | None
    is_at_end: bool
    """Whether there is no more to read until the partition moves."""

    @property
    def size_bytes(self) -> int:
        return codec.records_size_bytes(self.result.records)


def read_partition(
    broker: BrokerServices,
    context: RequestContext,
    entry: codec.FetchPartition,
    *,
    bytes_left: int,
    first: bool,
    committed_only: bool,
    rack_id: str = "",
) -> PartitionRead:
    """Read one partition. `first`: return a batch even if it is larger than the limits.

    Raises ColdReadError, inside of `warm_only`, if the read would block on the disk.
    """
    try:
        return _read(
            broker,
            context,
            entry,
            bytes_left=bytes_left,
            first=first,
            committed_only=committed_only,
            rack_id=rack_id,
        )
    except KafkaError as error:
        if error.code not in EXPECTED_ERRORS:
            broker.replicas.traffic.unknown.failed_fetch_requests += 1
        return PartitionRead(_refuse(broker, context, entry, error.code), None, False)


def _read(
    broker: BrokerServices,
    context: RequestContext,
    entry: codec.FetchPartition,
    *,
    bytes_left: int,
    first: bool,
    committed_only: bool,
    rack_id: str = "",
) -> PartitionRead:
    topic = _topic_name(broker, context, entry)
    if not broker.authorize(context, "READ", "TOPIC", topic):
        raise KafkaError(ErrorCode.topic_authorization_failed)
    partition = _replica(broker, context, topic, entry.partition)
    partition.traffic.fetch_requests += 1
    if entry.topic_id is not None and entry.topic_id != partition.topic_id:
        raise KafkaError(ErrorCode.inconsistent_topic_id)
    partition.require_epoch(entry.current_leader_epoch)
    diverging = _divergence(partition, entry)
    if diverging is not None:
        return PartitionRead(_diverged(partition, entry, diverging), None, False)
    preferred = THE_LEADER
    if rack_id and partition.in_sync is not None:
        preferred = _preferred(broker, partition, partition.in_sync, rack_id, entry.fetch_offset)
    limit = partition.last_stable_offset if committed_only else partition.high_watermark
    records = None
    aborted: list[tuple[int, int]] = []
    if preferred == THE_LEADER and (bytes_left > 0 or first):
        records = partition.read(
            entry.fetch_offset,
            bytes_max=max(min(entry.partition_bytes_max, bytes_left), 0),
            offset_limit=limit,
            at_least_one_batch=first,
        )
    if committed_only and records is not None:
        aborted = [
            (ended.producer_id, ended.first_offset)
            for ended in partition.log.reader.aborted_transactions(
                entry.fetch_offset, records.next_offset
            )
        ]
    result = codec.PartitionFetchResponse(
        entry.topic,
        entry.partition,
        ErrorCode.none,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        aborted if committed_only else None,
        preferred,
        records,
        entry.topic_id,
    )
    if preferred != THE_LEADER:
        return PartitionRead(result, None, False)  # respond at once
    return PartitionRead(result, partition, entry.fetch_offset >= limit)


def _divergence(partition: Partition, entry: codec.FetchPartition) -> EpochEnd | None:
    """Return where the consumer's records diverge from this log (KIP-595, v12), if they do.

    Raises KafkaError(offset_out_of_range) if their epoch is unknown.
    """
    epoch = entry.last_fetched_epoch
    if epoch < 0 or (
        epoch == partition.leader_epoch and entry.fetch_offset <= partition.log.log_end_offset
    ):
        return None
    diverging = partition.find_divergence(entry.fetch_offset, epoch)
    if diverging is not None and (diverging.epoch < 0 or diverging.end_offset < 0):
        raise KafkaError(ErrorCode.offset_out_of_range)
    return diverging


def _diverged(
    partition: Partition, entry: codec.FetchPartition, diverging: EpochEnd
) -> codec.PartitionFetchResponse:
    return codec.PartitionFetchResponse(
        entry.topic,
        entry.partition,
        ErrorCode.none,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        topic_id=entry.topic_id,
        diverging_epoch=(diverging.epoch, diverging.end_offset),
    )


def _replica(
    broker: BrokerServices, context: RequestContext, topic: str, partition: int
) -> Partition:
    """Return the replica to read: from FOLLOWER_FETCHING_SINCE on, a follower too."""
    if context.api_version < FOLLOWER_FETCHING_SINCE:
        return broker.replicas.get_leader(topic, partition)
    return broker.replicas.get_readable(topic, partition)


def _preferred(
    broker: BrokerServices,
    partition: Partition,
    in_sync: InSyncReplicas,
    rack_id: str,
    fetch_offset: int,
) -> int:
    if broker.settings.config.get(SELECTOR_CONFIG) != RACK_AWARE:
        return THE_LEADER
    racks = {each.id: each.rack for each in broker.metadata.brokers.values()}
    return preferred_replica(in_sync, partition.leader_id, rack_id, racks, fetch_offset)


def _topic_name(
    broker: BrokerServices, context: RequestContext, entry: codec.FetchPartition
) -> str:
    if context.api_version < codec.TOPIC_IDS_SINCE:
        return entry.topic
    topic = None
    if entry.topic_id is not None:
        topic = broker.metadata.topic_by_id(entry.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_id)
    return topic.name


def _refuse(
    broker: BrokerServices, context: RequestContext, entry: codec.FetchPartition, code: ErrorCode
) -> codec.PartitionFetchResponse:
    # Kafka's list is null only if the partition was found.
    aborted = () if code in NOT_FOUND else None
    refused = codec.PartitionFetchResponse(
        entry.topic, entry.partition, code, -1, -1, -1, aborted, topic_id=entry.topic_id
    )
    if code not in WRONG_LEADER_ERRORS or context.api_version < codec.NODE_ENDPOINTS_SINCE:
        return refused
    leader = current_leader(broker, _topic_name(broker, context, entry), entry.partition)
    return refused._replace(current_leader=leader)
