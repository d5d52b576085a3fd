"""ListOffsets v1-v11.

Timestamps: -1 is the high watermark (read_committed: the last stable offset), -2 the log start
offset, -3 (v7, KIP-734) the record with the largest timestamp. Any other is a time: the first
record at or after it. Version notes:

- v4: leader epochs (KIP-320).
- v5: a new leader that does not know yet what is committed returns OFFSET_NOT_AVAILABLE (KIP-207),
  before v5 LEADER_NOT_AVAILABLE: otherwise the end would seem to move back.
- v8, v9, v11 (KIP-405, KIP-1005, KIP-1023): timestamps about tiered storage, which this broker does
  not have: -4 (earliest local) is the log start offset, -5 (latest tiered) and -6 (earliest pending
  upload) are -1.
- v10: a timeout for reads from remote storage (KIP-1075), which is ignored.

A negative timestamp that the version does not know is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from local_cluster.controller.model.cluster_image import NO_EPOCH
from local_cluster.controller.model.topic_requests import repeated
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.disk.page_cache import ColdReadError, warm_only
from local_cluster.replication.partition import Partition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest

    from local_cluster.wire.responses.data import (
        ListOffsetsPartitionResponse,
        ListOffsetsResponse,
    )

SINCE_VERSION: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
OFFSET_NOT_AVAILABLE_SINCE: Final = 5


class _Position(NamedTuple):
    """A position in a log; all -1 if no record matches."""

    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


@handles(ApiKey.LIST_OFFSETS, min_version=1, max_version=11)
def list_offsets(
    broker: BrokerServices, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up each partition by itself. One that occurs twice is INVALID_REQUEST, once."""
    entries = [(topic.name, entry) for topic in request.topics for entry in topic.partitions]
    twice = repeated((name, entry.partition_index) for name, entry in entries)
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {
        topic.name: {} for topic in request.topics
    }

    def look_up_all() -> ListOffsetsResponse:
        # After a cold read this continues at the partition of that read.
        for name, entry in entries:
            index = entry.partition_index
            if index in topics[name]:
                continue
            try:
                if (name, index) in twice:
                    raise KafkaError(ErrorCode.invalid_request)
                position = _look_up(broker, context, request, name, entry)
                topics[name][index] = _result(index, ErrorCode.none, position)
            except KafkaError as error:
                topics[name][index] = _result(index, error.code, _Position())
        return {
            "topics": [
                {"name": name, "partitions": list(partitions.values())}
                for name, partitions in topics.items()
            ]
        }

    try:
        with warm_only():
            return look_up_all()
    except ColdReadError as cold:
        return broker.cold_reads.warmed(cold, look_up_all)


def _look_up(
    broker: BrokerServices,
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    entry: ListOffsetsPartition,
) -> _Position:
    """Raises KafkaError."""
    isolation_level = get(request, "isolation_level", READ_UNCOMMITTED)
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        # Kafka fails with an exception.
        raise KafkaError(ErrorCode.unknown_server_error, f"isolation level {isolation_level}")
    if not broker.authorize(context, "DESCRIBE", "TOPIC", topic):
        raise KafkaError(ErrorCode.topic_authorization_failed)
    partition = broker.replicas.get_leader(topic, entry.partition_index)
    epoch = get(entry, "current_leader_epoch", NO_EPOCH)
    partition.require_leader(epoch)
    if epoch < NO_EPOCH:
        raise KafkaError(ErrorCode.fenced_leader_epoch)
    committed_only = isolation_level == READ_COMMITTED
    return _find(partition, entry.timestamp, committed_only, context.api_version)


def _result(index: int, code: ErrorCode, position: _Position) -> ListOffsetsPartitionResponse:
    return {
        "partition_index": index,
        "error_code": code,
        "timestamp": position.timestamp_ms,
        "offset": position.offset,
        "leader_epoch": position.leader_epoch,
    }


def _find(partition: Partition, timestamp_ms: int, committed_only: bool, version: int) -> _Position:
    """Raises KafkaError."""
    limit = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp_ms == LATEST_TIMESTAMP:
        _require_known_commits(partition, version)
        return _Position(limit, leader_epoch=partition.leader_epoch)
    if timestamp_ms < EARLIEST_TIMESTAMP and version < SINCE_VERSION.get(timestamp_ms, version + 1):
        raise KafkaError(ErrorCode.unsupported_version, f"timestamp {timestamp_ms}")
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        start = partition.log.log_start_offset
        if start == partition.log.log_end_offset:
            # An empty log starts in the current epoch.
            return _Position(start, leader_epoch=partition.leader_epoch)
        return _Position(start, leader_epoch=partition.log.epoch_at(start))
    if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return _Position()
    if timestamp_ms == MAX_TIMESTAMP:
        found = partition.log.max_timestamp()
    else:
        found = partition.log.offset_for_timestamp(timestamp_ms)
    if found is None or found[0] >= limit:
        _require_known_commits(partition, version)
        return _Position()
    return _Position(found[0], found[1], found[2])


def _require_known_commits(partition: Partition, version: int) -> None:
    """Raise KafkaError while a new leader does not know yet what is committed."""
    if not partition.has_committed_epoch_start:
        raise KafkaError(
            ErrorCode.offset_not_available
            if version >= OFFSET_NOT_AVAILABLE_SINCE
            else ErrorCode.leader_not_available
        )
