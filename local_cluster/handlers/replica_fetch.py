"""A Fetch of a follower: up to the log end, and what it asks at says what it has.

Served on the inter-broker listener only (CVE-2018-1288: a client that poses as a replica would
move the high watermark). The follower is refused partitions whose leader epoch it has wrong; where
its log is no prefix of this one it is told where they part (KIP-595), and its offset counts for
nothing. An OFFSET_OUT_OF_RANGE says where the log begins, so that a follower that lies before that
can begin anew (Kafka's asks ListOffsets).

The answer comes at once where there are records, a diverging epoch, an error or a higher log start
(records were deleted); else it waits for an append, at most `max_wait_ms`. Sessions are not used.
Limits are those of the request. Throttled replicas that are not in sync get no records while the
leader's quota is exceeded (KIP-73); that they are there does not end the waiting.
"""

from __future__ import annotations

import asyncio

from local_cluster.controller.model import TopicState
from local_cluster.log.partition_log import LogSlice
from local_cluster.replication.partition import Partition
from local_cluster.wire import fetch as codec
from local_cluster.wire.errors import ErrorCode, KafkaError

from .registry import Reply, RequestContext
from .services import BrokerServices


def replica_fetch(
    broker: BrokerServices, context: RequestContext, request: codec.FetchRequest
) -> Reply:
    """Answer a fetch of the replica `request.replica_id`."""
    trusted = context.listener == broker.settings.inter_broker_listener
    if not trusted or not broker.authorize(context, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster"):
        refused = [
            codec.PartitionFetched(
                entry.topic,
                entry.partition,
                ErrorCode.cluster_authorization_failed,
                topic_id=entry.topic_id,
            )
            for entry in request.partitions
        ]
        return codec.encode_response(context.api_version, refused)
    attempt = _ReplicaFetch(broker, context.api_version, request)
    attempt.note_positions()
    if attempt.read() or request.wait_ms_max <= 0:
        return attempt.answer()
    return attempt.wait()


class _ReplicaFetch:
    """One request: positions are noted once, records read until there are some."""

    def __init__(self, broker: BrokerServices, version: int, request: codec.FetchRequest) -> None:
        self._broker = broker
        self._version = version
        self._request = request
        self._results: list[codec.PartitionFetched] = []

    def note_positions(self) -> None:
        """Tell each partition what the follower has. What is wrong comes out in `read`."""
        for entry in self._request.partitions:
            try:
                partition = self._partition(entry)
                log = partition.log
                if not log.log_start_offset <= entry.fetch_offset <= log.log_end_offset:
                    continue
                if partition.find_divergence(entry.fetch_offset, entry.last_fetched_epoch) is None:
                    partition.follower_fetched(
                        self._request.replica_id,
                        broker_epoch=self._request.replica_epoch,
                        end_offset=entry.fetch_offset,
                        log_start_offset=entry.log_start_offset,
                    )
            except KafkaError:
                continue

    def read(self) -> bool:
        """Read every partition; whether the answer need not wait any longer."""
        results: list[codec.PartitionFetched] = []
        bytes_left = self._request.bytes_max
        bytes_found = 0
        urgent = not self._request.partitions
        for entry in self._request.partitions:
            try:
                result = self._read(self._partition(entry), entry, bytes_left, bytes_found == 0)
                urgent = (
                    urgent
                    or bool(result.error_code)
                    or result.diverging_epoch is not None
                    or result.log_start_offset > entry.log_start_offset
                )
            except KafkaError as error:
                result = codec.PartitionFetched(
                    entry.topic, entry.partition, error.code, topic_id=entry.topic_id
                )
                urgent = True
            if isinstance(result.records, LogSlice):
                bytes_found += result.records.size_bytes
                bytes_left -= result.records.size_bytes
            results.append(result)
        self._results = results
        return urgent or bytes_found >= max(self._request.bytes_min, 1)

    def answer(self) -> Reply:
        """Encode the last `read`."""
        throttle = self._broker.replicas.throttle.leader
        for entry, result in zip(self._request.partitions, self._results, strict=True):
            topic = self._topic(entry)
            if topic is not None:
                size_bytes = codec.records_size_bytes(result.records)
                throttle.record(topic.name, entry.partition, size_bytes)
        return codec.encode_response(self._version, self._results)

    async def wait(self) -> Reply:
        """Read again whenever a partition moves, until there is something or time is up."""
        loop = asyncio.get_running_loop()
        moved = asyncio.Event()
        watched = [
            partition for entry in self._request.partitions if (partition := self._held(entry))
        ]
        for partition in watched:
            partition.watch_appends(moved.set)
        deadline = loop.time() + self._request.wait_ms_max / 1000
        try:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        await moved.wait()
                except TimeoutError:
                    self.read()
                    return self.answer()
                moved.clear()
                if self.read():
                    return self.answer()
        finally:
            for partition in watched:
                partition.unwatch(moved.set)

    def _held(self, entry: codec.FetchPartition) -> Partition | None:
        try:
            return self._partition(entry)
        except KafkaError:
            return None

    def _topic(self, entry: codec.FetchPartition) -> TopicState | None:
        return self._broker.metadata.topic_by_id(entry.topic_id) if entry.topic_id else None

    def _partition(self, entry: codec.FetchPartition) -> Partition:
        topic = self._topic(entry)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        partition = self._broker.replicas.get_leader(topic.name, entry.partition)
        if entry.topic_id != partition.topic_id:
            raise KafkaError(ErrorCode.inconsistent_topic_id)
        partition.require_leader(entry.current_leader_epoch)
        return partition

    def _is_held_back(self, partition: Partition) -> bool:
        throttle = self._broker.replicas.throttle.leader
        return not partition.has_in_sync(self._request.replica_id) and throttle.holds_back(
            partition.topic, partition.partition
        )

    def _read(
        self, partition: Partition, entry: codec.FetchPartition, bytes_left: int, first: bool
    ) -> codec.PartitionFetched:
        log = partition.log
        result = codec.PartitionFetched(
            entry.topic,
            entry.partition,
            ErrorCode.none,
            partition.high_watermark,
            partition.high_watermark,
            log.log_start_offset,
            topic_id=entry.topic_id,
        )
        diverging = partition.find_divergence(entry.fetch_offset, entry.last_fetched_epoch)
        if diverging is not None:
            return result._replace(diverging_epoch=(diverging.epoch, diverging.end_offset))
        if not log.log_start_offset <= entry.fetch_offset <= log.log_end_offset:
            return result._replace(error_code=ErrorCode.offset_out_of_range)
        if (bytes_left <= 0 and not first) or self._is_held_back(partition):
            return result
        records = partition.read(
            entry.fetch_offset,
            bytes_max=max(min(entry.partition_bytes_max, bytes_left), 0),
            offset_limit=log.log_end_offset,
            at_least_one_batch=first,
        )
        return result._replace(records=records)
