"""One round of compaction over one log: reads closed segments, writes `.cleaned` ones.

It runs in a process of its own and knows the log only by its files: the job says which. It never
touches a file that the log has; the broker swaps what is written (`swap.py`). Memory is bounded by
the key map, one batch (64 MiB opened) and two buffers of 1 MiB; `Throttle` bounds the rate.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from local_cluster.log.compaction.offset_map import OffsetMap
from local_cluster.log.compaction.record_filter import (
    LastBatch,
    Round,
    Totals,
    find_aborted,
    learn_keys,
)
from local_cluster.log.disk.files import Files, LogFile
from local_cluster.log.segment.scan import BATCH_LENGTH_MIN, CHUNK_BYTES, iter_file_headers
from local_cluster.log.segment.segment import (
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    file_name,
)
from local_cluster.log.segment.swap import CLEANED_SUFFIX, remove_cleaned
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.header import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    Buffer,
    compute_crc,
    read_header,
)

WRITE_BYTES: Final = 1024 * 1024
BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger batch is taken for damage: the memory of a round is bounded."""
SEGMENT_BYTES_MAX: Final = (1 << 31) - 1
"""Positions in an index are int32; tombstones that get a horizon grow by a few bytes."""

_TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")
"""version, producer id, first offset, last offset, last stable offset."""


