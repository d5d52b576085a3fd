"""Walk over the batches of a log file: headers only, or whole batches with their CRC checked."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.log.disk.files import LogFile
from local_cluster.records.header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    compute_crc,
    read_header,
)

CHUNK_BYTES: Final = 1024 * 1024
"""How much is read at once where everything is looked at."""
HEADER_CHUNK_BYTES: Final = 8 * 1024
"""How much is read at once where only headers are: an index interval and a bit."""
SEARCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""How far behind a broken batch a whole one is looked for."""

SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all; larger ones are multiples."""

BATCH_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
BASE_OFFSET_BYTES: Final = 8
OFFSETS_SPAN_MAX: Final = 1 << 31
"""How far behind another an offset of the same segment lies."""

BOUNDS: Final = struct.Struct(">qi4xb6xi")
"""base_offset, batch_length, magic, last_offset_delta from the first 27 bytes of a batch."""

_MAGIC_AND_ATTRIBUTES: Final = re.compile(rb"\x02(?=[\x00-\xff]{4}\x00[\x00-\x7f])")
_MAGIC_POSITION: Final = 16


class Found(NamedTuple):
    """A batch in a file: where it starts, and where the next one does."""

    position: int
    following_position: int
    next_offset: int


def iter_file_headers(file: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch that lies whole in `position` to `end`; no CRC.

    Stops at the first thing that cannot be a batch.
    """
    chunk = b""
    chunk_start = position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk_start = position
            chunk = file.pread(min(HEADER_CHUNK_BYTES, end - position), position)
            if len(chunk) < HEADER_BYTES:
                return
        header = read_header(chunk, position - chunk_start)
        following = position + header.size_bytes
        if header.batch_length < BATCH_LENGTH_MIN or header.magic != MAGIC or following > end:
            return
        yield position, header
        position = following


def find_offset(file: LogFile, offset: int, position: int, end: int) -> Found | None:
    """The first batch from `position` on whose last offset is at least `offset`."""
    unpack_from = BOUNDS.unpack_from
    chunk = b""
    chunk_start = position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk_start = position
            chunk = file.pread(min(HEADER_CHUNK_BYTES, end - position), position)
            if len(chunk) < HEADER_BYTES:
                return None
        base_offset, batch_length, magic, delta = unpack_from(chunk, position - chunk_start)
        if batch_length < BATCH_LENGTH_MIN or magic != MAGIC:
            return None
        following = position + batch_length + LOG_OVERHEAD_BYTES
        if base_offset + delta >= offset:
            return Found(position, following, base_offset + delta + 1)
        position = following
    return None


def leads_to(file: LogFile, position: int, end: int) -> bool:
    """Whether the batches from `position` on lead to `end`: not where a length is damaged."""
    while position + HEADER_BYTES <= end:
        header = file.pread(HEADER_BYTES, position)
        if len(header) < HEADER_BYTES:
            return False
        _, batch_length, magic, _ = BOUNDS.unpack_from(header)
        if batch_length < BATCH_LENGTH_MIN or magic != MAGIC:
            return False
        position += batch_length + LOG_OVERHEAD_BYTES
    return position == end


def find_position(file: LogFile, position: int, position_max: int, end: int) -> Found | None:
    """The last batch from `position` on that ends at or before `position_max`."""
    unpack_from = BOUNDS.unpack_from
    chunk = b""
    chunk_start = position
    last: Found | None = None
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk_start = position
            chunk = file.pread(min(HEADER_CHUNK_BYTES, end - position), position)
            if len(chunk) < HEADER_BYTES:
                break
        base_offset, batch_length, magic, delta = unpack_from(chunk, position - chunk_start)
        following = position + batch_length + LOG_OVERHEAD_BYTES
        if batch_length < BATCH_LENGTH_MIN or magic != MAGIC or following > position_max:
            break
        last = Found(position, following, base_offset + delta + 1)
        position = following
    return last


class ValidPrefix(NamedTuple):
    """How far a file holds whole batches with a right CRC, and what stopped the walk."""

    size_bytes: int
    next_offset: int
    problem: str | None
    is_misplaced: bool = False
    """The walk stopped at a whole batch whose offset does not continue: no torn tail, damage."""


