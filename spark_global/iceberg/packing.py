"""Which ranges one Spark task writes. Pure.

A task writes one file per datacenter and hour. So ranges of one datacenter go to one task, up to a
size, and a batch of a thousand small partitions makes no thousand files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_global.source.splits import PartitionRange

TASK_RECORDS_MIN: Final = 20_000
"""Offsets below which a further task costs more than it saves."""


def pack_ranges(
    ranges: Sequence[PartitionRange], tasks: int, records_max: int
) -> list[list[PartitionRange]]:
    """Return the ranges of each task, every range in exactly one of them.

    A task has at most `records_max` offsets, unless it has a single range. There are about `tasks`
    tasks if the ranges are large enough.
    """
    total = sum(each.end - each.start for each in ranges)
    size = max(1, min(records_max, max(TASK_RECORDS_MIN, -(-total // max(1, tasks)))))
    packed: list[list[PartitionRange]] = []
    filled = 0
    for each in sorted(ranges, key=_place):
        count = each.end - each.start
        if not packed or filled + count > size:
            packed.append([])
            filled = 0
        packed[-1].append(each)
        filled += count
    return packed


def _place(wanted: PartitionRange) -> tuple[str, str, int, int]:
    return (
        wanted.origin.datacenter or "",
        wanted.aggregate_topic,
        wanted.partition,
        wanted.start,
    )
