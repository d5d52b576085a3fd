"""From fetched bytes to batches ready to be written, without opening a record.

    fetched bytes --select_batches--> SourceBatch... --prepare--> PreparedBatch --stamp--> Produce

These batches are left out whole: control batches, data of aborted transactions (by the aborted
list of a read_committed fetch) and batches that compaction emptied. Where the link copies only what
was born at its source, batches that a mirror wrote there are left out too (`origins.py`).

Of the attributes only the codec bits are kept. These batches cannot be moved as bytes and go to
`record_path`:

- a batch that begins before the position;
- a batch with LogAppendTime: the target would clear the bit, and so change what readers see;
- a batch with a delete horizon (KIP-534): its base timestamp is the horizon of the source's log
  cleaner, which the target's shall not follow;
- a batch with holes: the target refuses a count that differs from the offset range.

With rules for records (`record_rules`) every batch goes there. Runs of tiny batches can be made one
batch each (`coalescing`).

Every batch's CRC is checked before anything else: a fresh CRC over broken bytes would make
corruption look sound. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import Codec, CompressionError
from mirror_maker.copy.coalescing import RUN_BATCHES_MIN, TINY_BATCH_BYTES_MAX, coalesce, find_run
from mirror_maker.copy.record_path import encode_dense
from mirror_maker.formats import Run
from mirror_maker.model import SourceGap, UncopyableBatchError
from mirror_maker.rules.gap_ranges import NO_GAPS, GapRanges
from mirror_maker.rules.record_rules import RecordRules

_ABORT_MARKER_KEY: Final = b"\0\0\0\0"
"""Key of a control record: version int16 0, type int16 0 = abort (1 = commit)."""


class CopyPath(StrEnum):
    """How a batch is copied, and where it must be opened, why."""

    PASSTHROUGH = "passthrough"
    STRADDLES_START = "straddles_start"
    LOG_APPEND_TIME = "log_append_time"
    DELETE_HORIZON = "delete_horizon"
    """A log cleaner has put its delete horizon into the base timestamp."""
    HOLES = "holes"
    COALESCED = "coalesced"
    GAP = "gap"
    """Some of its records are in the journal of gaps."""
    CUT = "cut"
    """The target refuses it whole."""
    RULES = "rules"
    """The link has a filter or transforms of records."""


@dataclass(slots=True)
class SourceBatch:
    """One batch with records to copy, as it lies in the source's log.

    Or, where it was `COALESCED`, the batch that a run of tiny ones was made into.
    """

    header: h.BatchHeader
    view: memoryview
    """The whole batch; prepared in place where it is writable."""
    source_first: int
    """Records below this offset are not to be copied."""
    source_next: int
    """The offset behind its last record."""
    path: CopyPath
    segments: tuple[tuple[int, int], ...] = ()
    """Of a coalesced batch: (source offset, count) of its contiguous pieces."""
    batches_count: int = 1
    """How many batches of the source it is."""
    gaps: GapRanges = NO_GAPS
    """What of it is not to be copied either."""
    rules: RecordRules | None = None
    """What the link leaves out of it and changes in it."""

    @property
    def payload(self) -> memoryview:
        """The records' bytes, compressed as they are."""
        return self.view[h.HEADER_BYTES :]

    def records(self) -> list[Record]:
        """The records to copy, as they are to be copied.

        Raises UncopyableBatchError where the bytes are broken.
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
        copied = (self.rules.apply(record) for record in records)
        return [record for record in copied if record is not None]


class Selection(NamedTuple):
    """What a fetch answer holds for the mirror."""

    batches: list[SourceBatch]
    source_next: int
    """The position after everything complete in the answer, copied or left out."""
    left_out_count: int
    """Batches left out: control, aborted, empty, born elsewhere."""
    refusal: UncopyableBatchError | None
    """Why the walk stopped before the end, at a batch that cannot be copied truthfully."""
    leader_epoch: int = -1
    """Of the last batch before `source_next`; -1 where that is not known."""


@dataclass(slots=True)
class PreparedBatch:
    """One batch for the target, complete but for producer id, epoch, sequence and CRC."""

    data: memoryview
    records_count: int
    source_first: int
    source_next: int
    segments: tuple[tuple[int, int], ...]
    """(source offset, count) of contiguous pieces, in order; one where there are no holes."""
    path: CopyPath
    batches_count: int = 1
    """How many batches of the source it is."""
    fetched_ns: int = 0
    """When it came, where spans are wanted."""

    def runs(self, target_offset: int) -> list[Run]:
        """Where the records are, once the target has given them offsets."""
        runs = []
        for source_offset, count in self.segments:
            runs.append(Run(source_offset, target_offset, count))
            target_offset += count
        return runs


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

    `aborted_transactions` are the answer's (producer id, first offset); batches of `foreign_ids`
    were born elsewhere and are left out. A cut-off last batch is left for the next fetch.
    `coalesces`: runs of tiny batches become one each.
    What lies in `gaps` is passed over, readable or not; behind what is not readable the walk ends.
    With `rules` every batch is copied by its records, and none is coalesced.
    """
    batches: list[SourceBatch] = []
    left_out = 0
    waiting = sorted(aborted_transactions, key=lambda entry: entry[1], reverse=True)
    aborted: set[int] = set()
    following = 0
    scanned = 0
    leader_epoch = -1
    while (header := h.complete_header(fetched, start := following)) is not None:
        following = start + header.size_bytes
        if (
            coalesces
            and rules is None
            and start >= scanned
            and header.size_bytes <= TINY_BATCH_BYTES_MAX
            and header.base_offset >= position
        ):
            coalesced, scanned, run_epoch = _coalesced(fetched, start, foreign_ids)
            if coalesced is not None and not gaps.touches(
                coalesced.source_first, coalesced.source_next
            ):
                batches.append(coalesced)
                position, following = coalesced.source_next, scanned
                leader_epoch = run_epoch
                continue
        view = fetched[start:following]
        reason = _refusal(header, view)
        if reason is not None:
            # The header's own word is not taken for where the batch ends.
            end = _next_sound(fetched, following, position)
            if gaps.contains(position) if end is None else gaps.covers(position, end):
                # Not even by its neighbours: it may be a marker that ends an aborted transaction,
                # and what is aborted behind it is told by the answer to a fetch from there.
                return Selection(batches, gaps.behind(position), left_out + 1, None)
            gap = SourceGap(position, end, None) if end is not None else None
            refusal = UncopyableBatchError(header.base_offset, reason, gap)
            return Selection(batches, position, left_out, refusal, leader_epoch)
        if header.next_offset <= position:
            continue
        first = max(position, header.base_offset)
        is_gap = bool(gaps) and gaps.covers(first, header.next_offset)
        while waiting and waiting[-1][1] <= header.last_offset:
            aborted.add(waiting.pop()[0])
        if header.is_control:
            left_out += 1
            if header.producer_id in aborted and _control_key(header, view) == _ABORT_MARKER_KEY:
                aborted.discard(header.producer_id)
        elif (
            is_gap
            or header.records_count == 0
            or (header.is_transactional and header.producer_id in aborted)
            or header.producer_id in foreign_ids
        ):
            left_out += 1
        elif rules is not None:
            batches.append(
                SourceBatch(
                    header,
                    view,
                    first,
                    header.next_offset,
                    CopyPath.RULES,
                    gaps=gaps,
                    rules=rules,
                )
            )
        elif gaps.touches(first, header.next_offset):
            batches.append(
                SourceBatch(header, view, first, header.next_offset, CopyPath.GAP, gaps=gaps)
            )
        else:
            path = _path(header, first)
            batches.append(SourceBatch(header, view, first, header.next_offset, path))
        position, leader_epoch = header.next_offset, header.partition_leader_epoch
    behind = gaps.behind(position)
    return Selection(batches, behind, left_out, None, leader_epoch if behind == position else -1)


