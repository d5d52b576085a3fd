"""Which batches of a fetch response are copied, and how each of them is copied. Pure.

These batches are left out whole:

- control batches;
- data of aborted transactions, by the aborted list of a read_committed fetch;
- batches that compaction emptied;
- batches of foreign producer ids, if the link copies only records born at its source (`origins`).

`CopyPath` says which batches cannot move as bytes. A run of tiny batches can become one
(`coalescing`).

Every batch's CRC is checked first: a fresh CRC over broken bytes would make corruption look sound.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import Codec, CompressionError
from local_cluster.records.header import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    complete_header,
    crc_is_valid,
    iter_headers,
)
from mirror_maker.copy.coalescing import RUN_BATCHES_MIN, TINY_BATCH_BYTES_MAX, coalesce, find_run
from mirror_maker.model import SourceGap, UncopyableBatchError
from mirror_maker.rules.gap_ranges import NO_GAPS, GapRanges
from mirror_maker.rules.record_rules import RecordRules

_ABORT_MARKER_KEY: Final = b"\0\0\0\0"
"""Key of a control record: version int16 0, type int16 0 = abort (1 = commit)."""


RawBatch = memoryview
"""The bytes of one batch, its header first."""


class CopyPath(StrEnum):
    """How a batch is copied. All but PASSTHROUGH and COALESCED are encoded from their records."""

    PASSTHROUGH = "passthrough"
    """As bytes."""
    STRADDLES_START = "straddles_start"
    """It begins before the position."""
    LOG_APPEND_TIME = "log_append_time"
    """The target would clear the bit, and so change the timestamps that readers see."""
    DELETE_HORIZON = "delete_horizon"
    """Its base timestamp is the horizon of the source's log cleaner (KIP-534), which the target's
    cleaner must not follow."""
    HOLES = "holes"
    """The target refuses a record count that differs from the offset range."""
    COALESCED = "coalesced"
    """A run of tiny batches made into one."""
    GAP = "gap"
    """The journal says that some of its records are not copied."""
    SPLIT = "cut"
    """The target refuses it whole."""
    RULES = "rules"
    """The link has a filter or transforms."""


@dataclass(slots=True)
class SourceBatch:
    """One batch with records to copy: as it lies in the source's log, or a coalesced run."""

    header: BatchHeader
    view: RawBatch
    """The whole batch; prepared in place if it is writable."""
    source_first: int
    """Records below this offset are not copied."""
    source_next: int
    """The offset after its last record."""
    path: CopyPath
    segments: tuple[tuple[int, int], ...] = ()
    """With COALESCED: (source offset, count) of its contiguous pieces."""
    batches_count: int = 1
    """Source batches in it."""
    gaps: GapRanges = NO_GAPS
    """Offsets in it that are not copied."""
    rules: RecordRules | None = None
    """What the link leaves out of it and changes in it."""

    @property
    def payload(self) -> memoryview:
        """The records' bytes, as they are compressed."""
        return self.view[HEADER_BYTES:]

    def records(self) -> list[Record]:
        """Return the records to copy, as they are to be copied.

        Raises UncopyableBatchError if the bytes are broken.
        """
        try:
            records = decode_batch(self.view, 0, self.header)
        except (CompressionError, CorruptRecordError) as error:
            raise UncopyableBatchError(self.header.base_offset, str(error)) from error
        records = [
            record
            for record in records
            if record.offset >= self.source_first and not self.gaps.contains(record.offset)
        ]
        if self.rules is None:
            return records
        copied = [self.rules.apply(record) for record in records]
        return [record for record in copied if record is not None]


class Selection(NamedTuple):
    """The part of a fetch response that the mirror copies."""

    batches: list[SourceBatch]
    source_next: int
    """The position after everything complete in the response, copied or left out."""
    left_out_count: int
    """Batches left out: control, aborted, empty, born elsewhere."""
    refusal: UncopyableBatchError | None
    """Why the walk stopped early, at a batch that cannot be copied truthfully."""
    leader_epoch: int = -1
    """Leader epoch of the last batch before `source_next`; -1 if unknown."""


def select_batches(
    fetched: memoryview,
    position: int,
    aborted_transactions: Sequence[tuple[int, int]],
    foreign_ids: Set[int] = frozenset(),
    *,
    coalesces: bool = False,
    gaps: GapRanges = NO_GAPS,
    rules: RecordRules | None = None,
) -> Selection:
    """Walk the batches of a read_committed fetch from `position`.

    `aborted_transactions` are the response's (producer id, first offset). Batches of `foreign_ids`
    are left out. An incomplete last batch is left for the next fetch. `coalesces`: make one batch
    of each run of tiny ones. Offsets in `gaps` are passed over, readable or not; the walk ends
    after an unreadable batch. With `rules` every batch is copied by its records, and none is
    coalesced.
    """
    batches: list[SourceBatch] = []
    left_out = 0
    transactions = _AbortedTransactions(aborted_transactions)
    may_coalesce = coalesces and rules is None
    following = 0
    scanned = 0
    leader_epoch = -1
    while (header := complete_header(fetched, start := following)) is not None:
        following = start + header.size_bytes
        if (
            may_coalesce
            and start >= scanned
            and header.size_bytes <= TINY_BATCH_BYTES_MAX
            and header.base_offset >= position
        ):
            coalesced, scanned, run_epoch = _coalesced(fetched, start, foreign_ids)
            if coalesced is not None and not gaps.overlaps(
                coalesced.source_first, coalesced.source_next
            ):
                batches.append(coalesced)
                position, following = coalesced.source_next, scanned
                leader_epoch = run_epoch
                continue
        view = fetched[start:following]
        reason = _refusal(header, view)
        if reason is not None:
            end = _next_sound(fetched, following, position)
            passed = _pass_unreadable(position, end, gaps)
            if passed is not None:
                return Selection(batches, passed, left_out + 1, None)
            gap = SourceGap(position, end, None) if end is not None else None
            refusal = UncopyableBatchError(header.base_offset, reason, gap)
            return Selection(batches, position, left_out, refusal, leader_epoch)
        if header.next_offset <= position:
            continue
        first = max(position, header.base_offset)
        if (
            transactions.leaves_out(header, view)
            or header.records_count == 0
            or header.producer_id in foreign_ids
            or (gaps and gaps.covers(first, header.next_offset))
        ):
            left_out += 1
        else:
            batches.append(_source_batch(header, view, first, gaps, rules))
        position, leader_epoch = header.next_offset, header.partition_leader_epoch
    source_next = gaps.first_outside(position)
    return Selection(
        batches, source_next, left_out, None, leader_epoch if source_next == position else -1
    )


