"""Columns, partitions and settings of a table.

The columns are those of the table `records`. All of them are optional, so that a later version can
add columns to an existing table. Old rows have nulls there.
"""

from __future__ import annotations

from typing import Any, Final

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.transforms import HourTransform, IdentityTransform, Transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_global.iceberg.upserts.keys import BUCKET, IS_DELETED, WRITTEN_AT

_HEADER: Final = StructType(
    NestedField(13, "key", StringType()),
    NestedField(14, "value", BinaryType()),
)
SCHEMA: Final = Schema(
    NestedField(1, "datacenter", StringType(), doc="where the record was produced"),
    NestedField(2, "topic", StringType(), doc="topic at the source"),
    NestedField(3, "partition", IntegerType(), doc="partition, the same on both sides"),
    NestedField(4, "offset", LongType(), doc="offset at the source; null if no offset map has it"),
    NestedField(5, "aggregate_topic", StringType(), doc="topic on the aggregate"),
    NestedField(6, "aggregate_offset", LongType(), doc="offset on the aggregate"),
    NestedField(7, "timestamp", TimestamptzType(), doc="timestamp of the record"),
    NestedField(8, "key", BinaryType(), doc="key as produced"),
    NestedField(9, "value", BinaryType(), doc="value as produced; null is a tombstone"),
    NestedField(
        10,
        "headers",
        ListType(element_id=12, element_type=_HEADER, element_required=False),
        doc="headers as produced, in order",
    ),
    NestedField(11, "topic_id", StringType(), doc="id of the topic at the source, if it is known"),
)
PARTITIONS: Final = PartitionSpec(
    PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="datacenter"),
    PartitionField(source_id=7, field_id=1001, transform=HourTransform(), name="hour"),
)


def partitions_of(columns: Schema, time: str) -> PartitionSpec:
    """Return the partitions of a question: by datacenter, if it has one, and hour of `time`."""
    ids = {each.name: each.field_id for each in columns.fields}
    by: list[tuple[str, str, Transform[Any, Any]]] = [("hour", time, HourTransform())]
    if "datacenter" in ids:
        by.insert(0, ("datacenter", "datacenter", IdentityTransform()))
    return PartitionSpec(
        *(
            PartitionField(source_id=ids[column], field_id=number, transform=how, name=name)
            for number, (name, column, how) in enumerate(by, start=1000)
        )
    )


UPSERT_SCHEMA: Final = Schema(
    *SCHEMA.fields,
    NestedField(15, BUCKET, IntegerType(), doc="CRC-32 of the key, modulo the number of buckets"),
    NestedField(16, IS_DELETED, BooleanType(), doc="the latest record of the key is a tombstone"),
    NestedField(17, WRITTEN_AT, TimestamptzType(), doc="when the job wrote the row"),
)
UPSERT_PARTITIONS: Final = PartitionSpec(
    PartitionField(source_id=15, field_id=1000, transform=IdentityTransform(), name=BUCKET)
)

RETRIES: Final = TableProperties.COMMIT_NUM_RETRIES
NO_RETRIES: Final = "0"
"""A retry of pyiceberg rebases a commit on a table that nobody has checked."""

SETTINGS: Final = {
    RETRIES: NO_RETRIES,
    # One manifest per batch would make each plan slower and slower.
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
    TableProperties.DEFAULT_NAME_MAPPING: SCHEMA.name_mapping.model_dump_json(),
}
"""The properties of a new table."""