class CheckedScan:
    """Walk over a file checking every CRC; `prefix` says how far it was whole, after the walk or
    where that was left: before the batch that came last."""

    def __init__(self, file: LogFile, size_bytes: int, offset_min: int, position: int = 0) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self.prefix = ValidPrefix(position, offset_min, None)

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        position = self.prefix.size_bytes
        next_offset = self.prefix.next_offset
        problem: str | None = None
        is_misplaced = False
        chunk = memoryview(b"")
        chunk_start = 0
        while position < self._size_bytes:
            at = position - chunk_start
            if at + HEADER_BYTES > len(chunk):
                chunk_start, at = position, 0
                chunk = memoryview(self._file.pread(CHUNK_BYTES, position))
                if len(chunk) < HEADER_BYTES:
                    problem = "header cut off"
                    break
            header = read_header(chunk, at)
            size_bytes = header.size_bytes
            if header.magic != MAGIC or header.batch_length < BATCH_LENGTH_MIN:
                problem = "not a batch"
                break
            if position + size_bytes > self._size_bytes:
                problem = "batch cut off"
                break
            if at + size_bytes > len(chunk):
                chunk_start, at = position, 0
                chunk = memoryview(self._file.pread(max(CHUNK_BYTES, size_bytes), position))
                if len(chunk) < size_bytes:
                    problem = "batch cut off"
                    break
            if compute_crc(chunk, at, size_bytes) != header.crc:
                problem = "wrong CRC"
                break
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                problem = f"offset {header.base_offset} where {next_offset} or more was due"
                is_misplaced = True
                break
            yield position, header
            position += size_bytes
            next_offset = header.next_offset
            self.prefix = ValidPrefix(position, next_offset, None)
        self.prefix = ValidPrefix(position, next_offset, problem, is_misplaced)


def is_unwritten(file: LogFile, position: int) -> bool:
    """Whether the place of a header holds zeros: pages that never reached the disk."""
    return not any(file.pread(HEADER_BYTES, position))


def has_batch_after(file: LogFile, position: int, end: int, offset_min: int) -> bool:
    """Whether a whole batch with a right CRC begins anywhere behind `position`.

    Its offset must be at least `offset_min` and within the 2**31 offsets of a segment, which
    leaves almost nothing of arbitrary bytes to compute a CRC over.
    """
    stop = min(end, position + SEARCH_BYTES_MAX)
    start = position + 1
    while start < stop:
        chunk = memoryview(file.pread(min(CHUNK_BYTES, end - start), start))
        for match in _MAGIC_AND_ATTRIBUTES.finditer(chunk):
            at = match.start() - _MAGIC_POSITION
            if at < 0 or at + HEADER_BYTES > len(chunk):
                continue
            header = read_header(chunk, at)
            if (
                not offset_min <= header.base_offset < offset_min + OFFSETS_SPAN_MAX
                or header.batch_length < BATCH_LENGTH_MIN
                or start + at + header.size_bytes > end
            ):
                continue
            batch = file.pread(header.size_bytes, start + at)
            if compute_crc(batch, 0, len(batch)) == header.crc:
                return True
        if len(chunk) <= HEADER_BYTES:
            return False
        # The chunks overlap by a header, so that none is missed at the seam.
        start += len(chunk) - HEADER_BYTES
    return False


def is_damaged_batch(file: LogFile, position: int, end: int, offset_min: int) -> bool:
    """Whether the batch at `position`, behind which nothing whole follows, was whole once.

    What a crash leaves of a batch that was being written is too short, or reads as zeros where a
    sector never reached the disk. A batch that is all there, and all written, and has another CRC
    than it says was damaged afterwards. So was one whose CRC is right as far as the file goes, but
    whose header gives another length, or is none: that part of it the CRC does not cover.
    """
    size_bytes = end - position
    if not HEADER_BYTES <= size_bytes <= SEARCH_BYTES_MAX:
        return False
    content = memoryview(file.pread(size_bytes, position))
    header = read_header(content)
    if compute_crc(content, 0, size_bytes) != header.crc:
        if (
            header.magic != MAGIC
            or header.batch_length < BATCH_LENGTH_MIN
            or header.size_bytes > size_bytes
            or not offset_min <= header.base_offset < offset_min + OFFSETS_SPAN_MAX
        ):
            return False
        content = content[: header.size_bytes]
    return not _has_unwritten_sector(content, position)


def _has_unwritten_sector(batch: memoryview, position: int) -> bool:
    """Whether a sector, as far as it belongs to the batch at `position` of its file, is zeros."""
    start = 0
    while start < len(batch):
        stop = start + SECTOR_BYTES - (position + start) % SECTOR_BYTES
        sector = batch[start:stop]
        # A sector may end within the base offset, whose first bytes are zeros anyway, or begin with
        # the end of a last record, which often is zeros too: a tail that lacks no more than that
        # is taken for damaged, which at worst is refused without need and never cut without right.
        if len(sector) > BASE_OFFSET_BYTES and not any(sector):
            return True
        start = stop
    return False
