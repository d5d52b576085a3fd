"""ListOffsets v1-v11.

Timestamps: -1 the high watermark (read_committed: the last stable offset), -2 the log start,
-3 (v7, KIP-734) the record with the largest timestamp, others the first record at or after that
time. v4 adds leader epochs (KIP-320). A new leader that has not committed yet what it found answers
OFFSET_NOT_AVAILABLE from v5 on (KIP-207), LEADER_NOT_AVAILABLE before, since the end would seem to
go back. v8, v9 and v11 (KIP-405, KIP-1005, KIP-1023) ask about tiered storage: without it -4, the
start of what is local, is the log start; -5, the end of what is remote, and -6, the start of what
waits to be remote, are -1. v10 adds a timeout for reading remote storage (KIP-1075), which nothing
here waits for. A code that is newer than the request's version, or that nobody knows, is
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.controller.model.cluster_image import NO_EPOCH
from local_cluster.controller.model.topic_requests import repeated
from local_cluster.handlers.registry import Reply, RequestContext, handles
from local_cluster.handlers.services import BrokerServices
from local_cluster.log.disk.page_cache import ColdReadError, warm_only
from local_cluster.replication.partition import Partition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SINCE_VERSION: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
OFFSET_NOT_AVAILABLE_SINCE: Final = 5

Fields = dict[str, Any]


@handles(ApiKey.LIST_OFFSETS, min_version=1, max_version=11)
def list_offsets(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Answer each partition by itself; one that is named twice is INVALID_REQUEST, once."""
    asked = [(topic.name, entry) for topic in request.topics for entry in topic.partitions]
    twice = repeated((name, entry.partition_index) for name, entry in asked)
    topics: dict[str, dict[int, Fields]] = {topic.name: {} for topic in request.topics}

    def answer_all() -> Reply:
        # After a cold read it goes on where that was met.
        for name, entry in asked:
            index = entry.partition_index
            if index in topics[name]:
                continue
            try:
                if (name, index) in twice:
                    raise KafkaError(ErrorCode.invalid_request)
                topics[name][index] = _answer(broker, context, request, name, entry)
            except KafkaError as error:
                topics[name][index] = _refused(index, error.code)
        return {
            "topics": [
                {"name": name, "partitions": list(partitions.values())}
                for name, partitions in topics.items()
            ]
        }

    try:
        with warm_only():
            return answer_all()
    except ColdReadError as cold:
        return broker.cold_reads.warmed(cold, answer_all)


def _answer(
    broker: BrokerServices, context: RequestContext, request: Any, topic: str, entry: Any
) -> Fields:
    """Raises KafkaError."""
    isolation_level = int(get(request, "isolation_level", READ_UNCOMMITTED))
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        # Kafka meets an exception of its own.
        raise KafkaError(ErrorCode.unknown_server_error, f"isolation level {isolation_level}")
    if not broker.authorize(context, "DESCRIBE", "TOPIC", topic):
        raise KafkaError(ErrorCode.topic_authorization_failed)
    partition = broker.replicas.get_leader(topic, entry.partition_index)
    epoch = int(get(entry, "current_leader_epoch", NO_EPOCH))
    partition.require_leader(epoch)
    if epoch < NO_EPOCH:
        raise KafkaError(ErrorCode.fenced_leader_epoch)
    offset, timestamp_ms, epoch = _find(
        partition, int(entry.timestamp), isolation_level, context.api_version
    )
    return {
        "partition_index": entry.partition_index,
        "error_code": ErrorCode.none,
        "timestamp": timestamp_ms,
        "offset": offset,
        "leader_epoch": epoch,
    }


def _refused(index: int, code: ErrorCode) -> Fields:
    return {
        "partition_index": index,
        "error_code": code,
        "timestamp": -1,
        "offset": -1,
        "leader_epoch": NO_EPOCH,
    }


def _find(
    partition: Partition, timestamp_ms: int, isolation_level: int, version: int
) -> tuple[int, int, int]:
    """(offset, timestamp in ms, leader epoch); offset -1 where nothing matches."""
    committed_only = isolation_level == READ_COMMITTED
    limit = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp_ms == LATEST:
        _require_commits(partition, version)
        return limit, -1, partition.leader_epoch
    if timestamp_ms < EARLIEST and version < SINCE_VERSION.get(timestamp_ms, version + 1):
        raise KafkaError(ErrorCode.unsupported_version, f"timestamp {timestamp_ms}")
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log.log_start_offset
        if start == partition.log.log_end_offset:
            return start, -1, partition.leader_epoch  # which begins here, though without a record
        return start, -1, partition.log.leader_epochs.epoch_of(start)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    if timestamp_ms == MAX_TIMESTAMP:
        found = partition.log.reader.max_timestamp()
    else:
        found = partition.log.reader.offset_for_timestamp(timestamp_ms)
    if found is None or found[0] >= limit:
        _require_commits(partition, version)
        return -1, -1, -1
    return found[0], found[1], found[2]


def _require_commits(partition: Partition, version: int) -> None:
    """A leader that does not know yet what is committed must not say where that ends."""
    if not partition.knows_commits:
        raise KafkaError(
            ErrorCode.offset_not_available
            if version >= OFFSET_NOT_AVAILABLE_SINCE
            else ErrorCode.leader_not_available
        )
