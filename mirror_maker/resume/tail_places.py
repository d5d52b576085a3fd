"""Step 3 of a proof: reads the source, and finds the source offsets of the tail's copies. Shell.

While the source has every record of the tail, both are paired batch by batch (`pairing`). If the
source lost some of them since they were copied, the rest is aligned (`tail/alignment.py`).
"""

from __future__ import annotations

from typing import Final

from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.copy.batch_selection import Selection
from mirror_maker.model import PairingError
from mirror_maker.ports import Clock
from mirror_maker.resume.pairing import Pairing
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.resume.tail_reader import TAIL_FETCH_BYTES_MAX
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.tail.alignment import Alignment
from mirror_maker.tail.places import PlacedTail
from mirror_maker.tail.target_tail import ResumeBase, TargetTail, tail_copies

SOURCE_END_ATTEMPTS_MAX: Final = 40
SOURCE_END_WAIT_MS: Final = 250
"""Together 10 s: how long a source leader may take to show what the mirror has read before."""
PAIR_FETCH_BYTES_MIN: Final = 256 * 1024
"""Fetched from the source even for a short tail: its batches may be larger at the source."""
ALIGN_FETCH_BYTES_MAX: Final = 1024 * 1024
COPIES_MAX: Final = 1_000_000
"""Records of a tail that are aligned; about 500 bytes of memory each."""


async def find_places(
    source: SourceLog, base: ResumeBase, tail: TargetTail, gaps: GapRanges, clock: Clock
) -> PlacedTail:
    """Return the tail with its places in the source.

    Raises PairingError if they cannot be found, KafkaError to try again.
    """
    try:
        position = gaps.first_outside(base.source_next)
        # Copies that the target lost would pair with any record, also with a wrong one.
        if tail.is_whole or not await _may_have_lost(source, position):
            return await _pair(source, base, tail, gaps, clock)
    except PairingError:
        if not await _may_have_lost(source, base.source_next):
            raise
    return await align(source, base, tail, gaps, clock)


async def _may_have_lost(source: SourceLog, source_from: int) -> bool:
    """Return whether the source may have lost copied records from this offset on."""
    return await source.first() > source_from or await source.is_compacted()


async def _pair(
    source: SourceLog, base: ResumeBase, tail: TargetTail, gaps: GapRanges, clock: Clock
) -> PlacedTail:
    position = gaps.first_outside(base.source_next)
    pairing = Pairing(base, tail)
    # What is fetched beyond the tail is thrown away, and counts for a quota.
    tail_bytes = sum(each.header.size_bytes for each in tail.batches)
    bytes_max = min(TAIL_FETCH_BYTES_MAX, max(PAIR_FETCH_BYTES_MIN, tail_bytes))
    leader_epoch = -1
    attempts = 0
    while not pairing.is_done:
        fetched = await source.fetch_committed(position, bytes_max)
        if fetched.error == ErrorCode.offset_out_of_range:
            raise PairingError(
                f"source offset {position} is gone, but the target has unmapped copies from there"
            )
        if fetched.error:
            raise KafkaError(fetched.error, str(source.at))
        selection = await source.select(fetched, position, gaps)
        for batch in selection.batches:
            if not pairing.is_done:
                pairing.feed(batch)
        pairing.advance(selection.source_next)
        is_whole = pairing.source_next == selection.source_next
        leader_epoch = selection.leader_epoch if is_whole else -1
        if selection.refusal is not None and not pairing.is_done:
            raise selection.refusal
        if selection.source_next == position and not pairing.is_done:
            attempts += 1
            if attempts >= SOURCE_END_ATTEMPTS_MAX:
                raise PairingError(
                    f"the target has copies of source records from offset {position} on, where "
                    "the source ends"
                )
            await clock.sleep(SOURCE_END_WAIT_MS)
        position = selection.source_next
    return PlacedTail(tuple(pairing.pieces), pairing.source_next, last_epoch=leader_epoch)


async def align(
    source: SourceLog, base: ResumeBase, tail: TargetTail, gaps: GapRanges, clock: Clock
) -> PlacedTail:
    """Align the tail with a source that lost records.

    `gaps` is what the journal says was not copied. An older worker may have written copied records
    there as lost. So if the tail fits nowhere else, the first gap of the journal is not believed.
    Raises PairingError if no place is certain, KafkaError to try again.
    """
    after_gap = gaps.first_outside(base.source_next)
    if after_gap > base.source_next:
        try:
            return await _align(source, base, tail, gaps, clock, begins_at=after_gap)
        except PairingError:
            pass
    return await _align(source, base, tail, gaps, clock, begins_at=base.source_next)


async def _align(
    source: SourceLog,
    base: ResumeBase,
    tail: TargetTail,
    gaps: GapRanges,
    clock: Clock,
    *,
    begins_at: int,
) -> PlacedTail:
    alignment = Alignment(
        begins_at,
        base.target_next,
        tail_copies(tail, COPIES_MAX),
        length=tail.length,
        trimmed_count=tail.trimmed_count,
        last_timestamp_ms=tail.last_timestamp_ms,
    )
    log_start_offset = await source.first()
    position = max(gaps.first_outside(begins_at), log_start_offset)
    attempts = 0
    while not alignment.is_settled:
        fetched = await source.fetch_committed(position, ALIGN_FETCH_BYTES_MAX)
        if fetched.error == ErrorCode.offset_out_of_range:
            log_start_offset = await source.first()
            if log_start_offset <= position:
                raise PairingError(
                    f"the source ends before offset {position}, but the target has unmapped copies "
                    f"from {begins_at} on"
                )
            position = log_start_offset
            continue
        if fetched.error:
            raise KafkaError(fetched.error, str(source.at))
        selection = await source.select(fetched, position, gaps)
        _feed(alignment, fetched.records, selection)
        if selection.refusal is not None and not alignment.is_settled:
            raise selection.refusal
        if selection.source_next == position:
            attempts += 1
            if attempts >= SOURCE_END_ATTEMPTS_MAX:
                alignment.end(position)
            else:
                await clock.sleep(SOURCE_END_WAIT_MS)
        position = selection.source_next
    return alignment.result(log_start_offset)


def _feed(alignment: Alignment, fetched: memoryview, selection: Selection) -> None:
    """Feed the batches of a response in order: records that are copied, or offsets that are not."""
    copied = {batch.header.base_offset: batch for batch in selection.batches}
    for _, header in iter_headers(fetched):
        if alignment.is_settled or header.base_offset >= selection.source_next:
            return
        batch = copied.get(header.base_offset)
        if batch is not None:
            for record in batch.records():
                alignment.feed(record.offset, record[1:], record.timestamp_ms)
        elif header.records_count == header.last_offset_delta + 1:
            alignment.present(header.base_offset, header.next_offset)