class _AbortedTransactions:
    """Recognizes control batches and data of aborted transactions; sees the batches in order."""

    def __init__(self, aborted_transactions: Sequence[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted_transactions, key=lambda entry: entry[1], reverse=True)
        self._open: set[int] = set()

    def leaves_out(self, header: BatchHeader, view: memoryview) -> bool:
        while self._waiting and self._waiting[-1][1] <= header.last_offset:
            self._open.add(self._waiting.pop()[0])
        is_aborted = header.producer_id in self._open
        if header.is_control:
            if is_aborted and _control_key(header, view) == _ABORT_MARKER_KEY:
                self._open.discard(header.producer_id)
            return True
        return is_aborted and header.is_transactional


def _source_batch(
    header: BatchHeader,
    view: memoryview,
    first: int,
    gaps: GapRanges,
    rules: RecordRules | None,
) -> SourceBatch:
    if rules is not None:
        return SourceBatch(
            header, view, first, header.next_offset, CopyPath.RULES, gaps=gaps, rules=rules
        )
    if gaps.overlaps(first, header.next_offset):
        return SourceBatch(header, view, first, header.next_offset, CopyPath.GAP, gaps=gaps)
    return SourceBatch(header, view, first, header.next_offset, _path(header, first))


def _pass_unreadable(position: int, end: int | None, gaps: GapRanges) -> int | None:
    """Return the position after an unreadable batch that lies in a gap, else None.

    The batch is not inspected further, not even by its neighbours: it may be a marker that ends an
    aborted transaction. A fetch from the returned position reports what is aborted after it. The
    header of the batch is not trusted about where the batch ends: `end` is the next sound batch.
    """
    is_gap = gaps.contains(position) if end is None else gaps.covers(position, end)
    return gaps.first_outside(position) if is_gap else None


def _coalesced(
    fetched: memoryview, start: int, foreign_ids: Set[int]
) -> tuple[SourceBatch | None, int, int]:
    """Return (the run of tiny batches at `start` as one, the position after it, its leader epoch).

    The batch is None if the run is too short to be worth it, or cannot be opened.
    """
    run = find_run(fetched, start, foreign_ids)
    count = len(run.payloads)
    made = coalesce(run) if count >= RUN_BATCHES_MIN else None
    if made is None:
        return None, run.end, -1
    (first, _), (last, last_count) = made.segments[0], made.segments[-1]
    batch = SourceBatch(
        made.header,
        memoryview(made.data),
        first,
        last + last_count,
        CopyPath.COALESCED,
        made.segments,
        count,
    )
    return batch, run.end, run.leader_epoch


def _refusal(header: BatchHeader, view: memoryview) -> str | None:
    if header.magic != MAGIC:
        return f"message format v{header.magic} is not supported, only v2"
    if not crc_is_valid(view, 0, header):
        return "the batch fails its CRC"
    if header.codec > max(Codec):
        return f"unknown codec {header.codec}"
    if header.is_control and _control_key(header, view) is None:
        return "the control batch cannot be read"
    return None


def _next_sound(fetched: memoryview, start: int, beyond: int) -> int | None:
    """Return the base offset of the next readable batch in the response."""
    for position, header in iter_headers(fetched, start):
        if header.magic == MAGIC and crc_is_valid(fetched, position, header):
            return header.base_offset if header.base_offset > beyond else None
    return None


def _path(header: BatchHeader, source_first: int) -> CopyPath:
    if source_first > header.base_offset:
        return CopyPath.STRADDLES_START
    if header.is_log_append_time:
        return CopyPath.LOG_APPEND_TIME
    if header.has_artificial_base_timestamp:
        return CopyPath.DELETE_HORIZON
    if header.records_count != header.last_offset_delta + 1:
        return CopyPath.HOLES
    return CopyPath.PASSTHROUGH


def _control_key(header: BatchHeader, view: memoryview) -> bytes | None:
    """Return the head of the control record's key, or None if the batch cannot be read."""
    try:
        records = decode_batch(view, 0, header)
    except (CompressionError, CorruptRecordError):
        return None
    return records[0].key[:4] if records and records[0].key is not None else b""
