"""Finding batches in one segment where a read must stop, or where a truncation must cut."""

from __future__ import annotations

from typing import NamedTuple

from local_cluster.log.segment.scan import (
    CheckedScan,
    Found,
    find_offset,
    find_position,
    iter_file_headers,
    leads_to,
)
from local_cluster.log.segment.segment import Segment


class Boundary(NamedTuple):
    """Where a truncation cuts a segment."""

    position: int
    next_offset: int
    """Behind the last batch that stays; the segment's base offset if none does."""
    end_offset: int
    """Where the log ends then: beyond `next_offset` where compaction left nothing in between."""


def ends_before(segment: Segment, offset: int) -> bool:
    """Return whether the segment's last batch lies before `offset`.

    Call it where `position_of` found no batch: false means that a damaged batch is in the way.
    """
    start = segment.offset_index.lookup(offset)
    return leads_to(segment.file.open(), start, segment.size_bytes)


def batch_at(segment: Segment, position: int) -> Found | None:
    """Return the batch that begins at `position`."""
    return find_offset(segment.file.open(), -1, position, segment.size_bytes)


def last_batch_before(segment: Segment, position: int, position_max: int) -> Found | None:
    """Return the last batch from `position` on that ends at or before `position_max`."""
    index, file = segment.offset_index, segment.file.open()
    start = max(position, index.lookup_position(position_max))
    found = find_position(file, start, position_max, segment.size_bytes)
    if found is None and start > position:
        # The batch of that entry ends too late. The one before it may be anywhere between the
        # entries, so look from the entry before.
        start = max(position, index.lookup_position(start - 1))
        found = find_position(file, start, position_max, segment.size_bytes)
    return found


def find_boundary(segment: Segment, offset: int) -> Boundary:
    """Return where to cut so that no batch reaches `offset`.

    The log then ends at `offset`, even where compaction left nothing right before it. It ends
    earlier in two cases:

    - A batch contains `offset`: the log ends where that batch begins.
    - A damaged batch is in the way: the log ends before it. Replication fetches the rest again,
      and nothing of the damaged part is taken for what follows.
    """
    index, file, size_bytes = segment.offset_index, segment.file.open(), segment.size_bytes
    start = position = index.lookup(offset - 1)
    next_offset = segment.base_offset
    for at, header in iter_file_headers(file, start, size_bytes):
        if header.last_offset >= offset:
            end_offset = max(next_offset, min(offset, header.base_offset))
            return Boundary(at, next_offset, end_offset)
        position, next_offset = at + header.size_bytes, header.next_offset
    if position == size_bytes:
        end_offset = max(next_offset, min(offset, segment.next_offset))
        return Boundary(position, next_offset, end_offset)
    while True:
        scan = CheckedScan(file, size_bytes, segment.base_offset, start)
        for _, header in scan:
            if header.last_offset >= offset:
                break
        prefix = scan.prefix
        if prefix.size_bytes > start or not start:
            return Boundary(prefix.size_bytes, prefix.next_offset, prefix.next_offset)
        # The batch of that entry is the damaged one: the last whole one lies behind an earlier
        # entry.
        start = index.lookup_position(start - 1)
