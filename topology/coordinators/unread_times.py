"""When the first record that a group has not read was appended, asked of any Kafka cluster.

One batch per partition is fetched at the committed offset, as a consumer would, and only its header
is read. Control batches and aborted transactions are passed over. Needs READ on the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.committed import committed_batches
from local_cluster.records.header import BatchHeader
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from local_cluster.wire.errors import KafkaError, PeerError
from topology.admin.cluster_reading import known_offsets

PARTITIONS_MAX: Final = 1_000
"""Partitions of one call that are asked; the others stay unknown."""
AT_ONCE_MAX: Final = 8
BATCHES_MAX: Final = 50
"""Batches without a record to read that are passed over in one partition."""
FIRST_BATCH_BYTES: Final = 1
"""A limit by which a broker returns one batch and no more (KIP-74)."""


async def unread_times(
    client: KafkaClient, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """Return the times in ms; None if there is nothing to read. What is not known is missing."""
    asked = dict(list(committed.items())[:PARTITIONS_MAX])
    if not asked:
        return {}
    starts = await known_offsets(client, asked, EARLIEST_TIMESTAMP)
    cluster = await client.metadata(sorted({at.topic for at in asked}))
    leaders = {
        TopicPartition(name, index): partition.leader
        for name, topic in cluster.topics.items()
        for index, partition in topic.partitions.items()
    }
    found: dict[TopicPartition, int | None] = {}
    turn = asyncio.Semaphore(AT_ONCE_MAX)

    async def ask(at: TopicPartition, offset: int) -> None:
        async with turn:
            try:
                found[at] = await _find(client, leaders[at], at, max(offset, starts[at]))
            except (KafkaError, PeerError, LookupError, OSError):
                return

    await asyncio.gather(*(ask(at, offset) for at, offset in asked.items()))
    return found


async def _find(client: KafkaClient, leader: int, at: TopicPartition, offset: int) -> int | None:
    """Raises KafkaError, and LookupError if the time is not known."""
    isolation_level = READ_COMMITTED
    for _ in range(BATCHES_MAX):
        fetched = (
            await client.fetch(
                leader,
                {at: FetchPosition(offset)},
                wait_ms_max=0,
                partition_bytes_max=FIRST_BATCH_BYTES,
                isolation_level=isolation_level,
            )
        )[at]
        if fetched.error:
            raise KafkaError(fetched.error)
        before = offset
        batches = committed_batches(fetched.records, fetched.aborted_transactions)
        for _, header, is_visible in batches:
            if is_visible and header.records_count and header.last_offset >= offset:
                return _time_of(header)
            offset = max(offset, header.next_offset)
        if offset >= fetched.high_watermark:
            return None
        if offset == before:
            if isolation_level == READ_UNCOMMITTED:
                break
            isolation_level = READ_UNCOMMITTED  # a transaction is open, which holds back others
    raise LookupError(f"no record within {BATCHES_MAX} batches of {at}")


def _time_of(header: BatchHeader) -> int:
    """Raises LookupError for records without a time."""
    is_last = header.is_log_append_time or header.has_artificial_base_timestamp
    time_ms = header.max_timestamp if is_last else header.base_timestamp
    if time_ms < 0:
        raise LookupError("the record has no time")
    return time_ms
