"""Whether the source still has what was copied from it, and from where on it has not. Shell.

A source that loses the end of its log (an unclean election, a restored disk) writes other records
at the same offsets. Three signs: its log ends below the position; a Fetch that names the epoch of
the last batch is answered with a diverging epoch (KIP-595, Kafka 2.7 and later); and, after a
restart, the last record that was copied is not there any more or is another one. Where the logs
part is then found by comparing records, by halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records import header as h
from local_cluster.records.batch import Record
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.copy.passthrough import select_batches
from mirror_maker.formats import FlowKey, OffsetMap
from mirror_maker.model import FlowFailedError
from mirror_maker.ports import LogReader
from mirror_maker.rules.record_rules import RecordRules
from mirror_maker.rules.trouble import Trouble

LOOK_FETCH_BYTES_MAX: Final = 64 * 1024
NEIGHBOURS_MAX: Final = 16
"""Records tried instead of one that compaction took from either side."""


class TruncatedError(FlowFailedError):
    """The source no longer has the end of what was copied."""

    def __init__(self, flow: FlowKey, message: str, common_end: int | None = None) -> None:
        """`common_end`: where the source says that the logs part at the latest."""
        super().__init__(message, Trouble.TRUNCATED)
        self.flow = flow
        self.common_end = common_end


class Found(NamedTuple):
    """What a log has at an offset."""

    record: Record | None
    is_replaced: bool
    """Something that never was a copyable record lies there: a marker, an aborted record, one that
    the link leaves out. Without it, no record means that compaction or retention may have taken
    it."""

    def differs_from(self, other: Found) -> bool | None:
        """Whether one log has another record than the other; None where that cannot be told."""
        if self.is_replaced or other.is_replaced:
            return True
        if self.record is None or other.record is None:
            return None
        return self.record[1:] != other.record[1:]


NOTHING: Final = Found(None, False)


async def look_back(
    context: LinkContext,
    flow: FlowKey,
    target: TopicPartition,
    places: Sequence[tuple[int, int]],
    position: int,
) -> int:
    """See that the source still has the record that was copied last; the leader epoch of its log
    just before `position`, -1 where that is not known.

    `places` are (source offset, target offset) of the last records that were copied, latest first:
    where compaction took one, the one before it is asked for. Raises TruncatedError, KafkaError.
    """
    source = TopicPartition(flow.source_topic, flow.partition)
    leader = context.directory.source_leader(source)
    last_epoch = -1
    for offset, copied_to in places[:NEIGHBOURS_MAX]:
        fetched = await _fetch(context.source, leader, source, offset)
        if fetched.error == ErrorCode.offset_out_of_range:
            first, end = await context.source_logs.bounds(source)
            if offset < first:
                break  # the source's retention took it meanwhile
            raise TruncatedError(flow, f"the source ends at {end}, but was copied up to {position}")
        if fetched.error:
            raise KafkaError(fetched.error, str(source))
        if offset == places[0][0]:
            last_epoch = _epoch_before(fetched.records, position)
        copy = await _record(
            context.sink, context.directory.target_leader(target), target, copied_to
        )
        differs = _find(fetched, offset, context.rules_of(source.topic)).differs_from(copy)
        if differs:
            raise TruncatedError(
                flow,
                f"source offset {offset} was copied to target offset {copied_to}, but is another "
                "record now: the source's log was cut back",
            )
        if differs is not None:
            break
    return last_epoch


async def find_divergence(
    context: LinkContext,
    flow: FlowKey,
    target: TopicPartition,
    offset_map: OffsetMap,
    common_end: int | None = None,
) -> int:
    """The source offset behind the last record that is known to be the one that was copied.

    Nothing of the former log was copied from between it and the first record that differs, but the
    source may have something there now. `common_end`: where the source says that the logs part at
    the latest. Raises KafkaError.
    """
    source = TopicPartition(flow.source_topic, flow.partition)
    first, end = await context.source_logs.bounds(source)
    if common_end is not None:
        end = min(end, common_end)
    target_first = await context.sink_logs.first(target)
    # Copies that the target's retention took cannot be compared.
    low = max(first, offset_map.source_start, offset_map.source_place(target_first))
    high = max(first, offset_map.source_start, min(end, offset_map.source_next))
    low = min(low, high)
    while low < high:
        middle = (low + high) // 2
        same_at = await _find_same(context, source, target, offset_map, middle, high)
        if same_at is None:
            high = middle
        else:
            low = same_at + 1
    return low


async def _find_same(
    context: LinkContext,
    source: TopicPartition,
    target: TopicPartition,
    offset_map: OffsetMap,
    start: int,
    end: int,
) -> int | None:
    """The offset of the first record in [start, end) that both sides have, if it is the same.

    None where it is not, and where there is none to compare: then the logs may part before it.
    """
    position = start
    for _ in range(NEIGHBOURS_MAX):
        place = offset_map.next_mapped(position)
        if place is None or place[0] >= end:
            return None
        copied_from, copied_to = place
        original = await _record(
            context.source,
            context.directory.source_leader(source),
            source,
            copied_from,
            context.rules_of(source.topic),
        )
        copy = await _record(
            context.sink, context.directory.target_leader(target), target, copied_to
        )
        differs = original.differs_from(copy)
        if differs is not None:
            return None if differs else copied_from
        position = copied_from + 1
    return None


async def _record(
    reader: LogReader,
    leader: int | None,
    at: TopicPartition,
    offset: int,
    rules: RecordRules | None = None,
) -> Found:
    fetched = await _fetch(reader, leader, at, offset)
    if fetched.error == ErrorCode.offset_out_of_range:
        return NOTHING
    if fetched.error:
        raise KafkaError(fetched.error, str(at))
    return _find(fetched, offset, rules)


async def _fetch(
    reader: LogReader, leader: int | None, at: TopicPartition, offset: int
) -> FetchedPartition:
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(at))
    return (
        await reader.fetch(
            leader,
            {at: FetchPosition(offset)},
            wait_ms_max=0,
            partition_bytes_max=LOOK_FETCH_BYTES_MAX,
            isolation_level=READ_COMMITTED,
        )
    )[at]


def _find(fetched: FetchedPartition, offset: int, rules: RecordRules | None = None) -> Found:
    """What a read_committed answer from `offset` on has there, as rules would have it copied."""
    header = next((x for _, x in h.iter_headers(fetched.records) if x.next_offset > offset), None)
    if header is None or header.base_offset > offset or not header.records_count:
        return NOTHING
    aborted: Sequence[tuple[int, int]] = fetched.aborted_transactions
    selection = select_batches(fetched.records, offset, aborted)
    batches = selection.batches
    if not batches and selection.refusal is not None:
        return NOTHING
    if not batches or batches[0].header.base_offset != header.base_offset:
        return Found(None, is_replaced=True)  # a batch that is never copied
    found = next((r for r in batches[0].records() if r.offset == offset), None)
    if found is None or rules is None:
        return Found(found, False)
    copied = rules.apply(found)
    return Found(copied, is_replaced=copied is None)


def _epoch_before(fetched: memoryview, position: int) -> int:
    """-1 where compaction took the batch that held the offset before: it may have been of a later
    epoch than the one before it, which then ended too early to be named (KIP-595)."""
    for _, header in h.iter_headers(fetched):
        if header.base_offset >= position:
            return -1
        if header.next_offset >= position:
            return header.partition_leader_epoch
    return -1  # the answer does not reach so far
