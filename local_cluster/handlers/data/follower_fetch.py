"""A Fetch of a follower: records up to the log end offset. Its fetch offset is what it has.

Served on the inter-broker listener only (CVE-2018-1288: a client that poses as a replica would move
the high watermark). A partition with another leader epoch is refused. If the follower's log
diverges from this one, the response says where (KIP-595), and the fetch offset does not count. An
OFFSET_OUT_OF_RANGE carries the log start offset, so that a follower below it can start over from
there (Kafka's follower sends ListOffsets).

The response leaves at once if there are records, a diverging epoch, an error, or a higher log start
offset (records were deleted). Otherwise it waits for an append, at most `max_wait_ms`. Within a
session (follower_sessions.py) a request looks at the partitions that it names and at those that
moved since the last one; idle partitions cost nothing. If a fetch offset cannot be recorded, the
partition is refused with the reason, as in Kafka, so that the follower sends it again; otherwise
the partition would stay idle and never be in sync. Limits are those of the request. Throttled
replicas that are not in sync get no records while the leader's quota is exceeded (KIP-73); such
records do not end the wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.fetch_sessions.session import Key, key_of
from local_cluster.fetch_sessions.session_cache import FetchContext
from local_cluster.fetch_sessions.watches import Watches
from local_cluster.handlers.broker_requests import is_broker_connection, is_from_broker
from local_cluster.handlers.deferred import Body, Deferred
from local_cluster.handlers.registry import Reply
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.partition.partition_log import LogSlice
from local_cluster.replication.partition import Partition
from local_cluster.wire import fetch as codec
from local_cluster.wire.errors import ErrorCode, KafkaError

WAIT_MS_MAX: Final = 5 * 60 * 1000
NO_REPLICA: Final = -1
"""Followers have no preferred read replica."""


def follower_fetch(
    broker: BrokerServices, context: RequestContext, request: codec.FetchRequest
) -> Reply:
    """Serve a fetch of the replica `request.replica_id`."""
    if not is_broker_connection(broker, context):
        return _refuse(context, request, ErrorCode.cluster_authorization_failed)
    if not is_from_broker(broker, context):
        # Kafka's code, although the denied right is of the cluster.
        return _refuse(context, request, ErrorCode.topic_authorization_failed)
    try:
        session = broker.follower_sessions.open(
            request,
            uses_topic_ids=context.api_version >= codec.TOPIC_IDS_SINCE,
            now_ms=broker.clock.monotonic_ms(),
        )
    except KafkaError as error:
        return codec.encode_response(context.api_version, (), error_code=error.code)
    return _FollowerFetch(broker, context.api_version, request, session).run()


def _refuse(context: RequestContext, request: codec.FetchRequest, code: ErrorCode) -> Reply:
    refused = [
        codec.PartitionFetchResponse(
            entry.topic,
            entry.partition,
            code,
            aborted_transactions=(),
            topic_id=entry.topic_id,
        )
        for entry in request.partitions
    ]
    return codec.encode_response(context.api_version, refused)


class ReplicaProgress:
    """Watches a partition for appends and for moves of the high watermark."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def watch(self, wake: Callable[[], None]) -> None:
        self._partition.watch(wake)
        self._partition.watch_appends(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._partition.unwatch(wake)


class _FollowerFetch:
    """One request: record the fetch offsets once, then read until there are records."""

    def __init__(
        self,
        broker: BrokerServices,
        version: int,
        request: codec.FetchRequest,
        context: FetchContext,
    ) -> None:
        self._broker = broker
        self._version = version
        self._request = request
        self._context = context
        self._session = context.session
        self._entries = {key_of(entry): entry for entry in context.partitions}
        self._todo = dict.fromkeys(self._entries)
        self._named: set[Key] = set()
        self._refused: dict[Key, KafkaError] = {}
        self._found: dict[Key, Partition] = {}
        """Looked up for the fetch offsets, and not read yet."""
        self._results: dict[Key, codec.PartitionFetchResponse] = {}
        self._bytes_found = 0
        self._is_urgent = not self._entries and context.session is None
        self._own_watches: Watches[Key] | None = None
        self._reply: Deferred | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False

    def run(self) -> Reply:
        """Return the response, or a Deferred of it."""
        self._record_offsets()
        if self._read_due() or self._request.wait_ms_max <= 0:
            return self._respond()
        self._reply = Deferred()
        self._watch()
        wait_ms = min(self._request.wait_ms_max, WAIT_MS_MAX)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_timeout)
        return self._reply

    def _record_offsets(self) -> None:
        """Tell each partition of the request the follower's fetch offset."""
        for entry in self._request.partitions:
            key = key_of(entry)
            self._named.add(key)
            try:
                partition = self._found[key] = self._partition(entry)
                log = partition.log
                if not log.log_start_offset <= entry.fetch_offset <= log.log_end_offset:
                    continue
                if partition.find_divergence(entry.fetch_offset, entry.last_fetched_epoch) is None:
                    partition.record_fetch(
                        self._request.replica_id,
                        broker_epoch=self._request.replica_epoch,
                        log_end_offset=entry.fetch_offset,
                        log_start_offset=entry.log_start_offset,
                    )
            except KafkaError as error:
                self._refused[key] = error

    # -- reading ----------------------------------------------------------------------------

    def _read_due(self) -> bool:
        """Read the partitions that are due; return whether the response may leave now."""
        todo, self._todo = self._todo, {}
        for key in todo:
            before = self._results.get(key)
            if before is not None:
                self._bytes_found -= codec.records_size_bytes(before.records)
            result = self._results[key] = self._read(key, self._entries[key])
            self._bytes_found += codec.records_size_bytes(result.records)
        return self._is_urgent or self._bytes_found >= max(self._request.bytes_min, 1)

    def _read(self, key: Key, entry: codec.FetchPartition) -> codec.PartitionFetchResponse:
        try:
            if key in self._refused:
                raise self._refused[key]
            partition = self._found.pop(key, None) or self._partition(entry)
            if key not in self._named and partition.awaits_fetch(self._request.replica_id):
                # An idle partition is not in the follower's requests. After this error the
                # follower sends its offset again; without it the replica would never be in sync.
                raise KafkaError(ErrorCode.not_leader_or_follower)
            result = self._read_partition(partition, entry)
        except KafkaError as error:
            self._is_urgent = True
            return codec.PartitionFetchResponse(
                entry.topic, entry.partition, error.code, topic_id=entry.topic_id
            )
        if (
            result.error_code
            or result.diverging_epoch is not None
            or result.log_start_offset > entry.log_start_offset
        ):
            self._is_urgent = True
        elif self._session is not None and entry.fetch_offset == partition.log.log_end_offset:
            self._session.watches.add(key, ReplicaProgress(partition))
            self._session.settle(key)
        return result

    def _read_partition(
        self, partition: Partition, entry: codec.FetchPartition
    ) -> codec.PartitionFetchResponse:
        log = partition.log
        partition.traffic.fetch_requests += 1
        error_code = ErrorCode.none
        records: LogSlice | None = None
        diverging = partition.find_divergence(entry.fetch_offset, entry.last_fetched_epoch)
        if diverging is None:
            if log.log_start_offset <= entry.fetch_offset <= log.log_end_offset:
                records = self._records(partition, entry)
            else:
                error_code = ErrorCode.offset_out_of_range
        return codec.PartitionFetchResponse(
            entry.topic,
            entry.partition,
            error_code,
            partition.high_watermark,
            partition.high_watermark,
            log.log_start_offset,
            None,
            NO_REPLICA,
            records,
            entry.topic_id,
            None,
            None if diverging is None else (diverging.epoch, diverging.end_offset),
        )

    def _records(self, partition: Partition, entry: codec.FetchPartition) -> LogSlice | None:
        first = self._bytes_found == 0
        bytes_left = self._request.bytes_max - self._bytes_found
        if (bytes_left <= 0 and not first) or self._is_throttled(partition):
            return None
        return partition.read(
            entry.fetch_offset,
            bytes_max=max(min(entry.partition_bytes_max, bytes_left), 0),
            offset_limit=partition.log.log_end_offset,
            at_least_one_batch=first,
        )

    def _is_throttled(self, partition: Partition) -> bool:
        throttle = self._broker.replicas.throttle.leader
        return throttle.must_wait(
            partition.topic, partition.partition
        ) and not partition.has_in_sync(self._request.replica_id)

    # -- waiting ----------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._session is not None:
            self._session.on_changed = self._moved
            return
        self._own_watches = Watches(self._moved)
        for key, entry in self._entries.items():
            partition = self._find_partition(entry)
            if partition is not None:
                self._own_watches.add(key, ReplicaProgress(partition))

    def _unwatch(self) -> None:
        if self._own_watches is not None:
            self._own_watches.close()
        elif self._session is not None and self._session.on_changed == self._moved:
            self._session.on_changed = None

    def _moved(self, key: Key) -> None:
        """Read the partition again. A high watermark alone waits for the next response."""
        entry = self._entries.get(key)
        if entry is None:
            assert self._session is not None, "without a session all partitions are in the request"
            entry = self._entries[key] = self._session.partitions[key].requested
        self._todo[key] = None
        partition = self._find_partition(entry)
        if partition is None or partition.log.log_end_offset > entry.fetch_offset:
            if not self._is_due:
                # Several partitions often grow in one turn, and requests that have arrived
                # meanwhile make them grow again: the next turn serves those before the response.
                self._is_due = True
                loop = asyncio.get_running_loop()
                loop.call_soon(loop.call_soon, self._resume)
            return
        watches = self._own_watches if self._session is None else self._session.watches
        if watches is not None:
            watches.add(key, ReplicaProgress(partition))

    def _resume(self) -> None:
        self._is_due = False
        self._step(self._continue)

    def _on_timeout(self) -> None:
        self._step(self._end)

    def _step(self, step: Callable[[], None]) -> None:
        if self._reply is not None and not self._reply.is_done:
            self._reply.guard(step)
            self._clean_up()

    def _clean_up(self) -> None:
        if self._reply is not None and self._reply.is_done:
            self._unwatch()
            if self._timer is not None:
                self._timer.cancel()

    def _continue(self) -> None:
        if self._read_due():
            self._resolve()

    def _end(self) -> None:
        self._read_due()
        self._resolve()

    def _resolve(self) -> None:
        assert self._reply is not None
        self._reply.resolve(self._respond())

    def _respond(self) -> Body:
        """Encode the results that the session includes."""
        results = list(self._results.values())
        error_code, session_id, included = self._context.answer(
            results, self._broker.clock.monotonic_ms()
        )
        replicas = self._broker.replicas
        for result in included:
            size_bytes = codec.records_size_bytes(result.records)
            topic = self._topic(result) if size_bytes else None
            if topic is not None:
                replicas.traffic.of(topic.name).replication_bytes_out += size_bytes
                if replicas.throttle.leader.is_used:
                    replicas.throttle.leader.record(topic.name, result.partition, size_bytes)
        return codec.encode_response(
            self._version, included, error_code=error_code, session_id=session_id
        )

    # -- partitions -------------------------------------------------------------------------

    def _find_partition(self, entry: codec.FetchPartition) -> Partition | None:
        try:
            return self._partition(entry)
        except KafkaError:
            return None

    def _topic(
        self, entry: codec.FetchPartition | codec.PartitionFetchResponse
    ) -> TopicState | None:
        return self._broker.metadata.topic_by_id(entry.topic_id) if entry.topic_id else None

    def _partition(self, entry: codec.FetchPartition) -> Partition:
        topic = self._topic(entry)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        partition = self._broker.replicas.get_leader(topic.name, entry.partition)
        if entry.topic_id is None or entry.topic_id.int != partition.topic_id.int:
            raise KafkaError(ErrorCode.inconsistent_topic_id)
        partition.require_leader(entry.current_leader_epoch)
        return partition
