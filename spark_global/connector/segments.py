"""The origins of a partition's offsets as disjoint segments, to be joined by equality. Pure.

A join by "between" alone would compare each record with each segment of its partition. So offsets
are cut into buckets of 2**bits, and a segment has one row per bucket that it touches. A bucket is
about as long as the average segment. So the table has at most four rows per segment, and a record
has few candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_global.source.columns import Int64s
from spark_global.source.splits import PartitionRange, Takes

BITS_MAX: Final = 62
"""With these all offsets are in one bucket."""
SEGMENTS: Final = pa.schema(
    [
        pa.field("segment_topic", pa.string(), nullable=False),
        pa.field("segment_partition", pa.int32(), nullable=False),
        pa.field("bucket", pa.int64(), nullable=False),
        pa.field("segment_first", pa.int64(), nullable=False),
        pa.field("segment_end", pa.int64(), nullable=False),
        pa.field("datacenter", pa.string()),
        pa.field("source_topic", pa.string(), nullable=False),
        pa.field("shift", pa.int64()),
        pa.field("topic_id", pa.string()),
    ]
)
"""Offsets [segment_first, segment_end) of the aggregate. A source offset is the aggregate offset
and `shift`; it is unknown where `shift` is null."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments of one range: arrays of equal length."""

    firsts: Int64s
    ends: Int64s
    shifts: Int64s | None
    """None if the source offsets are unknown."""


def segments_of(wanted: PartitionRange) -> Iterator[Segments]:
    """Yield the segments of what a range reads, those of known origin first."""
    start, end = wanted.start, wanted.end
    if wanted.takes is Takes.WRITTEN:
        return  # the connector does not show who wrote a record; they are UNMAPPED there
    if wanted.runs is None:
        yield Segments(_int64s(start), _int64s(end), _int64s(0))
        return
    runs = wanted.runs.covering_targets(start, end)
    firsts = np.maximum(runs.targets, start)
    ends = np.minimum(runs.targets + runs.counts, end)
    if wanted.takes is not Takes.UNMAPPED:
        yield Segments(firsts, ends, runs.sources - runs.targets)
    if wanted.takes is not Takes.MAPPED:
        holes_first = np.concatenate([_int64s(start), ends])
        holes_end = np.concatenate([firsts, _int64s(end)])
        keep = holes_first < holes_end
        yield Segments(holes_first[keep], holes_end[keep], None)


def _int64s(value: int) -> Int64s:
    return np.array([value], dtype=np.int64)


def segment_table(ranges: Iterable[PartitionRange]) -> tuple[pa.Table, int]:
    """Return the table of segments of all ranges, and the bits of its buckets."""
    found = [(each, part) for each in ranges for part in segments_of(each) if len(part.firsts)]
    offsets = sum(int((part.ends - part.firsts).sum()) for _, part in found)
    count = sum(len(part.firsts) for _, part in found)
    is_one_each = all(len(part.firsts) == 1 for _, part in found)
    bits = BITS_MAX if is_one_each else max(0, (offsets // count).bit_length() - 1)
    batches = [_rows(wanted, part, bits) for wanted, part in found]
    return pa.Table.from_batches(batches, schema=SEGMENTS), bits


def _rows(wanted: PartitionRange, part: Segments, bits: int) -> pa.RecordBatch:
    lows = part.firsts >> bits
    counts = ((part.ends - 1) >> bits) - lows + 1
    which = np.repeat(np.arange(len(lows)), counts)
    into = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    count = len(which)
    topic_id = None if part.shifts is None else wanted.topic_id
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(wanted.aggregate_topic), count),
            pa.repeat(pa.scalar(wanted.partition, type=pa.int32()), count),
            pa.array(lows[which] + into),
            pa.array(part.firsts[which]),
            pa.array(part.ends[which]),
            pa.repeat(pa.scalar(wanted.origin.datacenter, type=pa.string()), count),
            pa.repeat(pa.scalar(wanted.origin.topic), count),
            pa.nulls(count, pa.int64()) if part.shifts is None else pa.array(part.shifts[which]),
            pa.repeat(pa.scalar(topic_id, type=pa.string()), count),
        ],
        schema=SEGMENTS,
    )
