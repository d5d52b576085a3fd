"""The tables of the data source: one Arrow schema each, from which Spark's is derived.

    records       one row per record: origin, place on the aggregate, content
    fingerprints  one row per record on both sides of every link, without content; see `audit.py`
    offset_map    the runs that relate source offsets and aggregate offsets
    end_offsets   one row per partition: log start, end, and end of the map
    source_end_offsets  the same of the partitions at their sources
    groups        committed offsets of consumer groups, on the aggregate and at the sources

`datacenter`, `topic`, `partition` and `offset` are those of the source. `aggregate_topic` and
`aggregate_offset` are those of the cluster to read. An offset that the map does not have is null,
never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

SOURCE_SIDE: Final = "source"
AGGREGATE_SIDE: Final = "aggregate"

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADER: Final = pa.struct(
    [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
)

_ORIGIN: Final = (
    pa.field("datacenter", pa.string()),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
)

RECORDS: Final = pa.schema(
    [
        *_ORIGIN,
        pa.field("offset", pa.int64()),
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("aggregate_offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER), nullable=False),
    ]
)

FINGERPRINTS: Final = pa.schema(
    [
        pa.field("side", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("offset", pa.int64()),
        pa.field("aggregate_offset", pa.int64()),
        pa.field("past_map", pa.bool_(), nullable=False),
        pa.field("expired", pa.bool_(), nullable=False),
        pa.field("fingerprint", pa.int64(), nullable=False),
    ]
)

OFFSET_MAP: Final = pa.schema(
    [
        pa.field("link", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("aggregate_offset", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
    ]
)

END_OFFSETS: Final = pa.schema(
    [
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("log_start_offset", pa.int64(), nullable=False),
        pa.field("last_stable_offset", pa.int64(), nullable=False),
        pa.field("mapped_source_offset", pa.int64()),
    ]
)

GROUPS: Final = pa.schema(
    [
        pa.field("side", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("committed_offset", pa.int64(), nullable=False),
        pa.field("log_start_offset", pa.int64(), nullable=False),
        pa.field("last_stable_offset", pa.int64(), nullable=False),
    ]
)

RECORDS_TABLE: Final = "records"
FINGERPRINTS_TABLE: Final = "fingerprints"
OFFSET_MAP_TABLE: Final = "offset_map"
END_OFFSETS_TABLE: Final = "end_offsets"
SOURCE_END_OFFSETS_TABLE: Final = "source_end_offsets"
GROUPS_TABLE: Final = "groups"

TABLES: Final[Mapping[str, pa.Schema]] = {
    RECORDS_TABLE: RECORDS,
    FINGERPRINTS_TABLE: FINGERPRINTS,
    OFFSET_MAP_TABLE: OFFSET_MAP,
    END_OFFSETS_TABLE: END_OFFSETS,
    SOURCE_END_OFFSETS_TABLE: END_OFFSETS,
    GROUPS_TABLE: GROUPS,
}


def spark_schema(table: str) -> StructType:
    """Return Spark's schema of a table."""
    return from_arrow_schema(TABLES[table])
