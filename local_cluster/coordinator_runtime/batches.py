"""Records of a coordinator as the batches of its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from local_cluster.coordinator_runtime.outcome import Outcome, StoredRecord
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header

BATCH_BYTES_TARGET: Final = 512 * 1024
"""Many records are cut into batches of about this size; a batch is one key's at least."""


def encode_records(
    records: Sequence[StoredRecord], producer: tuple[int, int] | None, timestamp_ms: int
) -> tuple[bytearray, list[BatchHeader]]:
    """The batches and their headers, in order; with a producer they belong to its transaction."""
    buffer = bytearray()
    headers = []
    for chunk in _chunks(records):
        new = [NewRecord(timestamp_ms, key, value) for key, value in chunk]
        if producer is None:
            batch = encode_batch(new)
        else:
            producer_id, producer_epoch = producer
            batch = encode_batch(
                new,
                attributes=TRANSACTIONAL_BIT,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        headers.append(read_header(batch))
        buffer += batch
    return buffer, headers


def appended_together(outcome: Outcome) -> Iterable[Sequence[StoredRecord]]:
    """An outcome's records, cut where they need not be in the log all or none.

    What one append holds has to fit into a segment. Tombstones, of which there may be any number
    where a topic goes or positions expire, mean something one by one.
    """
    if outcome.producer is None and all(record.value is None for record in outcome.records):
        return _chunks(outcome.records)
    return (outcome.records,)


def size_bytes(records: Sequence[StoredRecord]) -> int:
    """What the records take in a batch, about."""
    return sum(len(key) + len(value or b"") for key, value in records)


def _chunks(records: Sequence[StoredRecord]) -> Iterator[Sequence[StoredRecord]]:
    """The records in order, cut where a batch would grow beyond its target."""
    start = 0
    chunk_bytes = 0
    for index, (key, value) in enumerate(records):
        record_bytes = len(key) + len(value or b"")
        if index > start and chunk_bytes + record_bytes > BATCH_BYTES_TARGET:
            yield records[start:index]
            start = index
            chunk_bytes = 0
        chunk_bytes += record_bytes
    yield records[start:]
