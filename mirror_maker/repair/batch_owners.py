"""Whose batches lie in a copy, by their producer ids. Shell; nothing is written."""

from __future__ import annotations

from typing import Final

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.formats import OffsetMap, Opening
from mirror_maker.resume.divergence import LOOK_FETCH_BYTES_MAX

SCAN_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024


async def scan(
    context: LinkContext, opening: Opening, target: TopicPartition, position: int
) -> list[tuple[int, int, bool]]:
    """(from, to, whether they are the link's own) of everything that the copy has from `position`
    on; what lies side by side is one."""
    found: list[tuple[int, int, bool]] = []
    end = await context.sink_logs.end(target)
    while position < end:
        leader = context.directory.target_leader(target)
        if leader is None:
            raise KafkaError(ErrorCode.leader_not_available, str(target))
        fetched = (
            await context.sink.fetch(
                leader,
                {target: FetchPosition(position)},
                wait_ms_max=0,
                partition_bytes_max=SCAN_FETCH_BYTES_MAX,
            )
        )[target]
        if fetched.error:
            raise KafkaError(fetched.error, str(target))
        before = position
        for _, header in iter_headers(fetched.records):
            is_ours = header.producer_id == opening.producer_id and not header.is_control
            start = max(position, header.base_offset)
            if header.next_offset <= position:
                continue
            if found and found[-1][1:] == (start, is_ours):
                found[-1] = (found[-1][0], header.next_offset, is_ours)
            else:
                found.append((start, header.next_offset, is_ours))
            position = header.next_offset
        if position == before:
            raise KafkaError(ErrorCode.offset_not_available, f"{target}: nothing at {before}")
    return found


async def own_to(
    context: LinkContext,
    opening: Opening,
    target: TopicPartition,
    offset_map: OffsetMap,
    source_to: int,
) -> int:
    """The source offset before which all copies are in batches of the link.

    It matters where the source has nothing to compare them with any more.
    """
    target_first = await context.sink_logs.first(target)
    low = min(source_to, max(offset_map.source_start, offset_map.source_place(target_first)))
    high = source_to
    while low < high:
        middle = (low + high) // 2
        place = offset_map.next_mapped(middle)
        if place is None or place[0] >= high:
            high = middle
        elif await _is_own(context, opening, target, place[1]):
            low = place[0] + 1
        else:
            high = middle
    behind = offset_map.next_mapped(low)
    is_all = behind is None or behind[0] >= source_to
    return source_to if is_all else low


async def _is_own(
    context: LinkContext, opening: Opening, target: TopicPartition, offset: int
) -> bool:
    """Whether the target's batch at an offset is the link's; also where compaction took it."""
    leader = context.directory.target_leader(target)
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(target))
    fetched = (
        await context.sink.fetch(
            leader,
            {target: FetchPosition(offset)},
            wait_ms_max=0,
            partition_bytes_max=LOOK_FETCH_BYTES_MAX,
        )
    )[target]
    if fetched.error == ErrorCode.offset_out_of_range:
        return False
    if fetched.error:
        raise KafkaError(fetched.error, str(target))
    for _, header in iter_headers(fetched.records):
        if header.next_offset > offset:
            is_own = header.producer_id == opening.producer_id and not header.is_control
            return is_own or header.base_offset > offset
    return False