class Throttle(Protocol):
    """Bounds the rate of reads and writes; may raise to end the round."""

    def take(self, size_bytes: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """A segment as the job sees it: so many bytes of its file hold the offsets up to the next."""

    base_offset: int
    next_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """What a round is told; plain values, for JSON."""

    directory: str
    groups: tuple[tuple[SourceSegment, ...], ...]
    """Oldest first; each becomes one segment."""
    later: tuple[SourceSegment, ...] = ()
    """Segments behind them, looked at for the ends of transactions only."""
    start_offset: int
    """Where the dirty part begins."""
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    key_bytes_max: int
    load_factor: float
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """producer id -> last data offset (-1 without), epoch."""


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A `.cleaned` segment that is complete and on the disk."""

    replaced: tuple[int, ...]
    """Base offsets of the segments that it stands for; it begins where the first one does."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The round is over; everything below `end_offset` is clean once its groups are swapped."""

    end_offset: int
    totals: Totals


class CleanedSegment(Segment):
    """A segment that is written under the names of one that is not in use yet."""

    def path(self, suffix: str) -> str:
        return super().path(suffix) + CLEANED_SUFFIX


def run_job(
    job: CompactionJob, files: Files, throttle: Throttle
) -> Iterator[CleanedGroup | Compacted]:
    """Do a round; ends with `Compacted`. Blocks.

    Raises OSError, CompressionError or CorruptRecordError; files that were reported stay good.
    """
    remove_cleaned(files, job.directory)
    sources = [source for group in job.groups for source in group]
    aborted = find_aborted(_control_and_transactional(job, files, [*sources, *job.later], throttle))
    dirty = [source for source in sources if source.next_offset > job.start_offset]
    keys, end_offset = _learn(job, files, dirty, aborted_ranges(aborted), throttle)
    compaction = Round(
        keys=keys,
        end_offset=end_offset,
        now_ms=job.now_ms,
        delete_retention_ms=job.delete_retention_ms,
        producers={producer_id: LastBatch(*last) for producer_id, last in job.producers.items()},
        aborted=aborted,
    )
    for group in job.groups:
        if group[0].base_offset >= end_offset:
            break
        cleaned = _rewrite(job, files, group, compaction, throttle)
        if cleaned is not None:
            yield cleaned
    yield Compacted(end_offset, compaction.totals)


def aborted_ranges(aborted: Iterable[tuple[int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    """producer id -> (first, last) offset of its aborted transactions."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for producer_id, first, last in aborted:
        ranges.setdefault(producer_id, []).append((first, last))
    return ranges


def _control_and_transactional(
    job: CompactionJob, files: Files, sources: Iterable[SourceSegment], throttle: Throttle
) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    for source in sources:
        file = files.open(_path(job, source, LOG_SUFFIX))
        for position, header in iter_file_headers(file, 0, source.size_bytes):
            if header.is_control:
                throttle.take(header.size_bytes)
                yield file.pread(header.size_bytes, position), 0, header
            elif header.is_transactional:
                yield b"", 0, header


def _learn(
    job: CompactionJob,
    files: Files,
    dirty: Iterable[SourceSegment],
    aborted: dict[int, list[tuple[int, int]]],
    throttle: Throttle,
) -> tuple[OffsetMap, int]:
    """The keys of the dirty part, and how far they go: all of it unless the map gets full."""
    records_count = 0
    dirty = list(dirty)
    for source in dirty:
        file = files.open(_path(job, source, LOG_SUFFIX))
        for _, header in iter_file_headers(file, 0, source.size_bytes):
            records_count += header.records_count
    keys = OffsetMap(job.key_bytes_max, records_count, job.load_factor)
    for source in dirty:
        file = files.open(_path(job, source, LOG_SUFFIX))
        for buffer, position, header, _ in iter_batches(file, source.size_bytes, throttle):
            if header.last_offset < job.start_offset:
                continue
            is_aborted = header.is_transactional and any(
                first <= header.base_offset <= last
                for first, last in aborted.get(header.producer_id, ())
            )
            full_at = learn_keys(
                keys,
                buffer,
                position,
                header,
                start_offset=job.start_offset,
                is_aborted=is_aborted,
            )
            if full_at is not None:
                return keys, full_at
    return keys, job.end_offset


def _rewrite(
    job: CompactionJob,
    files: Files,
    group: tuple[SourceSegment, ...],
    compaction: Round,
    throttle: Throttle,
) -> CleanedGroup | None:
    """Write what survives of a group; None where it has no batches at all."""
    last_source = next((source for source in reversed(group) if source.size_bytes), None)
    if last_source is None:
        return None
    cleaned = CleanedSegment(
        files,
        job.directory,
        group[0].base_offset,
        index_interval_bytes=job.index_interval_bytes,
    )
    cleaned.create(job.now_ms)
    pending, headers = bytearray(), list[BatchHeader]()
    newest_ms = -1

    def write_out() -> None:
        if headers:
            if cleaned.size_bytes + len(pending) > SEGMENT_BYTES_MAX:
                raise OverflowError(f"{cleaned.path(LOG_SUFFIX)} outgrows its positions")
            throttle.take(len(pending))
            last = headers[-1]
            cleaned.append(pending, len(pending), headers, last.last_offset, last.max_timestamp)
            pending.clear()
            headers.clear()

    for source in group:
        file = files.open(_path(job, source, LOG_SUFFIX))
        for buffer, position, header, is_last in iter_batches(file, source.size_bytes, throttle):
            newest_ms = max(newest_ms, header.max_timestamp)
            kept = compaction.compact(
                buffer, position, header, is_last=is_last and source is last_source
            )
            if kept is not None:
                pending += kept
                headers.append(read_header(kept))
                if len(pending) >= WRITE_BYTES:
                    write_out()
    write_out()
    paths = cleaned.finish()
    paths += _write_transactions(job, files, group, compaction.kept_aborts, cleaned)
    # Where no record has a time, retention goes by when the segment was written; where none is
    # left, by the newest that was there.
    modified_ms = files.modified_ms(_path(job, last_source, LOG_SUFFIX))
    if cleaned.max_timestamp < 0 <= newest_ms:
        modified_ms = newest_ms
    files.set_modified_ms(cleaned.path(LOG_SUFFIX), modified_ms)
    for path in [*paths, job.directory]:
        files.open_for_sync(path).sync()
    return CleanedGroup(tuple(source.base_offset for source in group), cleaned.size_bytes)


def _write_transactions(
    job: CompactionJob,
    files: Files,
    group: Iterable[SourceSegment],
    kept_aborts: set[int],
    cleaned: CleanedSegment,
) -> list[str]:
    """The entries of the transaction indexes whose transactions still have batches."""
    kept = bytearray()
    for source in group:
        path = _path(job, source, TRANSACTION_INDEX_SUFFIX)
        if not files.exists(path):
            continue
        content = files.read_bytes(path)
        whole = len(content) - len(content) % _TRANSACTION_ENTRY.size
        for entry in _TRANSACTION_ENTRY.iter_unpack(content[:whole]):
            if entry[3] in kept_aborts:
                kept += _TRANSACTION_ENTRY.pack(*entry)
    if not kept:
        return []
    path = cleaned.path(TRANSACTION_INDEX_SUFFIX)
    files.replace(path, bytes(kept), durable=False)
    return [path]


def iter_batches(
    file: LogFile, size_bytes: int, throttle: Throttle
) -> Iterator[tuple[Buffer, int, BatchHeader, bool]]:
    """(buffer, position in it, header, whether it is the last) of every batch, CRC checked.

    Raises CorruptRecordError where the first `size_bytes` are not whole batches.
    """
    chunk = memoryview(b"")
    chunk_start = position = 0
    while position < size_bytes:
        at = position - chunk_start
        needed = HEADER_BYTES
        if at + needed <= len(chunk):
            needed = read_header(chunk, at).size_bytes
        if at + needed > len(chunk):
            if needed > BATCH_BYTES_MAX:
                raise CorruptRecordError(f"a batch of {needed} bytes at position {position}")
            wanted = min(max(CHUNK_BYTES, needed), size_bytes - position)
            chunk = memoryview(file.pread(wanted, position))
            throttle.take(len(chunk))
            chunk_start, at = position, 0
            if len(chunk) < needed:
                raise CorruptRecordError(f"batch at position {position} is cut off")
            header = read_header(chunk)
            if header.batch_length < BATCH_LENGTH_MIN or header.magic != MAGIC:
                raise CorruptRecordError(f"no batch at position {position}")
            if len(chunk) < header.size_bytes <= min(BATCH_BYTES_MAX, size_bytes - position):
                chunk = memoryview(file.pread(header.size_bytes, position))
                throttle.take(len(chunk))
        header = read_header(chunk, at)
        end = at + header.size_bytes
        if (
            header.batch_length < BATCH_LENGTH_MIN
            or header.magic != MAGIC
            or end > len(chunk)
            or compute_crc(chunk, at, header.size_bytes) != header.crc
        ):
            raise CorruptRecordError(f"no whole batch at position {position}")
        position += header.size_bytes
        yield chunk, at, header, position == size_bytes


def _path(job: CompactionJob, source: SourceSegment, suffix: str) -> str:
    return f"{job.directory}/{file_name(source.base_offset, suffix)}"
