"""Read a small topic from its start to where it ended when asked: state topics, tests, tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Protocol

from local_cluster.client.model import (
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    TopicPartition,
)
from local_cluster.records.batch import Record, decode_batch
from local_cluster.records.header import BatchHeader, iter_headers
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024


class LogClient(Protocol):
    """What reading asks of a client; `KafkaClient` is one. Every method raises KafkaError."""

    async def metadata(self, topics: Sequence[str] | None = None) -> ClusterMetadata: ...

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]: ...

    async def fetch(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        partition_bytes_max: int = 1_048_576,
    ) -> dict[TopicPartition, FetchedPartition]: ...


async def read_topic(
    client: LogClient, topic: str, *, partition: int = 0, from_offset: int | None = None
) -> AsyncIterator[Record]:
    """Every data record from `from_offset` (None: the log start) to the present high watermark.

    Raises KafkaError: unknown topic, no leader, offset out of range, network trouble.
    """
    batches = read_batches(client, topic, partition=partition, from_offset=from_offset)
    async for _, records in batches:
        for record in records:
            yield record


async def read_batches(
    client: LogClient, topic: str, *, partition: int = 0, from_offset: int | None = None
) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
    """As `read_topic`, by batches: each header with those of its records that are asked for."""
    at = TopicPartition(topic, partition)
    end = (await client.list_offsets({at: LATEST_TIMESTAMP}))[at]
    start = (await client.list_offsets({at: EARLIEST_TIMESTAMP}))[at]
    for listed in (end, start):
        if listed.error:
            raise KafkaError(listed.error, str(at))
    offset = start.offset if from_offset is None else from_offset
    leader = (await client.metadata([topic])).topics[topic].partitions[partition].leader
    while offset < end.offset:
        fetched = (
            await client.fetch(
                leader, {at: FetchPosition(offset)}, partition_bytes_max=FETCH_BYTES_MAX
            )
        )[at]
        if fetched.error:
            raise KafkaError(fetched.error, str(at))
        before = offset
        for position, header in iter_headers(fetched.records):
            if not header.is_control:
                records = decode_batch(fetched.records, position, header)
                yield header, [each for each in records if before <= each.offset < end.offset]
            offset = max(offset, header.next_offset)
        if offset == before:
            raise KafkaError(ErrorCode.corrupt_message, f"{at}: no progress at offset {offset}")
