"""Audits a mirrored topic by reading every record of both logs, without an offset map.

First pass: fingerprints of whole batches, without decompression. A mirror that copies bytes leaves
the same batches in the same order on both sides. That proves a partition at the speed of the
network. Any other partition is read again record by record, and `reconcile` names the faults.

Order of reading: the aggregate's end is read before the source's. So the source has every record
that the aggregate has, however busy the mirror is. Pass the mirrored ends that were known before
the call; then records on their way count as pending.

Limits: both logs are read from their starts. Old records that only one side has deleted count as
lost or foreign. The records of one partition are held in memory as (offset, fingerprint).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, NamedTuple

from aggregator.audit.fingerprint import fingerprint_batch, fingerprint_record
from aggregator.audit.reconciliation import (
    AuditReport,
    LogEntry,
    PartitionKey,
    ReconciledPartition,
    reconcile,
)
from aggregator.ports import ClusterReader
from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.batch import decode_batch
from local_cluster.records.committed import committed_batches
from local_cluster.records.header import BatchHeader, crc_is_valid
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError

FETCH_WAIT_MS_MAX: Final = 100
FETCH_PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
FETCHES_WITHOUT_PROGRESS_MAX: Final = 50
MOVES_MAX: Final = 30
"""Most leader changes of a partition that one read follows."""
MOVE_WAIT_S: Final = 1.0
_MOVED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
    }
)


class LogRange(NamedTuple):
    """Offsets [start, end) of one partition, and its leader."""

    at: TopicPartition
    leader: int
    start: int
    end: int


async def audit_topic(
    source: ClusterReader,
    aggregate: ClusterReader,
    *,
    datacenter: str,
    topic: str,
    target_topic: str,
    mirrored_ends: Mapping[int, int | None] | None = None,
) -> AuditReport:
    """Compare a source topic with its copy, partition by partition.

    `mirrored_ends` has the end of the mapped source offsets per partition (None: nothing is
    mapped). Without it every missing record counts as lost. Raises KafkaError if a side does not
    respond, CorruptRecordError or CompressionError if a batch is not readable.
    """
    targets = await log_ranges(aggregate, target_topic)
    sources = await log_ranges(source, topic)
    results = []
    for partition in sorted(sources.keys() | targets.keys()):
        end = None if mirrored_ends is None else mirrored_ends.get(partition) or 0
        results.append(
            await _audit_partition(
                source,
                aggregate,
                PartitionKey(datacenter, topic, partition),
                target_topic,
                sources.get(partition),
                targets.get(partition),
                end,
            )
        )
    return AuditReport(tuple(results))


async def log_ranges(client: ClusterReader, topic: str) -> dict[int, LogRange]:
    """Return the offsets of each partition of a topic; empty if the topic does not exist."""
    found = (await client.metadata([topic])).topics.get(topic)
    if found is None or found.error == ErrorCode.unknown_topic_or_partition:
        return {}
    if found.error:
        raise KafkaError(found.error, topic)
    places = [TopicPartition(topic, partition) for partition in found.partitions]
    ends = await client.list_offsets(
        dict.fromkeys(places, LATEST_TIMESTAMP), isolation_level=READ_COMMITTED
    )
    starts = await client.list_offsets(dict.fromkeys(places, EARLIEST_TIMESTAMP))
    ranges = {}
    for at in places:
        for listed in (starts[at], ends[at]):
            if listed.error:
                raise KafkaError(listed.error, str(at))
        leader = found.partitions[at.partition].leader
        ranges[at.partition] = LogRange(at, leader, starts[at].offset, ends[at].offset)
    return ranges


async def _leader(client: ClusterReader, at: TopicPartition) -> int:
    """Return the leader of a partition. Raises KafkaError."""
    topic = (await client.metadata([at.topic])).topics.get(at.topic)
    if topic is None or topic.error or at.partition not in topic.partitions:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, str(at))
    return topic.partitions[at.partition].leader


async def read_entries(client: ClusterReader, log: LogRange | None) -> list[LogEntry]:
    """Return (offset, fingerprint) of every committed record of the range, in log order."""
    if log is None:
        return []
    entries: list[LogEntry] = []
    async for records, place, header in read_log_batches(client, log):
        entries.extend(
            LogEntry(record.offset, fingerprint_record(record))
            for record in decode_batch(records, place, header)
            if log.start <= record.offset < log.end
        )
    return entries


async def _audit_partition(
    source: ClusterReader,
    aggregate: ClusterReader,
    key: PartitionKey,
    target_topic: str,
    source_log: LogRange | None,
    target_log: LogRange | None,
    mirrored_end: int | None,
) -> ReconciledPartition:
    source_batches = await _read_fingerprints(source, source_log)
    if source_batches == await _read_fingerprints(aggregate, target_log):
        produced = sum(records_count for records_count, _ in source_batches)
        return ReconciledPartition(
            key=key,
            target_topic=target_topic,
            produced=produced,
            mirrored=produced,
            aggregate_records=produced,
        )
    return reconcile(
        key,
        target_topic,
        await read_entries(source, source_log),
        await read_entries(aggregate, target_log),
        mirrored_end=mirrored_end,
    )


async def _read_fingerprints(
    client: ClusterReader, log: LogRange | None
) -> list[tuple[int, bytes]]:
    """Return (records, fingerprint) of every committed batch of the range, in log order."""
    if log is None:
        return []
    return [
        (header.records_count, fingerprint_batch(records, place, header))
        async for records, place, header in read_log_batches(client, log)
    ]


async def read_log_batches(
    client: ClusterReader, log: LogRange, on_trimmed: Callable[[int], None] | None = None
) -> AsyncIterator[tuple[memoryview, int, BatchHeader]]:
    """Yield (fetched bytes, position, header) of every committed batch, with its CRC checked.

    The read follows leader changes. If the log no longer has an offset, `on_trimmed` is called with
    the new log start; without it, that is an error. Raises KafkaError.
    """
    offset, idle = log.start, 0
    moves = 0
    while offset < log.end:
        fetched = (
            await client.fetch(
                log.leader,
                {log.at: FetchPosition(offset)},
                wait_ms_max=FETCH_WAIT_MS_MAX,
                partition_bytes_max=FETCH_PARTITION_BYTES_MAX,
                isolation_level=READ_COMMITTED,
            )
        )[log.at]
        if fetched.error == ErrorCode.offset_out_of_range and on_trimmed is not None:
            start = (await client.list_offsets({log.at: EARLIEST_TIMESTAMP}))[log.at]
            if start.error == ErrorCode.none and start.offset > offset:
                on_trimmed(start.offset)
                offset = start.offset
                continue
        if fetched.error in _MOVED and moves < MOVES_MAX:
            moves += 1
            await asyncio.sleep(MOVE_WAIT_S)
            log = log._replace(leader=await _leader(client, log.at))
            continue
        if fetched.error:
            raise KafkaError(fetched.error, f"{log.at} at offset {offset}")
        before = offset
        for place, header, is_visible in committed_batches(
            fetched.records, fetched.aborted_transactions
        ):
            if header.base_offset >= log.end:
                return
            if not crc_is_valid(fetched.records, place, header):
                raise KafkaError(ErrorCode.corrupt_message, f"{log.at}: {header.base_offset}")
            if is_visible:
                yield fetched.records, place, header
            offset = max(offset, header.next_offset)
        idle = idle + 1 if offset == before else 0
        if idle > FETCHES_WITHOUT_PROGRESS_MAX:
            raise KafkaError(ErrorCode.request_timed_out, f"{log.at}: no batch at offset {offset}")
