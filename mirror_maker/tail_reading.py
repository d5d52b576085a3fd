"""The second step of a proof: what the target has behind the map, and how much is missing. Shell.

The target's retention may take copies before they are mapped. While one of ours is left behind
them its sequence says how many; where none is left the target is asked for our last sequence.
"""

from __future__ import annotations

from typing import Final

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError

from .context import LinkContext
from .gap_ranges import GapRanges
from .model import DescribedProducer, PairingError
from .resume import ResumeBase, TailReader

TAIL_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024


async def read_tail(
    context: LinkContext, base: ResumeBase, target: TopicPartition
) -> tuple[TailReader, int]:
    """What of ours lies behind the base, and the high watermark up to which was looked.

    Raises PairingError where it does not follow the map, KafkaError: try again.
    """
    log_start_offset, high_watermark = await context.sink_logs.bounds(target)
    tail = TailReader(base, log_start_offset)
    tail.check_end(high_watermark)
    while tail.position < high_watermark:
        leader = context.directory.target_leader(target)
        if leader is None:
            raise KafkaError(ErrorCode.leader_not_available, str(target))
        before = tail.position
        fetched = (
            await context.sink.fetch(
                leader,
                {target: FetchPosition(before)},
                wait_ms_max=0,
                partition_bytes_max=TAIL_FETCH_BYTES_MAX,
            )
        )[target]
        if fetched.error:
            raise KafkaError(fetched.error, str(target))
        tail.feed(fetched.records)
        if tail.position == before:
            raise KafkaError(ErrorCode.offset_not_available, f"{target}: nothing at {before}")
    if tail.is_sequence_unknown:
        # Asked after the log: a write that comes later still is not taken for one that is gone.
        tail.take_told(await _describe_producer(context, base, target))
    return tail, high_watermark


async def _describe_producer(
    context: LinkContext, base: ResumeBase, target: TopicPartition
) -> DescribedProducer | None:
    """What the target knows of our producer; None also where it cannot be asked (Kafka < 2.8)."""
    leader = context.directory.target_leader(target)
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(target))
    try:
        return await context.sink.describe_producer(leader, target, base.producer_id)
    except KafkaError as error:
        if error.code != ErrorCode.unsupported_version:
            raise
        return None


async def check_none_missing(
    context: LinkContext,
    base: ResumeBase,
    source: TopicPartition,
    target: TopicPartition,
    gaps: GapRanges,
) -> None:
    """Nobody can tell how many copies the target's retention took before they were mapped.

    Where others write into the target it is their records that went, all but certainly. Where
    nobody else does there were some of ours: no harm is done only where the source has nothing
    that would be copied again. Raises PairingError.
    """
    if context.settings.names.is_shared(source.topic):
        return
    position = gaps.behind(base.source_next)
    if await context.source_logs.end(source) > position:
        raise PairingError(
            f"the target no longer has what lay behind offset {base.target_next}, the end of the "
            f"map, nor does it know our last sequence: which source records from {position} on "
            "were copied already cannot be told"
        )
