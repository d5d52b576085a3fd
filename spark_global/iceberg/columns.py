"""The columns of a table of decoded records or of a question, from those of the view.

All columns and fields are optional, so that a later schema can add some to an existing table. Old
rows have nulls there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

_NESTED_FROM: Final = 1_000
"""The first id of a field within a column. The catalogue assigns ids of its own."""
_PLAIN: Final[Mapping[pa.DataType, IcebergType]] = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}
_WIDER: Final = frozenset({(IntegerType(), LongType()), (FloatType(), DoubleType())})
"""Types that become others in place: no value changes, and old files stay readable."""


class ColumnsRefusedError(ValueError):
    """A table cannot have the columns of the view."""


def table_schema(rows: pa.Schema, descriptions: Mapping[str, str]) -> Schema:
    """Return the columns of a table for rows of a view, with ids by their place.

    `descriptions` are by column; others have none. Raises ColumnsRefusedError.
    """
    ids = count(_NESTED_FROM)
    return Schema(
        *(
            NestedField(
                place, each.name, _type(each.name, each.type, ids), doc=descriptions.get(each.name)
            )
            for place, each in enumerate(rows, start=1)
        )
    )


def check_columns(table: Schema, wanted: Schema) -> None:
    """Refuse columns whose types differ from those of a table; it may lack columns and fields.

    Raises ColumnsRefusedError.
    """
    _check_fields("", table.as_struct(), wanted.as_struct())


def _type(name: str, kind: pa.DataType, ids: Iterator[int]) -> IcebergType:
    if plain := _PLAIN.get(kind):
        return plain
    if pa.types.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind) and kind.num_fields:
        return StructType(*(_field(name, each, ids) for each in kind))
    if pa.types.is_list(kind):
        element = _type(f"{name}[]", kind.value_type, ids)
        return ListType(element_id=next(ids), element_type=element, element_required=False)
    if pa.types.is_map(kind):
        key = _type(f"{name} (keys)", kind.key_type, ids)
        value = _type(f"{name}{{}}", kind.item_type, ids)
        return MapType(next(ids), key, next(ids), value, value_required=False)
    lacking = "a struct without fields" if pa.types.is_struct(kind) else f"of type {kind}"
    raise ColumnsRefusedError(
        f"column {name} is {lacking}, which an Iceberg table does not have; leave a field out "
        "of the schema file, or keep the view as Parquet"
    )


def _field(within: str, each: pa.Field, ids: Iterator[int]) -> NestedField:
    name = f"{within}.{each.name}"
    if "." in each.name:
        # The names of nested fields are joined by dots, so two fields could have one name.
        raise ColumnsRefusedError(
            f"column {name}: the field {each.name!r} has a dot in its name, by which Iceberg "
            "separates names; leave it out of the schema file, or keep the view as Parquet"
        )
    return NestedField(next(ids), each.name, _type(name, each.type, ids), required=False)


def _check_fields(within: str, table: StructType, wanted: StructType) -> None:
    present = {each.name: each.field_type for each in table.fields}
    for each in wanted.fields:
        if each.name in present:
            name = f"{within}.{each.name}" if within else each.name
            _check(name, present[each.name], each.field_type)


def _check(name: str, table: IcebergType, wanted: IcebergType) -> None:
    match table, wanted:
        case StructType(), StructType():
            _check_fields(name, table, wanted)
        case ListType(), ListType():
            _check(f"{name}[]", table.element_type, wanted.element_type)
        case MapType(), MapType():
            _check(f"{name} (keys)", table.key_type, wanted.key_type)
            _check(f"{name}{{}}", table.value_type, wanted.value_type)
        case _:
            if table != wanted and not {(table, wanted), (wanted, table)} & _WIDER:
                raise ColumnsRefusedError(
                    f"column {name} of the table is {table}, and the view has {wanted}; give the "
                    "table a new name"
                )
