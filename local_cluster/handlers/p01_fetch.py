"""Fetch v4-v12.

Long poll: the answer waits until `min_bytes` are there, an error is, or `max_wait_ms` is over.
Whole batches are returned, the first one being the one that contains the offset; the first batch
of the answer comes even if it is above the limits (KIP-74). v9 checks the leader epoch (KIP-320).
Readers see records below the high watermark only; with read_committed, below the last stable
offset, and are told the aborted transactions that touch what they get, by first offset.

Deviations from Kafka: no incremental fetch sessions (KIP-227; session id 0 says so and clients
fall back to full requests); follower fetches (replica id >= 0) are refused until replicas can be
more than one; topic ids (v13) are not there.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from local_cluster.log.partition_log import LogSlice
from local_cluster.replication.partition import Partition
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .registry import Reply, RequestContext, handles
from .services import BrokerServices

BYTES_MAX: Final = 55 * 1024 * 1024
"""Kafka's default of fetch.max.bytes on the broker."""
WAIT_MS_MAX: Final = 5 * 60 * 1000


@handles(ApiKey.FETCH, min_version=4, max_version=12, raw=True)
def fetch(broker: BrokerServices, context: RequestContext, body: Any) -> Reply:
    """Read what is there; wait for more where the client wants to."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.session_id != 0 and request.session_epoch > 0:
        return codec.encode_response(
            context.api_version, (), error_code=ErrorCode.fetch_session_id_not_found
        )
    attempt = _Fetch(broker, context, request)
    if attempt.read() or request.wait_ms_max <= 0:
        return attempt.answer()
    return attempt.wait()


class _Fetch:
    """One request: read, and read again when something moved."""

    def __init__(
        self, broker: BrokerServices, context: RequestContext, request: codec.FetchRequest
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._results: list[codec.PartitionFetched] = []
        self._watched: dict[Partition, None] = {}

    def read(self) -> bool:
        """Read every partition; whether the answer need not wait any longer."""
        request = self._request
        results: list[codec.PartitionFetched] = []
        self._watched.clear()
        bytes_left = min(request.bytes_max, BYTES_MAX)
        bytes_found = 0
        urgent = not request.partitions
        for entry in request.partitions:
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
        return codec.encode_response(self._context.api_version, self._results)

    async def wait(self) -> Reply:
        """Read again whenever a partition moves, until that is enough or time is up."""
        loop = asyncio.get_running_loop()
        moved = asyncio.Event()
        watched = list(self._watched)
        for partition in watched:
            partition.watch(moved.set)
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
        if not self._broker.authorize(self._context, "READ", "TOPIC", entry.topic):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        if self._request.replica_id >= 0:
            raise KafkaError(ErrorCode.not_leader_or_follower, "one replica is served for now")
        partition = self._broker.replicas.get_leader(entry.topic, entry.partition)
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
        )

    def _error(self, entry: codec.FetchPartition, code: ErrorCode) -> codec.PartitionFetched:
        return codec.PartitionFetched(entry.topic, entry.partition, code)
