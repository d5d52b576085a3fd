"""Going on where a MirrorMaker 2 deployment stopped: its offsets and both logs, read. Shell.

The deployment must have ended: nothing tells a mirror that another still writes.
"""

from __future__ import annotations

from typing import Final

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.batch import Record
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.copy.passthrough import select_batches
from mirror_maker.formats.connect_offsets import decode_source_position
from mirror_maker.model import FlowFailedError
from mirror_maker.ports import LogReader
from mirror_maker.resume.mm2_overlap import matching_lengths

RECORDS_MAX: Final = 200_000
"""Records behind MirrorMaker 2's last note that are looked for on the target."""
MARKERS_MAX: Final = 1_000
"""Offsets of transaction markers allowed for among them, beside one for each record."""
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024


async def find_take_over(
    context: LinkContext, source: TopicPartition, target: TopicPartition, offsets_topic: str
) -> tuple[int, bool]:
    """(the source offset to go on from, whether copies lie before it).

    Raises KafkaError; FlowFailedError where it cannot be told from the logs.
    """
    noted_offset = await _read_note(context, offsets_topic, source)
    first, end = await context.source_logs.bounds(source)
    target_first, target_end = await context.sink_logs.bounds(target)
    start = first if noted_offset is None else max(first, noted_offset + 1)
    if target_end == target_first:
        return start, noted_offset is not None
    source_leader = context.directory.source_leader(source)
    target_leader = context.directory.target_leader(target)
    following = await _read(context.source, source_leader, source, start, end)
    noted = None
    if noted_offset is not None and noted_offset >= first:
        before = await _read(context.source, source_leader, source, noted_offset, noted_offset + 1)
        noted = _identity(before[0]) if before else None
    window = max(target_first, target_end - 2 * len(following) - MARKERS_MAX)
    tail = await _read(context.sink, target_leader, target, window, target_end, records_max=None)
    lengths = matching_lengths(
        [_identity(record) for record in following],
        [_identity(record) for record in tail],
        noted,
        is_whole=window == 0 and (noted is not None or noted_offset is None),
    )
    if len(lengths) != 1 or lengths[0] == RECORDS_MAX:
        raise FlowFailedError(
            f"{target} ends with no telling part of {source} from offset {start} on: "
            f"{len(lengths)} ways to match (MirrorMaker 2 noted {noted_offset})"
        )
    return following[lengths[0] - 1].offset + 1 if lengths[0] else start, True


def _identity(record: Record) -> int:
    return hash(record[1:])


async def _read_note(
    context: LinkContext, offsets_topic: str, source: TopicPartition
) -> int | None:
    """The last offset that MirrorMaker 2 noted for a source partition."""
    alias = context.settings.source_alias
    found = (await context.sink.metadata([offsets_topic])).topics[offsets_topic]
    if found.error == ErrorCode.topic_authorization_failed:
        raise KafkaError(found.error, f"{offsets_topic} at the target")
    if found.error:
        raise FlowFailedError(f"{offsets_topic} on the target: {found.error.name}")
    noted = None
    for partition, entry in found.partitions.items():
        at = TopicPartition(offsets_topic, partition)
        first, end = await context.sink_logs.bounds(at, entry.leader)
        records = await _read(context.sink, entry.leader, at, first, end, records_max=None)
        for record in records:
            position = decode_source_position(record.key, record.value)
            # A key lies in one partition, so its last record is the latest.
            if position is not None and position[:3] == (alias, source.topic, source.partition):
                noted = position.last_offset
    return noted


async def _read(
    reader: LogReader,
    leader: int | None,
    at: TopicPartition,
    start: int,
    end: int,
    *,
    records_max: int | None = RECORDS_MAX,
) -> list[Record]:
    """The committed records of [start, end), at most so many."""
    if leader is None or leader < 0:
        raise KafkaError(ErrorCode.leader_not_available, str(at))
    records: list[Record] = []
    position = start
    while position < end and (records_max is None or len(records) < records_max):
        fetched = (
            await reader.fetch(
                leader,
                {at: FetchPosition(position)},
                wait_ms_max=0,
                partition_bytes_max=FETCH_BYTES_MAX,
                isolation_level=READ_COMMITTED,
            )
        )[at]
        if fetched.error:
            raise KafkaError(fetched.error, str(at))
        selection = select_batches(fetched.records, position, fetched.aborted_transactions)
        for batch in selection.batches:
            records += (record for record in batch.records() if record.offset < end)
        if selection.refusal is not None:
            raise selection.refusal
        if selection.source_next == position:
            break  # an open transaction holds back the rest
        position = selection.source_next
    return records[:records_max]
