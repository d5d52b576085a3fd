"""The source offsets that a batch of a query has read, by the offset map. Pure.

Rows of a question are no records, so they do not say it themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_global.connector.segments import segments_of
from spark_global.kept.said import SourceRange
from spark_global.source.splits import PartitionRange


def read_offsets(ranges: Iterable[PartitionRange]) -> Iterator[SourceRange]:
    """Yield the source offsets of ranges; offsets that the map does not have are left out.

    Without a map a partition is its own source.
    """
    for wanted in ranges:
        for part in segments_of(wanted):
            if part.shifts is None or not len(part.firsts):
                continue
            yield SourceRange(
                datacenter=wanted.origin.datacenter,
                topic=wanted.origin.topic,
                partition=wanted.partition,
                first=int(part.firsts[0] + part.shifts[0]),
                end=int(part.ends[-1] + part.shifts[-1]),
                records=int((part.ends - part.firsts).sum()),
            )