def prepare(batch: SourceBatch) -> PreparedBatch | None:
    """Make the batch ready, in place where its bytes are writable.

    None where no record remains, which happens to a batch with holes that begins before the
    position, and where rules leave out all. Raises UncopyableBatchError.
    """
    if batch.path is CopyPath.COALESCED:
        return PreparedBatch(
            batch.view,
            batch.header.records_count,
            batch.source_first,
            batch.source_next,
            batch.segments,
            batch.path,
            batch.batches_count,
        )
    if batch.path is not CopyPath.PASSTHROUGH:
        return _prepare_records(batch)
    header = batch.header
    data = memoryview(bytearray(batch.view)) if batch.view.readonly else batch.view
    # The target checks that the offsets of compressed records count from 0, and sets its own.
    h.patch_base_offset(data, 0, 0)
    h.patch_leader_epoch(data, 0, -1)
    h.patch_attributes(data, 0, header.attributes & h.CODEC_MASK)
    return PreparedBatch(
        data,
        header.records_count,
        batch.source_first,
        batch.source_next,
        ((header.base_offset, header.records_count),),
        batch.path,
    )


def stamp(prepared: PreparedBatch, producer_id: int, producer_epoch: int, sequence: int) -> None:
    """Set who writes the batch and at which sequence, and seal it with its CRC."""
    h.patch_producer(prepared.data, 0, producer_id, producer_epoch, sequence)
    h.patch_crc(prepared.data, 0)


def _prepare_records(batch: SourceBatch) -> PreparedBatch | None:
    records = batch.records()
    if not records:
        return None
    data, segments = encode_dense(records, batch.header.codec)
    return PreparedBatch(
        memoryview(data),
        len(records),
        batch.source_first,
        batch.source_next,
        segments,
        batch.path,
    )


def _coalesced(
    fetched: memoryview, start: int, foreign_ids: Set[int]
) -> tuple[SourceBatch | None, int, int]:
    """(a run of tiny batches from `start` on as one, the position behind it, its leader epoch).

    None where the run is too short to be worth it, or cannot be opened.
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


def _refusal(header: h.BatchHeader, view: memoryview) -> str | None:
    if header.magic != h.MAGIC:
        return f"message format v{header.magic} is not supported, v2 is"
    if not h.crc_is_valid(view, 0, header):
        return "the batch fails its CRC"
    if header.codec > max(Codec):
        return f"unknown codec {header.codec}"
    if header.is_control and _control_key(header, view) is None:
        return "the control batch cannot be read"
    return None


def _next_sound(fetched: memoryview, start: int, beyond: int) -> int | None:
    """The offset at which the next batch in the answer that can be read begins."""
    for position, header in h.iter_headers(fetched, start):
        if header.magic == h.MAGIC and h.crc_is_valid(fetched, position, header):
            return header.base_offset if header.base_offset > beyond else None
    return None


def _path(header: h.BatchHeader, source_first: int) -> CopyPath:
    if source_first > header.base_offset:
        return CopyPath.STRADDLES_START
    if header.is_log_append_time:
        return CopyPath.LOG_APPEND_TIME
    if header.has_artificial_base_timestamp:
        return CopyPath.DELETE_HORIZON
    if header.records_count != header.last_offset_delta + 1:
        return CopyPath.HOLES
    return CopyPath.PASSTHROUGH


def _control_key(header: h.BatchHeader, view: memoryview) -> bytes | None:
    try:
        records = decode_batch(view, 0, header)
    except (CompressionError, CorruptRecordError):
        return None
    return records[0].key[:4] if records and records[0].key is not None else b""
