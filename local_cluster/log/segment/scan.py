"""Walks over the batches of a log file: headers only, or whole batches with their CRC checked."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.log.disk.files import LogFile
from local_cluster.log.segment.index import RELATIVE_OFFSET_MAX
from local_cluster.records.header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    compute_crc,
    read_header,
)

CHUNK_BYTES: Final = 1024 * 1024
"""Bytes per read where whole batches are read."""
HEADER_CHUNK_BYTES: Final = 8 * 1024
"""Bytes per read where only headers are read: an index interval and some more."""
SEARCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""How far behind a broken batch the search for a whole one goes."""

SECTOR_BYTES: Final = 512
"""A disk writes a sector whole or not at all; larger sectors are multiples of this."""

BATCH_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
BASE_OFFSET_BYTES: Final = 8
OFFSETS_SPAN_MAX: Final = RELATIVE_OFFSET_MAX + 1
"""The largest distance between two offsets of one segment."""

BOUNDS: Final = struct.Struct(">qi4xb6xi")
"""base_offset, batch_length, magic, last_offset_delta: the first 27 bytes of a batch."""

_MAGIC_AND_ATTRIBUTES: Final = re.compile(rb"\x02(?=[\x00-\xff]{4}\x00[\x00-\x7f])")
"""Magic 2, then any CRC, then attributes from 0 to 127."""
MAGIC_POSITION: Final = 16


class Found(NamedTuple):
    """A batch in a file: where it starts, and where the next one starts."""

    position: int
    following_position: int
    next_offset: int


def iter_file_headers(file: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch between `position` and `end`; no CRC check.

    Stops at the first bytes that cannot be a batch.
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
    """Return the first batch from `position` on whose last offset is at least `offset`."""
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
    """Return whether the batches from `position` on lead to `end`: not behind a damaged length."""
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
    """Return the last batch from `position` on that ends at or before `position_max`."""
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
    """How far a file holds whole batches with a valid CRC, and what stopped the walk."""

    size_bytes: int
    next_offset: int
    problem: str | None
    is_misplaced: bool = False
    """The walk stopped at a whole batch whose offset does not continue: damage, not a torn tail."""


class CheckedScan:
    """A walk over a file that checks every CRC.

    `prefix` is the valid prefix once the walk is over. Where the caller leaves the walk early, it
    ends before the batch that came last.
    """

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
                    problem = "the header is truncated"
                    break
            header = read_header(chunk, at)
            size_bytes = header.size_bytes
            if header.magic != MAGIC or header.batch_length < BATCH_LENGTH_MIN:
                problem = "no batch"
                break
            if position + size_bytes > self._size_bytes:
                problem = "the batch is truncated"
                break
            if at + size_bytes > len(chunk):
                chunk_start, at = position, 0
                chunk = memoryview(self._file.pread(max(CHUNK_BYTES, size_bytes), position))
                if len(chunk) < size_bytes:
                    problem = "the batch is truncated"
                    break
            if compute_crc(chunk, at, size_bytes) != header.crc:
                problem = "wrong CRC"
                break
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                problem = f"offset {header.base_offset} where {next_offset} or more was expected"
                is_misplaced = True
                break
            yield position, header
            position += size_bytes
            next_offset = header.next_offset
            self.prefix = ValidPrefix(position, next_offset, None)
        self.prefix = ValidPrefix(position, next_offset, problem, is_misplaced)


def is_unwritten(file: LogFile, position: int) -> bool:
    """Return whether a header's place holds zeros: pages that never reached the disk."""
    return not any(file.pread(HEADER_BYTES, position))


def has_batch_after(file: LogFile, position: int, end: int, offset_min: int) -> bool:
    """Return whether a whole batch with a valid CRC begins anywhere behind `position`.

    Its offset must be at least `offset_min` and within the 2**31 offsets of a segment. Hardly any
    arbitrary bytes pass that, so few CRCs are computed.
    """
    stop = min(end, position + SEARCH_BYTES_MAX)
    start = position + 1
    while start < stop:
        chunk = memoryview(file.pread(min(CHUNK_BYTES, end - start), start))
        for match in _MAGIC_AND_ATTRIBUTES.finditer(chunk):
            at = match.start() - MAGIC_POSITION
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
        # The chunks overlap by a header, so that none is missed between them.
        start += len(chunk) - HEADER_BYTES
    return False


def is_damaged_batch(file: LogFile, position: int, end: int, offset_min: int) -> bool:
    """Return whether the batch at `position` was written in full and damaged later.

    The caller has found no whole batch behind it. A crash during a write leaves a batch that is
    too short, or that has zeros where a sector never reached the disk. Two cases are damage:

    - All bytes are there, no sector is zeros, and the CRC is wrong.
    - The CRC is valid up to the end of the file, but the header has another length or magic: the
      CRC does not cover that part.
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
    """Return whether one of the batch's sectors is zeros, as far as the batch covers it."""
    start = 0
    while start < len(batch):
        stop = start + SECTOR_BYTES - (position + start) % SECTOR_BYTES
        sector = batch[start:stop]
        # A few zeros prove nothing: the first bytes of a base offset are zeros anyway, and the end
        # of a last record often is. A tail that lacks no more than that counts as damaged: at
        # worst a good replica is refused, but no record is truncated wrongly.
        if len(sector) > BASE_OFFSET_BYTES and not any(sector):
            return True
        start = stop
    return False
