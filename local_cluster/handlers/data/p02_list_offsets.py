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
from typing import Final, NamedTuple

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
from local_cluster.wire.list_offsets import (
    AskedPartition,
    ListedOffset,
    ListOffsetsRequest,
    decode_request,
    encode_response,
)

SINCE_VERSION: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
OFFSET_NOT_AVAILABLE_SINCE: Final = 5
READS_NO_FILE: Final = frozenset(
    {
        EARLIEST_TIMESTAMP,
        LATEST_TIMESTAMP,
        EARLIEST_LOCAL_TIMESTAMP,
        LATEST_TIERED_TIMESTAMP,
        EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    }
)


class _Position(NamedTuple):
    """A position in a log; all -1 if no record matches."""

    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


@handles(ApiKey.LIST_OFFSETS, min_version=1, max_version=11, raw=True)
def list_offsets(
    broker: BrokerServices, context: RequestContext, body: memoryview
) -> bytes | Awaitable[bytes]:
    """Look up each partition by itself. One that occurs twice is INVALID_REQUEST, once.

    Raises PeerError for a body that is no such request.
    """
    request = decode_request(context.api_version, body, 0)
    lookup = _Lookup(broker, context, request)
    if not lookup.reads_files:
        return lookup.run()
    try:
        with warm_only():
            return lookup.run()
    except ColdReadError as cold:
        return broker.cold_reads.warmed(cold, lookup.run)


class _Lookup:
    """Looks up the partitions of one request. After a cold read `run` goes on at that partition."""

    def __init__(
        self, broker: BrokerServices, context: RequestContext, request: ListOffsetsRequest
    ) -> None:
        self._broker = broker
        self._context = context
        self._isolation_level = request.isolation_level
        self._entries = [
            (topic, entry) for topic, partitions in request.topics for entry in partitions
        ]
        self.reads_files = any(
            entry.timestamp_ms not in READS_NO_FILE for _, entry in self._entries
        )
        self._twice: frozenset[tuple[str, int]] = frozenset()
        if len(self._entries) > 1:
            places = ((topic, entry.partition) for topic, entry in self._entries)
            self._twice = frozenset(repeated(places))
        self._found: dict[str, dict[int, ListedOffset]] = {topic: {} for topic, _ in request.topics}

    def run(self) -> bytes:
        """Return the response. Raises ColdReadError."""
        for topic, entry in self._entries:
            found = self._found[topic]
            if entry.partition not in found:
                found[entry.partition] = self._result(topic, entry)
        topics = [(topic, list(found.values())) for topic, found in self._found.items()]
        return encode_response(self._context.api_version, topics)

    def _result(self, topic: str, entry: AskedPartition) -> ListedOffset:
        index = entry.partition
        try:
            if (topic, index) in self._twice:
                raise KafkaError(ErrorCode.invalid_request)
            offset, timestamp_ms, epoch = self._look_up(topic, entry)
        except KafkaError as error:
            return ListedOffset(index, int(error.code))
        return ListedOffset(index, 0, timestamp_ms, offset, epoch)

    def _look_up(self, topic: str, entry: AskedPartition) -> _Position:
        """Raises KafkaError."""
        isolation_level = self._isolation_level
        if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            # Kafka fails with an exception.
            raise KafkaError(ErrorCode.unknown_server_error, f"isolation level {isolation_level}")
        if not self._broker.authorize(self._context, "DESCRIBE", "TOPIC", topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        partition = self._broker.replicas.get_leader(topic, entry.partition)
        epoch = entry.current_leader_epoch
        partition.require_leader(epoch)
        if epoch < NO_EPOCH:
            raise KafkaError(ErrorCode.fenced_leader_epoch)
        committed_only = isolation_level == READ_COMMITTED
        return _find(partition, entry.timestamp_ms, committed_only, self._context.api_version)


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
        return _Position(start, leader_epoch=partition.log.leader_epochs.epoch_of(start))
    if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return _Position()
    if timestamp_ms == MAX_TIMESTAMP:
        found = partition.log.reader.max_timestamp()
    else:
        found = partition.log.reader.offset_for_timestamp(timestamp_ms)
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
