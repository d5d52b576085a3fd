"""Read a topic by offsets: whole topics for tools and tests, pieces for followers of a topic.

`fetched_batches` (pure) checks and decodes one fetched answer. `read_until` fetches up to an end
offset. `read_batches` and `read_topic` read a partition from its start to its present end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final, Protocol

from local_cluster.client.model import (
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    TopicPartition,
)
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.header import BatchHeader, crc_is_valid, iter_headers
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024


class FetchClient(Protocol):
    """A client that fetches; `KafkaClient` is one."""

    async def fetch(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        wait_ms_max: int = 500,
        partition_bytes_max: int = 1_048_576,
    ) -> dict[TopicPartition, FetchedPartition]:
        """Raises KafkaError."""
        ...


class LogClient(FetchClient, Protocol):
    """A client that also finds leaders and offsets. Every method raises KafkaError."""

    async def metadata(self, topics: Sequence[str] | None = None) -> ClusterMetadata: ...

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]: ...


def fetched_batches(
    fetched: memoryview, position: int
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yield every complete batch from `position` on, with its records from `position` on.

    A broker returns whole batches, so the first one may begin before the position. A control batch
    comes with no records. Raises CorruptRecordError, also for a wrong CRC, and CompressionError.
    """
    for start, header in iter_headers(fetched):
        if header.next_offset <= position:
            continue
        if not crc_is_valid(fetched, start, header):
            raise CorruptRecordError(f"the batch at offset {header.base_offset} fails its CRC")
        records = [] if header.is_control else decode_batch(fetched, start, header)
        yield header, [record for record in records if record.offset >= position]


async def read_until(
    client: FetchClient,
    leader: int,
    at: TopicPartition,
    offset: int,
    end: int,
    *,
    partition_bytes_max: int = FETCH_BYTES_MAX,
) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
    """Fetch the batches of [offset, end) from a partition's leader, as `fetched_batches` yields
    them.

    The last batch may reach beyond `end`. Raises KafkaError, and what `fetched_batches` raises.
    """
    while offset < end:
        fetched = (
            await client.fetch(
                leader,
                {at: FetchPosition(offset)},
                wait_ms_max=0,
                partition_bytes_max=partition_bytes_max,
            )
        )[at]
        if fetched.error:
            raise KafkaError(fetched.error, str(at))
        before = offset
        for header, records in fetched_batches(fetched.records, offset):
            yield header, records
            offset = header.next_offset
        if offset == before:
            raise KafkaError(ErrorCode.corrupt_message, f"{at}: no progress at offset {offset}")


async def read_topic(
    client: LogClient, topic: str, *, partition: int = 0, from_offset: int | None = None
) -> AsyncIterator[Record]:
    """Yield every data record from `from_offset` (None: the log start) to the high watermark.

    Raises KafkaError: unknown topic, no leader, offset out of range, network failure.
    """
    batches = read_batches(client, topic, partition=partition, from_offset=from_offset)
    async for _, records in batches:
        for record in records:
            yield record


async def read_batches(
    client: LogClient,
    topic: str,
    *,
    partition: int = 0,
    from_offset: int | None = None,
    partition_bytes_max: int = FETCH_BYTES_MAX,
) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
    """Yield data batches like `read_topic`: each header with its records in that range."""
    at = TopicPartition(topic, partition)
    end = (await client.list_offsets({at: LATEST_TIMESTAMP}))[at]
    start = (await client.list_offsets({at: EARLIEST_TIMESTAMP}))[at]
    for listed in (end, start):
        if listed.error:
            raise KafkaError(listed.error, str(at))
    offset = start.offset if from_offset is None else from_offset
    batches = read_until(
        client,
        await _find_leader(client, at),
        at,
        offset,
        end.offset,
        partition_bytes_max=partition_bytes_max,
    )
    async for header, records in batches:
        if not header.is_control:
            yield header, [record for record in records if record.offset < end.offset]


async def _find_leader(client: LogClient, at: TopicPartition) -> int:
    topic = (await client.metadata([at.topic])).topics.get(at.topic)
    if topic is None or topic.error:
        raise KafkaError(topic.error if topic else ErrorCode.unknown_topic_or_partition, str(at))
    found = topic.partitions.get(at.partition)
    if found is None or found.leader < 0:
        raise KafkaError(ErrorCode.leader_not_available, str(at))
    return found.leader
