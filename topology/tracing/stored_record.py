"""Reads a record at its place in the log of a cluster. Shell."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, PartitionMetadata, TopicPartition
from local_cluster.client.reader import fetched_batches
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.committed import committed_batches
from local_cluster.records.compress import CompressionError
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED
from local_cluster.wire.errors import KafkaError
from topology.tracing.facts import LogFacts, Place, StoredRecord, Transaction

ONE_BATCH_BYTES: Final = 1
"""A limit by which a broker returns one batch and no more (KIP-74)."""


async def read_log(client: KafkaClient, place: Place, datacenter: str) -> LogFacts:
    """Return what a cluster has at a place. Raises KafkaError."""
    cluster = await client.metadata([place.topic])
    topic = cluster.topics[place.topic]
    facts = LogFacts(
        place=place,
        datacenter=datacenter,
        cluster_id=cluster.cluster_id or "",
        topic_id=topic.topic_id,
    )
    part = topic.partitions.get(place.partition)
    if topic.error:
        return replace(facts, missing=f"{place.cluster} answers {topic.error.name.upper()}")
    if part is None:
        return replace(facts, missing=f"{place.topic} has {len(topic.partitions)} partitions")
    if part.leader < 0:
        return replace(facts, missing="the partition has no leader")
    return await _read_partition(client, facts, part)


async def _read_partition(
    client: KafkaClient, facts: LogFacts, part: PartitionMetadata
) -> LogFacts:
    place = facts.place
    at = TopicPartition(place.topic, place.partition)
    start = (await client.list_offsets({at: EARLIEST_TIMESTAMP}))[at]
    end = (await client.list_offsets({at: LATEST_TIMESTAMP}))[at]
    for listed in (start, end):
        if listed.error:
            raise KafkaError(listed.error, str(at))
    facts = replace(
        facts,
        leader=part.leader,
        leader_epoch=part.leader_epoch if part.leader_epoch >= 0 else None,
        start=start.offset,
        end=end.offset,
    )
    if place.offset < start.offset:
        return replace(facts, missing=f"deleted: the partition begins at {start.offset}")
    if place.offset >= end.offset:
        return replace(facts, missing=f"not committed yet: the high watermark is {end.offset}")
    stored, missing = await _read_record(client, part.leader, at, place.offset)
    return replace(facts, stored=stored, missing=missing)


async def _read_record(
    client: KafkaClient, leader: int, at: TopicPartition, offset: int
) -> tuple[StoredRecord | None, str | None]:
    """Return the record, or why there is none."""
    fetched = await client.fetch(
        leader, {at: FetchPosition(offset)}, wait_ms_max=0, partition_bytes_max=ONE_BATCH_BYTES
    )
    if fetched[at].error:
        raise KafkaError(fetched[at].error, str(at))
    try:
        for header, records in fetched_batches(fetched[at].records, offset):
            if header.base_offset > offset:
                break
            if header.is_control:
                return None, "a marker that ends a transaction"
            for record in records:
                if record.offset == offset:
                    transaction = None
                    if header.is_transactional:
                        transaction = await _transaction(client, leader, at, offset)
                    return StoredRecord(record=record, batch=header, transaction=transaction), None
    except (CorruptRecordError, CompressionError) as error:
        return None, f"its batch is damaged: {error}"
    return None, "no record there: compaction took it"


async def _transaction(
    client: KafkaClient, leader: int, at: TopicPartition, offset: int
) -> Transaction:
    """Return the fate of the transaction of the batch with this offset. Raises KafkaError."""
    fetched = (
        await client.fetch(
            leader,
            {at: FetchPosition(offset)},
            wait_ms_max=0,
            partition_bytes_max=ONE_BATCH_BYTES,
            isolation_level=READ_COMMITTED,
        )
    )[at]
    if fetched.error:
        raise KafkaError(fetched.error, str(at))
    if offset >= fetched.last_stable_offset:
        return Transaction.OPEN
    batches = committed_batches(fetched.records, fetched.aborted_transactions)
    is_visible = any(
        visible
        for _, header, visible in batches
        if header.base_offset <= offset < header.next_offset
    )
    return Transaction.COMMITTED if is_visible else Transaction.ABORTED
