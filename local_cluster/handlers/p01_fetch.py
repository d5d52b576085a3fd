"""Fetch v4-v18.

Long poll: the answer waits until `min_bytes` are there, an error is, or `max_wait_ms` is over.
Whole batches are returned, the first one being the one that contains the offset; the first batch
of the answer comes even if it is above the limits (KIP-74). v9 checks the leader epoch (KIP-320).
Readers see records below the high watermark only; with read_committed, below the last stable
offset, and are told the aborted transactions that touch what they get, by first offset.

v7 brings incremental sessions (KIP-227, fetch_sessions.py; at most
`max.incremental.fetch.session.cache.slots`, session id 0 says that there is no room), v13 topic ids
(KIP-516: UNKNOWN_TOPIC_ID where no topic has the id, INCONSISTENT_TOPIC_ID where the replica here
is of another one), v15 the replica state (KIP-903), v16 who leads instead, and where, of
partitions that are refused with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH (KIP-951), v18 the
high watermark that a follower knows (KIP-1166), which is not looked at.

Fetches of followers (replica id >= 0) go their own way: replica_fetch.py.

Deviation from Kafka: one session holds at most 100,000 partitions.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from local_cluster.fetch_sessions import FetchContext
from local_cluster.log.partition_log import LogSlice
from local_cluster.replication.partition import Partition
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .current_leader import NAMES_LEADER, current_leader, node_endpoints
from .registry import Reply, RequestContext, handles
from .replica_fetch import replica_fetch
from .services import BrokerServices

BYTES_MAX: Final = 55 * 1024 * 1024
"""Kafka's default of fetch.max.bytes on the broker."""
WAIT_MS_MAX: Final = 5 * 60 * 1000
ISOLATION_LEVELS: Final = (0, codec.READ_COMMITTED)
NOT_FOUND: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.topic_authorization_failed,
    }
)


@handles(ApiKey.FETCH, min_version=4, max_version=18, raw=True)
def fetch(broker: BrokerServices, context: RequestContext, body: Any) -> Reply:
    """Read what is there; wait for more where the client wants to."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.isolation_level not in ISOLATION_LEVELS:
        return _unknown_isolation(context, request)
    if request.replica_id >= 0:
        return replica_fetch(broker, context, request)
    try:
        session = broker.fetch_sessions.open(
            request.session_id,
            request.session_epoch,
            request.partitions,
            request.forgotten,
            uses_topic_ids=context.api_version >= codec.TOPIC_IDS_SINCE,
            now_ms=broker.clock.monotonic_ms(),
        )
    except KafkaError as error:
        return codec.encode_response(context.api_version, (), error_code=error.code)
    attempt = _Fetch(broker, context, request, session)
    if attempt.read() or request.wait_ms_max <= 0:
        return attempt.answer()
    return attempt.wait()


def _unknown_isolation(context: RequestContext, request: codec.FetchRequest) -> Reply:
    """What Kafka says to it, an exception inside: of every partition, from v13 of the whole."""
    code = ErrorCode.unknown_server_error
    asked = request.partitions if context.api_version < codec.TOPIC_IDS_SINCE else ()
    refused = [codec.PartitionFetched(e.topic, e.partition, code, -1, -1, -1, ()) for e in asked]
    return codec.encode_response(
        context.api_version, refused, error_code=code, session_id=request.session_id
    )


class _Fetch:
    """One request: read, and read again when something moved."""

    def __init__(
        self,
        broker: BrokerServices,
        context: RequestContext,
        request: codec.FetchRequest,
        session: FetchContext,
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._session = session
        self._results: list[codec.PartitionFetched] = []
        self._watched: dict[Partition, None] = {}

    def read(self) -> bool:
        """Read every partition; whether the answer need not wait any longer."""
        request = self._request
        results: list[codec.PartitionFetched] = []
        self._watched.clear()
        bytes_left = min(request.bytes_max, BYTES_MAX)
        bytes_found = 0
        urgent = not self._session.partitions
        for entry in self._session.partitions:
            try:
                result = self._read_partition(entry, bytes_left, first=bytes_found == 0)
            except KafkaError as error:
                result = self._error(entry, error.code)
                urgent = True
            if isinstance(result.records, LogSlice):
                bytes_found += result.records.size_bytes
                bytes_left -= result.records.size_bytes
            results.append(result)
        self._results = results
        return urgent or bytes_found >= request.bytes_min

    def answer(self) -> Reply:
        """Encode the last `read`."""
        error_code, session_id, told = self._session.answer(
            self._results, self._broker.clock.monotonic_ms()
        )
        leaders = [entry.current_leader for entry in told if entry.current_leader is not None]
        return codec.encode_response(
            self._context.api_version,
            told,
            error_code=error_code,
            session_id=session_id,
            node_endpoints=node_endpoints(self._broker, self._context, leaders) if leaders else (),
        )

    async def wait(self) -> Reply:
        """Read again whenever a partition moves, until that is enough or time is up."""
        loop = asyncio.get_running_loop()
        moved = asyncio.Event()
        watched = list(self._watched)
        for partition in watched:
            partition.watch(moved.set)
        # This runs after others had their turn: what moved since the first read woke nobody.
        if self.read():
            moved.set()
        deadline = loop.time() + min(self._request.wait_ms_max, WAIT_MS_MAX) / 1000
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

    def _read_partition(
        self, entry: codec.FetchPartition, bytes_left: int, *, first: bool
    ) -> codec.PartitionFetched:
        topic = self._topic_name(entry)
        if not self._broker.authorize(self._context, "READ", "TOPIC", topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        partition = self._broker.replicas.get_leader(topic, entry.partition)
        if entry.topic_id is not None and entry.topic_id != partition.topic_id:
            raise KafkaError(ErrorCode.inconsistent_topic_id)
        partition.require_leader(entry.current_leader_epoch)
        self._watched[partition] = None
        committed_only = self._request.isolation_level == codec.READ_COMMITTED
        limit = partition.last_stable_offset if committed_only else partition.high_watermark
        records = None
        aborted: list[tuple[int, int]] = []
        if bytes_left > 0 or first:
            records = partition.read(
                entry.fetch_offset,
                bytes_max=max(min(entry.partition_bytes_max, bytes_left), 0),
                offset_limit=limit,
                at_least_one_batch=first,
            )
        if committed_only and records is not None:
            aborted = [
                (ended.producer_id, ended.first_offset)
                for ended in partition.log.aborted_transactions(
                    entry.fetch_offset, records.next_offset
                )
            ]
        return codec.PartitionFetched(
            entry.topic,
            entry.partition,
            ErrorCode.none,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            aborted if committed_only else None,
            -1,
            records,
            entry.topic_id,
        )

    def _topic_name(self, entry: codec.FetchPartition) -> str:
        if self._context.api_version < codec.TOPIC_IDS_SINCE:
            return entry.topic
        topic = None
        if entry.topic_id is not None:
            topic = self._broker.metadata.topic_by_id(entry.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        return topic.name

    def _error(self, entry: codec.FetchPartition, code: ErrorCode) -> codec.PartitionFetched:
        # Kafka's list is null only where the partition was found.
        aborted = () if code in NOT_FOUND else None
        refused = codec.PartitionFetched(
            entry.topic, entry.partition, code, -1, -1, -1, aborted, topic_id=entry.topic_id
        )
        if code not in NAMES_LEADER or self._context.api_version < codec.NODE_ENDPOINTS_SINCE:
            return refused
        leader = current_leader(self._broker, self._topic_name(entry), entry.partition)
        return refused._replace(current_leader=leader)
