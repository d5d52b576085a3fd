"""Step 2 of a proof: reads the target after the map, and counts the missing copies. Shell.

Compaction may take copies from the middle of the tail; sequences count them.

The target's retention may take copies before they are mapped. If a later batch of ours is left, its
sequence counts them. If none is left, the target is asked for our last sequence. That answer may
count a write that arrived after the log was read, and a log with foreign writes does not show it.
There the answer is believed only if nothing of ours arrives for `epoch_quiet_ms`.
"""

from __future__ import annotations

import logging
from typing import Final

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.model import DescribedProducer, PairingError
from mirror_maker.ports import Clock
from mirror_maker.resume.quiet_period import check_quiet
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.tail.target_tail import ResumeBase, TargetTail

TAIL_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024

log = logging.getLogger(__name__)


async def read_tail(
    target: TargetLog, base: ResumeBase, *, is_exclusive: bool, clock: Clock, quiet_ms: int
) -> tuple[TargetTail, int]:
    """Return the tail after the base, and the high watermark up to which the target was read.

    `is_exclusive`: the copy's name tells its origin, so that nobody else writes into it. Raises
    PairingError if the tail does not follow the map, KafkaError: try again.
    """
    log_start_offset, high_watermark = await target.bounds()
    tail = TargetTail(base, log_start_offset)
    tail.check_end(high_watermark)
    while tail.position < high_watermark:
        before = tail.position
        tail.feed((await target.read(before, bytes_max=TAIL_FETCH_BYTES_MAX)).records)
        if tail.position == before:
            raise KafkaError(ErrorCode.offset_not_available, f"{target.at}: nothing at {before}")
    if tail.unexplained is not None and not await target.is_compacted():
        raise PairingError(f"{tail.unexplained}, and {target.at.topic} is not compacted")
    if tail.is_sequence_unknown:
        # Asked after the log was read, so that no lost copy is left out. A write that arrived in
        # between is counted as well.
        described = await target.describe_producer(base.producer_id)
        tail.count_missing(described)
        # If everything that is gone was ours, the count has nothing else in it.
        if tail.missing_count and not (is_exclusive and tail.missing_count == tail.gone_count):
            log.info("%s: missing copies are counted in %d ms", target.at, quiet_ms)
            await clock.sleep(quiet_ms)
            high_watermark = await _check_count(target, base, described, high_watermark)
    return tail, high_watermark


async def _check_count(
    target: TargetLog, base: ResumeBase, described: DescribedProducer | None, high_watermark: int
) -> int:
    """Check that `described` counts no write that arrived after the high watermark.

    Foreign records are gone too, so the number of lost offsets proves nothing. A write in flight
    (of a killed or overlapping worker) may have landed between two steps: the read of the log, and
    the request for our last sequence. It may be committed only later, or never, if the leader is
    lost. Returns the high watermark up to which the target was read. Raises KafkaError: prove
    again, which finds the write in the tail or does not count it.
    """
    first, end = await target.bounds()
    # What retention took of it meanwhile is gone like the rest.
    await check_quiet(target, base.producer_id, max(first, high_watermark), end)
    if await target.describe_producer(base.producer_id) != described:
        raise KafkaError(ErrorCode.offset_not_available, f"{target.at} is not quiet yet")
    return end


async def check_none_missing(
    source: SourceLog, base: ResumeBase, gaps: GapRanges, *, is_shared: bool
) -> None:
    """Check that unknown losses do no harm: retention took unmapped copies that nobody can count.

    In a shared copy the lost records were foreign, all but certainly. Otherwise some were ours, and
    that is harmless only if the source has nothing that would be copied again. Raises PairingError.
    """
    if is_shared:
        return
    position = gaps.first_outside(base.source_next)
    if await source.end() > position:
        raise PairingError(
            f"the target no longer has the records after offset {base.target_next}, the end of the "
            "map, and does not know our last sequence: nobody can tell which source records from "
            f"{position} on were copied already"
        )
