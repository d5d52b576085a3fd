"""Encodes the records of a coordinator as batches of its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from local_cluster.coordinator_runtime.outcome import Outcome, StoredRecord
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header

BATCH_BYTES_TARGET: Final = 512 * 1024
"""Records are split into batches of about this size; a batch holds at least one record."""


def encode_records(
    records: Sequence[StoredRecord], producer: tuple[int, int] | None, timestamp_ms: int
) -> tuple[bytearray, list[BatchHeader]]:
    """Encode the records as batches, with their headers; a producer makes them transactional."""
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


def split_into_appends(outcome: Outcome) -> Iterable[Sequence[StoredRecord]]:
    """Split an outcome's records into appends, each of which must fit into one segment.

    The records of one outcome stay together, so that the log holds all of them or none. Tombstones
    are independent of each other and may be split: deleting a topic or expiring offsets can write
    any number of them.
    """
    if outcome.producer is None and all(record.value is None for record in outcome.records):
        return _chunks(outcome.records)
    return (outcome.records,)


def size_bytes(records: Sequence[StoredRecord]) -> int:
    """Return the approximate size of the records in a batch."""
    return sum(len(key) + len(value or b"") for key, value in records)


def _chunks(records: Sequence[StoredRecord]) -> Iterator[Sequence[StoredRecord]]:
    """Split the records, in order, where a batch would exceed its target size."""
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
