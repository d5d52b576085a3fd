"""Where bytes cannot be moved as they are: open a batch and build it anew, dense.

Offsets lose their holes. LogAppendTime becomes the CreateTime that readers saw. A delete horizon
goes: the base timestamp is the first record's again. Records before the start are left out. Keys,
values, headers, timestamps and the codec stay. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from local_cluster.records.batch import NewRecord, Record, encode_batch


def encode_dense(
    records: Sequence[Record], codec: int
) -> tuple[bytearray, tuple[tuple[int, int], ...]]:
    """(batch, segments): the records with offsets from 0, and where they came from.

    A segment is (source offset, count) of records that were neighbours in the source.
    """
    batch = encode_batch(
        [NewRecord(r.timestamp_ms, r.key, r.value, r.headers) for r in records], codec=codec
    )
    return batch, contiguous_segments(records)


def contiguous_segments(records: Sequence[Record]) -> tuple[tuple[int, int], ...]:
    """(first offset, count) of every stretch of consecutive offsets."""
    segments: list[tuple[int, int]] = []
    for record in records:
        if segments and segments[-1][0] + segments[-1][1] == record.offset:
            segments[-1] = (segments[-1][0], segments[-1][1] + 1)
        else:
            segments.append((record.offset, 1))
    return tuple(segments)
