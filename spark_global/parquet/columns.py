"""The columns of a Parquet file of Spark, as another writer must write them. Pure.

Spark writes times as INT96 unless it is told otherwise. pyarrow reads those without a zone and
would write them so; Spark then takes the column for one of another type.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

MOMENT: Final = pa.timestamp("us", tz="UTC")
"""What Spark calls `timestamp`."""


def columns_of(file: pq.ParquetFile) -> pa.Schema:
    """Return the columns of a file that was read with INT96 in microseconds, with its metadata."""
    int96 = {
        column.path
        for index in range(len(file.schema))
        if (column := file.schema.column(index)).physical_type == "INT96"
    }
    schema = file.schema_arrow
    fields = [_field(field, field.name, int96) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _field(field: pa.Field, path: str, int96: Set[str]) -> pa.Field:
    return field.with_type(_type(field.type, path, int96))


def _type(kind: pa.DataType, path: str, int96: Set[str]) -> pa.DataType:
    """Return the type of a column; `path` is its path in the file's own schema."""
    if path in int96:
        return MOMENT
    if pa.types.is_struct(kind):
        return pa.struct([_field(each, f"{path}.{each.name}", int96) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field, f"{path}.list.element", int96))
    if pa.types.is_map(kind):
        return pa.map_(
            _field(kind.key_field, f"{path}.key_value.key", int96),
            _field(kind.item_field, f"{path}.key_value.value", int96),
        )
    return kind
