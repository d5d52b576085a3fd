"""The second step of a proof: what the target has behind the map, and how much is missing. Shell.

Compaction may take copies from the middle of the tail; their number is in the sequences.

The target's retention may take copies before they are mapped. While one of ours is left behind
them its sequence says how many; where none is left the target is asked for our last sequence. What
that counts may also be a write that has come since the log was read, which a log that others write
into does not show: there it is believed only when nothing of ours arrives for `epoch_quiet_ms`.
"""

from __future__ import annotations

import logging
from typing import Final

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.model import DescribedProducer, PairingError
from mirror_maker.ports import LogReader
from mirror_maker.resume.generations import check_rest
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.tail.target_tail import ResumeBase, TailReader

TAIL_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024

logger = logging.getLogger(__name__)


async def read_tail(
    context: LinkContext, base: ResumeBase, source: TopicPartition, target: TopicPartition
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
    if tail.unexplained is not None and not await is_compacted(context.sink, target.topic):
        raise PairingError(f"{tail.unexplained}, and {target.topic} is not compacted")
    if tail.is_sequence_unknown:
        # Asked after the log, so that nothing that has gone is left out. What has come in between
        # is counted as well.
        told = await _describe_producer(context, base, target)
        tail.take_told(told)
        settings = context.settings
        is_alone = settings.names.tells_origin(settings.source_alias, source.topic)
        # Where all that has gone was ours, it is all that is counted.
        if tail.missing_count and not (is_alone and tail.missing_count == tail.gone_count):
            high_watermark = await _wait_for_rest(context, base, target, told, high_watermark)
    return tail, high_watermark


async def is_compacted(reader: LogReader, topic: str) -> bool:
    """Whether the topic's cleanup.policy includes compact. Raises KafkaError."""
    configs = (await reader.describe_topic_configs([topic])).get(topic, {})
    return "compact" in (configs.get("cleanup.policy", (None, True))[0] or "")


async def _wait_for_rest(
    context: LinkContext,
    base: ResumeBase,
    target: TopicPartition,
    told: DescribedProducer | None,
    high_watermark: int,
) -> int:
    """See that what `told` counts is no write that arrived behind the high watermark.

    Others' records have gone too, so that their number proves nothing. A write that was on its way
    (of a killed worker, or an overlapping one) can have landed after the log was read, and before
    the target was asked for our last sequence; it may be committed only later, or never, where the
    leader is lost. Returns the high watermark up to which was looked. Raises KafkaError: prove
    again, which finds the write in the tail, or does not count it any more.
    """
    logger.info("%s: missing copies are counted in %d ms", target, context.limits.epoch_quiet_ms)
    await context.clock.sleep(context.limits.epoch_quiet_ms)
    first, end = await context.sink_logs.bounds(target)
    # What retention took of it meanwhile has gone like the rest.
    await check_rest(context, target, max(first, high_watermark), end)
    if await _describe_producer(context, base, target) != told:
        raise KafkaError(ErrorCode.offset_not_available, f"{target} does not rest yet")
    return end


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
