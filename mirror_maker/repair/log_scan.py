"""Whose batches lie in a copy, by their producer ids. Shell; nothing is written."""

from __future__ import annotations

from typing import Final

from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import PartitionLog
from mirror_maker.formats import OffsetMap
from mirror_maker.resume.divergence import LOOKUP_FETCH_BYTES_MAX

SCAN_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024


async def scan_batches(
    target: PartitionLog, producer_id: int, position: int
) -> list[tuple[int, int, bool]]:
    """Return (from, to, whether the producer wrote them) of everything from `position` on.

    Neighbours of the same kind are joined. Raises KafkaError.
    """
    found: list[tuple[int, int, bool]] = []
    end = await target.end()
    while position < end:
        fetched = await target.read(position, bytes_max=SCAN_FETCH_BYTES_MAX)
        before = position
        for _, header in iter_headers(fetched.records):
            is_ours = header.producer_id == producer_id and not header.is_control
            start = max(position, header.base_offset)
            if header.next_offset <= position:
                continue
            if found and found[-1][1:] == (start, is_ours):
                found[-1] = (found[-1][0], header.next_offset, is_ours)
            else:
                found.append((start, header.next_offset, is_ours))
            position = header.next_offset
        if position == before:
            raise KafkaError(ErrorCode.offset_not_available, f"{target.at}: nothing at {before}")
    return found


async def find_own_to(
    target: PartitionLog, producer_id: int, offset_map: OffsetMap, source_to: int
) -> int:
    """Return the source offset before which all copies are in batches of the producer.

    It matters if the source has nothing left to compare them with. Raises KafkaError.
    """
    target_first = await target.first()
    low = min(source_to, max(offset_map.source_start, offset_map.source_place(target_first)))
    high = source_to
    while low < high:
        middle = (low + high) // 2
        place = offset_map.next_mapped(middle)
        if place is None or place[0] >= high:
            high = middle
        elif await _is_own(target, producer_id, place[1]):
            low = place[0] + 1
        else:
            high = middle
    following = offset_map.next_mapped(low)
    is_all = following is None or following[0] >= source_to
    return source_to if is_all else low


async def _is_own(target: PartitionLog, producer_id: int, offset: int) -> bool:
    """Return whether the producer wrote the batch at an offset, or compaction took it."""
    fetched = await target.fetch(offset, bytes_max=LOOKUP_FETCH_BYTES_MAX)
    if fetched.error == ErrorCode.offset_out_of_range:
        return False
    if fetched.error:
        raise KafkaError(fetched.error, str(target.at))
    for _, header in iter_headers(fetched.records):
        if header.next_offset > offset:
            is_own = header.producer_id == producer_id and not header.is_control
            return is_own or header.base_offset > offset
    return False
