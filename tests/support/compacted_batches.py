"""Batches as a log cleaner leaves them: records gone, a delete horizon in the base timestamp."""

from __future__ import annotations

from collections.abc import Sequence, Set

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch, encode_record
from local_cluster.records.compress import compress


def encode_cleaned(
    records: Sequence[NewRecord],
    kept: Sequence[int] | None = None,
    *,
    horizon_ms: int | None = None,
    has_bit: bool = True,
    codec: int = 0,
    **fields: int,
) -> bytearray:
    """The batch of `records` of which a cleaner has kept those with these indexes, all by default.

    What is kept has its offset delta still. With `horizon_ms` that is the base timestamp and every
    timestamp delta counts from it (KIP-534); `has_bit` says whether the attributes tell so.
    `fields` are those of `encode_batch`.
    """
    indexes = range(len(records)) if kept is None else kept
    base_timestamp = records[0].timestamp_ms if horizon_ms is None else horizon_ms
    payload = b"".join(
        encode_record(records[index], records[index].timestamp_ms - base_timestamp, index)
        for index in indexes
    )
    compressed = compress(codec, payload)
    header = h.read_header(encode_batch(records, codec=codec, **fields))
    has_horizon = horizon_ms is not None and has_bit
    batch = bytearray(
        h.pack_header(
            header._replace(
                batch_length=h.HEADER_BYTES - h.LOG_OVERHEAD_BYTES + len(compressed),
                attributes=header.attributes | (h.DELETE_HORIZON_BIT if has_horizon else 0),
                base_timestamp=base_timestamp,
                max_timestamp=max(records[index].timestamp_ms for index in indexes),
                records_count=len(indexes),
            )
        )
    )
    batch += compressed
    h.patch_crc(batch, 0)
    return batch


def without_records(batch: bytes, gone: Set[int]) -> bytes | None:
    """A batch of a log of which a cleaner takes the records at these offsets; None if none is left.

    Everything else of its header stays, so that a batch may be cleaned again.
    """
    header = h.read_header(batch)
    kept = [r for r in decode_batch(batch, 0, header) if r.offset not in gone]
    if not kept:
        return None
    payload = b"".join(
        encode_record(
            NewRecord(*record[1:]),
            record.timestamp_ms - header.base_timestamp,
            record.offset - header.base_offset,
        )
        for record in kept
    )
    compressed = compress(header.codec, payload)
    cleaned = header._replace(
        batch_length=h.HEADER_BYTES - h.LOG_OVERHEAD_BYTES + len(compressed),
        records_count=len(kept),
    )
    if not header.is_log_append_time:
        cleaned = cleaned._replace(max_timestamp=max(record.timestamp_ms for record in kept))
    out = bytearray(h.pack_header(cleaned)) + compressed
    h.patch_crc(out, 0)
    return bytes(out)
