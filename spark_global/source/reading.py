"""Reads ranges of offsets from their leaders, and returns their records as columns. Shell.

The ranges of a task share one client per cluster. There is one Fetch at a time. It runs in Spark's
Python workers, which have no event loop, so a plain generator steps an event loop of its own.

Guarantees: every committed record of each [start, end) exactly once and in order. A batch that
fails its CRC or does not decode is an error with its offset, never a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.committed import committed_batches
from local_cluster.records.compress import decompress
from local_cluster.records.header import HEADER_BYTES, BatchHeader, crc_is_valid
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from spark_global.addresses import ClusterAddress
from spark_global.source.columns import RecordColumns, take_rows
from spark_global.source.decoding import decode_columns, decode_places, has_no_gap
from spark_global.source.provenance import UNKNOWN_OFFSET
from spark_global.source.splits import PartitionRange, Takes

CHUNK_RECORDS: Final = 16_384
"""Records that are decoded together, unless CHUNK_BYTES is reached first."""
CHUNK_BYTES: Final = 16 * 1024 * 1024
FETCH_WAIT_MS_MAX: Final = 500
LEADER_SECONDS_MAX: Final = 30.0
"""Seconds that a read waits for a leader that responds."""
LEADER_WAIT_SECONDS_MAX: Final = 1.0

TRANSIENT: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.broker_not_available,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
        ErrorCode.offset_not_available,
    }
)

Batches = list[tuple[BatchHeader, bytes]]
Rows = Callable[[RecordColumns, PartitionRange], pa.RecordBatch]


def read_range(
    wanted: PartitionRange, rows: Rows, fetch_bytes_max: int, *, places_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield record batches of the table that `rows` builds, for every record of the range.

    `places_only`: `rows` needs only offsets, so a batch without gaps is not decompressed.

    Raises KafkaError (such as offset_out_of_range, if retention has passed the start) and
    CorruptRecordError.
    """
    yield from read_ranges([wanted], rows, fetch_bytes_max, places_only=places_only)


