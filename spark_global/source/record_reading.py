"""Reads ranges of the table `records`, and only what the asked columns need. Shell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from spark_global.source.options import ReadOptions
from spark_global.source.reading import read_ranges
from spark_global.source.rows import record_rows
from spark_global.source.splits import PartitionRange
from spark_global.source.tables import PLACE_COLUMNS


def read_records(
    ranges: Sequence[PartitionRange], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield record batches of the options' columns. Errors as of `read_ranges`."""
    names = options.record_columns
    yield from read_ranges(
        ranges,
        partial(record_rows, names=names),
        options.fetch_bytes_max,
        places_only=PLACE_COLUMNS.issuperset(names),
    )
