"""One round of compaction over one log: reads closed segments, writes `.cleaned` ones.

It runs in a process of its own and knows the log only by the files that its job names. It never
changes a file of the log: the broker swaps in the segments that it wrote (`segment/swap.py`).
Memory is bounded by the key map, one batch (64 MiB decompressed) and two buffers of 1 MiB.
`Throttle` bounds the rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from local_cluster.log.compaction.compaction_job import (
    CleanedGroup,
    Compacted,
    CompactionJob,
    SourceSegment,
)
from local_cluster.log.compaction.key_offset_map import KeyOffsetMap
from local_cluster.log.compaction.record_filter import (
    LastBatch,
    RecordFilter,
    find_aborted,
    learn_keys,
)
from local_cluster.log.disk.files import Files, LogFile
from local_cluster.log.segment.file_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from local_cluster.log.segment.scan import BATCH_LENGTH_MIN, CHUNK_BYTES, iter_file_headers
from local_cluster.log.segment.segment import Segment
from local_cluster.log.segment.swap import remove_cleaned
from local_cluster.log.segment.transaction_index import AbortedTransaction, iter_entries
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
"""A larger batch counts as damage: the memory of a round is bounded."""
SEGMENT_BYTES_MAX: Final = (1 << 31) - 1
"""Positions in an index are int32; tombstones that get a horizon grow by a few bytes."""


class Throttle(Protocol):
    """Bounds the rate of reads and writes; may raise to end the round."""

    def take(self, size_bytes: int) -> None: ...


def run_job(
    job: CompactionJob, files: Files, throttle: Throttle
) -> Iterator[CleanedGroup | Compacted]:
    """Do a round and yield its groups, at the end `Compacted`. Blocks.

    Raises OSError, CompressionError, CorruptRecordError; groups that were yielded stay valid.
    """
    remove_cleaned(files, job.directory)
    sources = [source for group in job.groups for source in group]
    aborted = find_aborted(_control_and_transactional(job, files, [*sources, *job.later], throttle))
    dirty = [source for source in sources if source.next_offset > job.start_offset]
    keys, end_offset = _learn(job, files, dirty, aborted_ranges(aborted), throttle)
    record_filter = RecordFilter(
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
        cleaned = _rewrite(job, files, group, record_filter, throttle)
        if cleaned is not None:
            yield cleaned
    yield Compacted(end_offset, record_filter.totals)


def aborted_ranges(aborted: Iterable[tuple[int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Return, by producer id, the (first, last) offsets of the aborted transactions."""
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
) -> tuple[KeyOffsetMap, int]:
    """Return the keys of the dirty part, and how far they reach: to its end unless it is full."""
    records_count = 0
    dirty = list(dirty)
    for source in dirty:
        file = files.open(_path(job, source, LOG_SUFFIX))
        for _, header in iter_file_headers(file, 0, source.size_bytes):
            records_count += header.records_count
    keys = KeyOffsetMap(job.key_bytes_max, records_count, job.load_factor)
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
    record_filter: RecordFilter,
    throttle: Throttle,
) -> CleanedGroup | None:
    """Write the batches of a group that survive; None where it has no batches at all."""
    last_source = next((source for source in reversed(group) if source.size_bytes), None)
    if last_source is None:
        return None
    cleaned = Segment(
        files,
        job.directory,
        group[0].base_offset,
        index_interval_bytes=job.index_interval_bytes,
        name_suffix=CLEANED_SUFFIX,
    )
    cleaned.create(job.now_ms)
    pending, headers = bytearray(), list[BatchHeader]()
    newest_ms = -1

    def write_out() -> None:
        if headers:
            if cleaned.size_bytes + len(pending) > SEGMENT_BYTES_MAX:
                raise OverflowError(f"{cleaned.log_path} exceeds {SEGMENT_BYTES_MAX} bytes")
            throttle.take(len(pending))
            last = headers[-1]
            cleaned.append(pending, len(pending), headers, last.last_offset, last.max_timestamp)
            pending.clear()
            headers.clear()

    for source in group:
        file = files.open(_path(job, source, LOG_SUFFIX))
        for buffer, position, header, is_last in iter_batches(file, source.size_bytes, throttle):
            newest_ms = max(newest_ms, header.max_timestamp)
            kept = record_filter.filter(
                buffer, position, header, is_last=is_last and source is last_source
            )
            if kept is not None:
                pending += kept
                headers.append(read_header(kept))
                if len(pending) >= WRITE_BYTES:
                    write_out()
    write_out()
    cleaned.transactions.entries = _kept_transactions(job, files, group, record_filter.kept_aborts)
    paths = cleaned.finish()
    # Retention uses the file's time where no record has a timestamp. Where no record is left, the
    # file gets the newest timestamp that was there.
    modified_ms = files.modified_ms(_path(job, last_source, LOG_SUFFIX))
    if cleaned.max_timestamp < 0 <= newest_ms:
        modified_ms = newest_ms
    files.set_modified_ms(cleaned.log_path, modified_ms)
    for path in [*paths, job.directory]:
        files.open_for_sync(path).sync()
    return CleanedGroup(tuple(source.base_offset for source in group), cleaned.size_bytes)


def _kept_transactions(
    job: CompactionJob, files: Files, group: Iterable[SourceSegment], kept_aborts: set[int]
) -> list[AbortedTransaction]:
    """Return the entries of the transaction indexes whose transactions still have batches."""
    kept = []
    for source in group:
        path = _path(job, source, TRANSACTION_INDEX_SUFFIX)
        if files.exists(path):
            entries = iter_entries(files.read_bytes(path))
            kept += [entry for _, entry in entries if entry.last_offset in kept_aborts]
    return kept


def iter_batches(
    file: LogFile, size_bytes: int, throttle: Throttle
) -> Iterator[tuple[Buffer, int, BatchHeader, bool]]:
    """Yield (buffer, position in it, header, whether it is the last) of every batch; check CRCs.

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
                raise CorruptRecordError(f"the batch at position {position} is truncated")
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
