"""Reads what a link published on its target about one record. Shell.

The map is read as a whole, like every reader of it does. The topics that grow with time, receipts
and completeness, are read from about the record's time on, and never more than a stated number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import Record
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import Block, FlowKey, Registration, decode_key, decode_record
from mirror_maker.formats.completeness.cut import READ_BACK_MS
from mirror_maker.formats.completeness.statement import completeness_topic_name, decode_statement
from mirror_maker.formats.receipts import (
    decode_receipts,
    flow_id,
    flow_id_of,
    receipts_topic_name,
)
from mirror_maker.formats.records import BLOCK_KIND, REGISTRATION_KIND
from mirror_maker.model import advance_sequence
from topology.audit.published import Published, read_published
from topology.deployment.deployment import LinkView
from topology.tracing.facts import Batch
from topology.tracing.stated_times import StatedTimes

STATEMENTS_MAX: Final = 20_000
"""Most records of the completeness topic that are read at once: hours of one worker."""
RECEIPTS_MAX: Final = 20_000
"""Most records of the receipts topic that are read."""


class MappedBlock(NamedTuple):
    """The source offsets of a block of the map, and when it was written."""

    source_start: int
    source_next: int
    written_ms: int


class LinkRecords(NamedTuple):
    """What a link published, with the times of its map's blocks."""

    view: LinkView
    published: Published
    source_cluster_id: str
    blocks: dict[FlowKey, list[MappedBlock]]

    def mapped_ms(self, flow: FlowKey, offset: int) -> int | None:
        """Return when the first block with this source offset was written."""
        times = [
            each.written_ms
            for each in self.blocks.get(flow, ())
            if each.source_start <= offset < each.source_next
        ]
        return min(times, default=None)


async def read_link_records(link: LinkView, target: KafkaClient) -> LinkRecords:
    """Read the map, journal and verdicts of a link. Raises AuditUnreadable."""
    blocks: dict[FlowKey, list[MappedBlock]] = {}

    clusters: list[str] = []

    def note(record: Record) -> None:
        if record.key is None or record.value is None:
            return
        if decode_key(record.key).kind not in (BLOCK_KIND, REGISTRATION_KIND):
            return
        found = decode_record(record.key, record.value)
        if isinstance(found, Block):
            place = MappedBlock(found.source_start, found.source_next, record.timestamp_ms)
            blocks.setdefault(found.flow, []).append(place)
        elif isinstance(found, Registration):
            clusters.append(found.source_cluster_id)

    published = await read_published(link, target, note)
    return LinkRecords(link, published, clusters[0] if clusters else "", blocks)


async def read_statements(
    records: LinkRecords, target: KafkaClient, times: StatedTimes, around_ms: int
) -> None:
    """Feed `times` the statements from before a time on, until it is whole. Raises KafkaError.

    Each worker states all its partitions once in five minutes, so reading begins before that.
    """
    topic = completeness_topic_name(records.view.name)
    if topic not in records.published.target_ids:
        return
    async for record in _read_from(target, topic, around_ms - READ_BACK_MS, STATEMENTS_MAX):
        if record.value is not None:
            times.apply(decode_statement(record.value))
            if times.is_whole:
                return


async def find_batch(
    records: LinkRecords,
    target: KafkaClient,
    flow: FlowKey,
    offsets: tuple[int, int],
    around_ms: int,
) -> Batch | None:
    """Return the batch with these (source, target) offsets, by its receipt. Raises KafkaError."""
    topic = receipts_topic_name(records.view.name)
    producer_id = records.published.map.producer_id(flow)
    if topic not in records.published.target_ids or producer_id is None:
        return None
    wanted, (source_offset, target_offset) = flow_id(flow, producer_id), offsets
    async for record in _read_from(target, topic, around_ms - READ_BACK_MS, RECEIPTS_MAX):
        if record.value is None or flow_id_of(record.value) != wanted:
            continue
        entry = decode_receipts(record.value)
        sequence = entry.sequence
        for receipt in entry.receipts:
            is_there = receipt.target_offset <= target_offset < receipt.target_next
            if is_there and receipt.source_from <= source_offset < receipt.source_to:
                return Batch(
                    receipt.target_offset,
                    receipt.records_count,
                    entry.producer_epoch,
                    sequence,
                    record.timestamp_ms,
                )
            sequence = advance_sequence(sequence, receipt.records_count)
    return None


async def _read_from(
    client: KafkaClient, topic: str, from_ms: int, records_max: int
) -> AsyncIterator[Record]:
    """Yield the records of a topic that were written from a time on, but not too many."""
    at = TopicPartition(topic, 0)
    listed = (await client.list_offsets({at: max(0, from_ms)}))[at]
    if listed.error:
        raise KafkaError(listed.error, topic)
    if listed.offset < 0:
        return
    count = 0
    async for record in read_topic(client, topic, from_offset=listed.offset):
        yield record
        count += 1
        if count >= records_max:
            return
