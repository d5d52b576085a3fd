"""Where a flow without an opening begins: asked of both clusters, once. Shell over `start`."""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.client.model import TopicPartition
from mirror_maker.context import LinkContext
from mirror_maker.resume.mm2_takeover import find_take_over
from mirror_maker.rules.start_position import StartKind, mm2_offsets_topic, parse_start

FIRST_MOMENTS_MS: Final = 60_000
"""How long after its registration a link counts as new: its workers start within this."""


class StartingPoint(NamedTuple):
    """What an opening says of the source."""

    source_offset: int
    has_older_copies: bool = False
    """Whether MirrorMaker 2 copied what lies before."""


async def find_start(
    context: LinkContext, source: TopicPartition, target: TopicPartition
) -> StartingPoint:
    """Where the link's setting has this partition begin. Raises KafkaError, FlowFailedError."""
    start, logs = parse_start(context.settings.for_topic(source.topic).start), context.source_logs
    if start.kind is StartKind.LATEST and _was_there_first(context, source):
        return StartingPoint(await logs.end(source))
    if start.kind is StartKind.TIMESTAMP:
        # In this order: what comes in between may be of that time.
        end = await logs.end(source)
        offset = await logs.at_time(source, start.timestamp_ms)
        return StartingPoint(offset if offset >= 0 else end)
    if start.kind is StartKind.MM2:
        topic = start.offsets_topic or mm2_offsets_topic(context.settings.source_alias)
        return StartingPoint(*await find_take_over(context, source, target, topic))
    return StartingPoint(await logs.first(source))


def _was_there_first(context: LinkContext, source: TopicPartition) -> bool:
    """Whether the partition was there when the link began, and not only found later."""
    age_ms = context.clock.now_ms() - context.map_store.registration.registered_at_ms
    return age_ms <= FIRST_MOMENTS_MS and context.directory.was_found_first(source)
