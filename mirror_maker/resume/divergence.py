"""Whether the source still has what was copied from it, and from which offset on it differs. Shell.

A source that loses the end of its log (unclean election, restored disk) writes other records at the
same offsets. Three signs show it:

- its log ends below the position;
- a Fetch that names the epoch of the last batch gets a diverging epoch (KIP-595, Kafka 2.7);
- after a restart, the last copied record is missing there, or another one is in its place.

A binary search over records then finds the offset at which the logs diverge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.client.model import FetchedPartition, FetchPosition
from local_cluster.records.batch import Record
from local_cluster.records.header import iter_headers
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import PartitionLog
from mirror_maker.copy.batch_selection import select_batches
from mirror_maker.formats import FlowKey, OffsetMap
from mirror_maker.model import FlowFailedError
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.rules.record_rules import RecordRules
from mirror_maker.rules.trouble import Trouble

LOOKUP_FETCH_BYTES_MAX: Final = 64 * 1024
NEIGHBOURS_MAX: Final = 16
"""Neighbours tried if compaction took a record on either side."""


class TruncatedError(FlowFailedError):
    """The source no longer has the end of what was copied."""

    def __init__(
        self,
        flow: FlowKey,
        message: str,
        common_end: int | None = None,
        reported_at: FetchPosition | None = None,
    ) -> None:
        """The logs diverge at `common_end` at the latest, as the source reported.

        `reported_at` is the position of the fetch whose response reported it, if one did.
        """
        super().__init__(message, Trouble.TRUNCATED)
        self.flow = flow
        self.common_end = common_end
        self.reported_at = reported_at


class Found(NamedTuple):
    """What a log has at an offset."""

    record: Record | None
    is_replaced: bool
    """Whether something lies there that never was a copyable record: a marker, an aborted record,
    one that the link leaves out. If not, and there is no record, compaction or retention may have
    taken it."""

    def differs_from(self, other: Found) -> bool | None:
        """Return whether the two logs differ here; None if nobody can tell."""
        if self.is_replaced or other.is_replaced:
            return True
        if self.record is None or other.record is None:
            return None
        return self.record[1:] != other.record[1:]


NOTHING: Final = Found(None, False)


async def check_last_copied(
    flow: FlowKey,
    source: SourceLog,
    target: PartitionLog,
    places: Sequence[tuple[int, int]],
    position: int,
) -> int:
    """Check that the source still has the record that was copied last.

    Returns the leader epoch of the source's log just before `position`, -1 if unknown. `places` are
    (source offset, target offset) of the last copied records, latest first: if compaction took one,
    the one before it is checked. Raises TruncatedError, KafkaError.
    """
    last_epoch = -1
    for offset, copied_to in places[:NEIGHBOURS_MAX]:
        fetched = await _fetch(source, offset)
        if fetched.error == ErrorCode.offset_out_of_range:
            first, end = await source.bounds()
            if offset < first:
                break  # the source's retention took it meanwhile
            raise TruncatedError(flow, f"the source ends at {end}, but was copied up to {position}")
        if fetched.error:
            raise KafkaError(fetched.error, str(source.at))
        if offset == places[0][0]:
            last_epoch = _epoch_before(fetched.records, position)
        copy = await _record(target, copied_to)
        differs = _find(fetched, offset, source.rules).differs_from(copy)
        if differs:
            raise TruncatedError(
                flow,
                f"source offset {offset} was copied to target offset {copied_to}, but the source "
                "has another record there: its log was truncated",
            )
        if differs is not None:
            break
    return last_epoch


async def find_divergence(
    source: SourceLog,
    target: PartitionLog,
    offset_map: OffsetMap,
    common_end: int | None = None,
) -> int:
    """Return the source offset after the last record that is known to be the copied one.

    No record of the former log between that offset and the first different one was copied, but the
    source may have records there. The logs diverge at `common_end` at the latest, as the source
    reported. Raises KafkaError.
    """
    first, end = await source.bounds()
    if common_end is not None:
        end = min(end, common_end)
    target_first = await target.first()
    # Copies that the target's retention took cannot be compared.
    low = max(first, offset_map.source_start, offset_map.source_place(target_first))
    high = max(first, offset_map.source_start, min(end, offset_map.source_next))
    low = min(low, high)
    while low < high:
        middle = (low + high) // 2
        same_at = await _find_same(source, target, offset_map, middle, high)
        if same_at is None:
            high = middle
        else:
            low = same_at + 1
    return low


async def _find_same(
    source: SourceLog,
    target: PartitionLog,
    offset_map: OffsetMap,
    start: int,
    end: int,
) -> int | None:
    """Return the offset of the first record in [start, end) that both sides have, if it is equal.

    None if it differs, and if there is none to compare: then the logs may diverge before it.
    """
    position = start
    for _ in range(NEIGHBOURS_MAX):
        place = offset_map.next_mapped(position)
        if place is None or place[0] >= end:
            return None
        copied_from, copied_to = place
        original = await _record(source, copied_from, source.rules)
        differs = original.differs_from(await _record(target, copied_to))
        if differs is not None:
            return None if differs else copied_from
        position = copied_from + 1
    return None


async def _record(log: PartitionLog, offset: int, rules: RecordRules | None = None) -> Found:
    fetched = await _fetch(log, offset)
    if fetched.error == ErrorCode.offset_out_of_range:
        return NOTHING
    if fetched.error:
        raise KafkaError(fetched.error, str(log.at))
    return _find(fetched, offset, rules)


async def _fetch(log: PartitionLog, offset: int) -> FetchedPartition:
    return await log.fetch(offset, bytes_max=LOOKUP_FETCH_BYTES_MAX, isolation_level=READ_COMMITTED)


def _find(fetched: FetchedPartition, offset: int, rules: RecordRules | None = None) -> Found:
    """Find the record in a read_committed response from `offset`, as the rules would copy it."""
    header = next((x for _, x in iter_headers(fetched.records) if x.next_offset > offset), None)
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
    """Return the leader epoch of the batch before `position`, or -1.

    It is -1 if compaction took the batch with the offset before: that batch may have had a later
    epoch than the batch before it, whose epoch then ended too early to be named (KIP-595).
    """
    for _, header in iter_headers(fetched):
        if header.base_offset >= position:
            return -1
        if header.next_offset >= position:
            return header.partition_leader_epoch
    return -1  # the response does not reach so far
