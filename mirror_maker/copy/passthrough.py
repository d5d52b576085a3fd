"""A selected batch made ready for the target: as bytes where possible, else encoded anew. Pure.

    SourceBatch --prepare--> PreparedBatch --stamp--> Produce

As bytes, the records are never opened. Of the attributes only the codec bits are kept.

Otherwise `encode_dense` builds a batch from the records to copy (`CopyPath` says when and why).
Offsets lose their holes, LogAppendTime becomes the CreateTime that readers saw, and a delete
horizon goes: the base timestamp is the first record's again. Keys, values, headers, timestamps and
the codec stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.records.header import (
    CODEC_MASK,
    patch_attributes,
    patch_base_offset,
    patch_crc,
    patch_leader_epoch,
    patch_producer,
)
from mirror_maker.copy.batch_selection import CopyPath, RawBatch, SourceBatch
from mirror_maker.formats import Run


@dataclass(slots=True)
class PreparedBatch:
    """One batch for the target, complete except for producer id, epoch, sequence and CRC."""

    data: RawBatch
    records_count: int
    source_first: int
    source_next: int
    segments: tuple[tuple[int, int], ...]
    """(source offset, count) of contiguous source records, in order; one if there are no holes."""
    path: CopyPath
    batches_count: int = 1
    """Source batches in it."""
    fetched_ns: int = 0
    """Time of the fetch, if spans are wanted."""

    def runs(self, target_offset: int) -> list[Run]:
        """Return where the records are, once the target has given them offsets."""
        runs = []
        for source_offset, count in self.segments:
            runs.append(Run(source_offset, target_offset, count))
            target_offset += count
        return runs


def prepare(batch: SourceBatch) -> PreparedBatch | None:
    """Make the batch ready, in place if its bytes are writable.

    Returns None if no record remains: a batch with holes may begin before the position, and rules
    may leave out every record. Raises UncopyableBatchError.
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
    patch_base_offset(data, 0, 0)
    patch_leader_epoch(data, 0, -1)
    patch_attributes(data, 0, header.attributes & CODEC_MASK)
    return PreparedBatch(
        data,
        header.records_count,
        batch.source_first,
        batch.source_next,
        ((header.base_offset, header.records_count),),
        batch.path,
    )


def stamp(prepared: PreparedBatch, producer_id: int, producer_epoch: int, sequence: int) -> None:
    """Set the producer and the sequence of the batch, and seal it with its CRC."""
    patch_producer(prepared.data, 0, producer_id, producer_epoch, sequence)
    patch_crc(prepared.data, 0)


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


def encode_dense(
    records: Sequence[Record], codec: int
) -> tuple[bytearray, tuple[tuple[int, int], ...]]:
    """Encode the records with offsets from 0: (batch, segments as in `PreparedBatch`)."""
    batch = encode_batch(
        [NewRecord(r.timestamp_ms, r.key, r.value, r.headers) for r in records], codec=codec
    )
    return batch, contiguous_segments(records)


def contiguous_segments(records: Sequence[Record]) -> tuple[tuple[int, int], ...]:
    """Return (first offset, count) of every stretch of consecutive offsets."""
    segments: list[tuple[int, int]] = []
    for record in records:
        if segments and segments[-1][0] + segments[-1][1] == record.offset:
            segments[-1] = (segments[-1][0], segments[-1][1] + 1)
        else:
            segments.append((record.offset, 1))
    return tuple(segments)