def read_ranges(
    ranges: Sequence[PartitionRange], rows: Rows, fetch_bytes_max: int, *, places_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield record batches as `read_range`, for one range after the other."""
    leaders: dict[str, _Leaders] = {}
    with asyncio.Runner() as runner:
        try:
            for wanted in ranges:
                here = leaders.setdefault(repr(wanted.cluster), _Leaders(wanted.cluster))
                source = _LeaderFetch(wanted, here, fetch_bytes_max)
                yield from _read(runner, source, wanted, rows, places_only)
        finally:
            for each in leaders.values():
                runner.run(each.client.close())


def _read(
    runner: asyncio.Runner,
    source: _LeaderFetch,
    wanted: PartitionRange,
    rows: Rows,
    places_only: bool,
) -> Iterator[pa.RecordBatch]:
    position = wanted.start
    chunk = _Chunk()
    while position < wanted.end:
        fetched = runner.run(source.fetch(position))
        before = position
        for header, payload in _open_batches(fetched, wanted, places_only):
            position = max(position, header.next_offset)
            if payload is not None:
                chunk.add(header, payload)
            if chunk.is_full:
                yield from _chunk_rows(chunk.batches, wanted, rows, places_only)
                chunk = _Chunk()
            if position >= wanted.end:
                break
        if position == before:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"{_at(wanted)}: no whole batch at offset {position}",
            )
    yield from _chunk_rows(chunk.batches, wanted, rows, places_only)


class _Chunk:
    """Batches that are collected to be decoded together."""

    def __init__(self) -> None:
        self.batches: Batches = []
        self._records = 0
        self._bytes = 0

    def add(self, header: BatchHeader, payload: bytes) -> None:
        self.batches.append((header, payload))
        self._records += header.records_count
        self._bytes += len(payload)

    @property
    def is_full(self) -> bool:
        return self._records >= CHUNK_RECORDS or self._bytes >= CHUNK_BYTES


class _Leaders:
    """A client of one cluster, and the leaders of partitions as far as they are known."""

    def __init__(self, cluster: ClusterAddress) -> None:
        self.client = cluster.client()
        self._known: dict[TopicPartition, int] = {}

    async def find(self, at: TopicPartition) -> int:
        """Return the leader of a partition, from one request for its whole topic.

        Raises KafkaError if there is none.
        """
        leader = self._known.get(at)
        if leader is None:
            topic = (await self.client.metadata([at.topic])).topics.get(at.topic)
            for number, each in ({} if topic is None else topic.partitions).items():
                self._known.setdefault(TopicPartition(at.topic, number), each.leader)
            leader = self._known.get(at)
        if leader is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{at.topic}-{at.partition}")
        if leader < 0:
            self.forget(at)
            raise KafkaError(ErrorCode.leader_not_available, f"{at.topic}-{at.partition}")
        return leader

    def forget(self, at: TopicPartition) -> None:
        """Ask for the leader again."""
        self._known.pop(at, None)


class _LeaderFetch:
    """Fetches from the leader of one partition."""

    def __init__(self, wanted: PartitionRange, leaders: _Leaders, fetch_bytes_max: int) -> None:
        self._wanted = wanted
        self._leaders = leaders
        self._at = TopicPartition(wanted.read_topic, wanted.partition)
        self._fetch_bytes_max = fetch_bytes_max

    async def fetch(self, offset: int) -> FetchedPartition:
        """Fetch batches from the one with `offset` on. Raises KafkaError."""
        return await AsyncRetrying(
            stop=stop_after_delay(LEADER_SECONDS_MAX),
            wait=wait_random_exponential(multiplier=0.05, max=LEADER_WAIT_SECONDS_MAX),
            retry=retry_if_exception(
                lambda error: isinstance(error, KafkaError) and error.code in TRANSIENT
            ),
            reraise=True,
        )(self._attempt, offset)

    async def _attempt(self, offset: int) -> FetchedPartition:
        try:
            return await self._fetch_once(offset)
        except Exception:
            self._leaders.forget(self._at)
            raise

    async def _fetch_once(self, offset: int) -> FetchedPartition:
        where = f"{_at(self._wanted)} at offset {offset}"
        answer = await self._leaders.client.fetch(
            await self._leaders.find(self._at),
            {self._at: FetchPosition(offset)},
            wait_ms_max=FETCH_WAIT_MS_MAX,
            bytes_max=self._fetch_bytes_max,
            partition_bytes_max=self._fetch_bytes_max,
            isolation_level=READ_COMMITTED,
        )
        fetched = answer[self._at]
        if fetched.error:
            raise KafkaError(fetched.error, where)
        if not fetched.records:
            # The end of the range was stable when the read was planned, so this broker lags.
            raise KafkaError(ErrorCode.offset_not_available, where)
        return fetched


def _at(wanted: PartitionRange) -> str:
    return f"{wanted.read_topic}-{wanted.partition} of {wanted.cluster.bootstrap}"


def _open_batches(
    fetched: FetchedPartition, wanted: PartitionRange, places_only: bool
) -> Iterator[tuple[BatchHeader, bytes | None]]:
    """Yield every batch with its decompressed records; None if none of them is in the range."""
    records = fetched.records
    for position, header, visible in committed_batches(records, fetched.aborted_transactions):
        is_within = header.last_offset >= wanted.start and header.base_offset < wanted.end
        if not visible or not is_within or not _is_of_producers(header, wanted):
            yield header, None
            continue
        if not crc_is_valid(records, position, header):
            raise CorruptRecordError(
                f"{_at(wanted)}: the batch at offset {header.base_offset} fails its CRC"
            )
        if places_only and has_no_gap(header):
            yield header, b""
            continue
        body = memoryview(records)[position + HEADER_BYTES : position + header.size_bytes]
        yield header, decompress(header.codec, body)


def _is_of_producers(header: BatchHeader, wanted: PartitionRange) -> bool:
    match wanted.takes:
        case Takes.WRITTEN:
            return header.producer_id in wanted.producers
        case Takes.UNMAPPED:
            return header.producer_id not in wanted.producers
        case _:
            return True


def _chunk_rows(
    chunk: Batches, wanted: PartitionRange, rows: Rows, places_only: bool
) -> Iterator[pa.RecordBatch]:
    if not chunk:
        return
    try:
        columns = decode_places(chunk) if places_only else decode_columns(chunk)
    except CorruptRecordError as error:
        error.add_note(f"{_at(wanted)}, batches from offset {chunk[0][0].base_offset} on")
        raise
    # Offsets ascend within a partition, so the wanted ones are one slice.
    first, last = np.searchsorted(columns.offsets, [wanted.start, wanted.end])
    if last > first:
        taken = take_rows(columns, int(first), int(last))
        made = rows(taken, wanted)
        if wanted.takes is not Takes.ALL:
            assert wanted.runs is not None, "the selection of records needs a map"
            is_mapped = wanted.runs.sources_of(taken.offsets) != UNKNOWN_OFFSET
            made = made.filter(pa.array(is_mapped == (wanted.takes is Takes.MAPPED)))
        yield made
