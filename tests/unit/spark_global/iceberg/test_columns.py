"""The columns of decoded records: types, names, and what may change."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.columns import ColumnsRefusedError, check_columns, table_schema
from spark_global.iceberg.table_writer import TableWriter
from spark_global.source.tables import RECORDS
from spark_global.values.batches import DecodedView
from spark_global.values.declaring import PinnedPart, PinnedTopic

EVERY: dict[str, pa.DataType] = {
    "flag": pa.bool_(),
    "short": pa.int32(),
    "long": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "day": pa.date32(),
    "local": pa.timestamp("us"),
    "moment": pa.timestamp("us", tz="UTC"),
    "price": pa.decimal128(12, 2),
    "list": pa.list_(pa.struct([("x", pa.int64())])),
    "map": pa.map_(pa.string(), pa.list_(pa.float64())),
    "inner": pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
}


def struct_of(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


def columns_of(value: pa.DataType) -> Schema:
    rows = pa.schema([("offset", pa.int64()), ("value", value)])
    return table_schema(rows, {"offset": "an offset", "value": "a value"})


def plain(kind: pa.DataType) -> str:
    """Return a type without what Iceberg's readers choose: large types, and names of items."""
    text = str(kind)
    for name, other in (("large_", ""), ("element", "item"), (" not null", "")):
        text = text.replace(name, other)
    return text


def test_each_type_is_kept() -> None:
    schema = columns_of(struct_of(**EVERY))
    assert [(each.field_id, each.name, each.doc) for each in schema.fields] == [
        (1, "offset", "an offset"),
        (2, "value", "a value"),
    ]
    assert not any(schema.find_field(each).required for each in optional_ids(schema))
    written = schema_to_pyarrow(schema, include_field_ids=False).field("value").type
    assert {each.name: plain(each.type) for each in written} == {
        name: plain(kind) for name, kind in EVERY.items()
    }


def optional_ids(schema: Schema) -> list[int]:
    """Return the ids of all fields but keys of maps, which Iceberg requires."""
    keys = {name for name in schema.column_names if name.endswith(".key")}
    return [schema.find_field(name).field_id for name in schema.column_names if name not in keys]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.uint64(), r"column value\.a is of type uint64"),
        (struct_of(), r"column value\.a is a struct without fields"),
        (pa.list_(struct_of(b=pa.time64("us"))), r"column value\.a\[\]\.b is of type time64"),
        (pa.map_(pa.string(), struct_of()), r"column value\.a\{\} is a struct without"),
        (pa.struct([("b.c", pa.int32())]), r"value\.a\.b\.c: the field 'b\.c' has a dot"),
    ],
)
def test_what_iceberg_lacks_is_refused_with_its_name(kind: pa.DataType, message: str) -> None:
    with pytest.raises(ColumnsRefusedError, match=message):
        columns_of(struct_of(a=kind))


def test_a_table_may_lack_fields_and_have_others() -> None:
    table = columns_of(
        struct_of(a=pa.int32(), gone=pa.string(), l=pa.list_(struct_of(x=pa.int64())))
    )
    wanted = columns_of(
        struct_of(a=pa.int64(), new=pa.int32(), l=pa.list_(struct_of(y=pa.bool_())))
    )
    check_columns(table, wanted)
    check_columns(wanted, table)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (pa.binary(), struct_of(a=pa.int32()), "column value of the table is binary"),
        (struct_of(a=pa.int64()), struct_of(a=pa.string()), r"value\.a of the table is long"),
        (pa.list_(pa.int32()), pa.list_(pa.string()), r"column value\[\] .* int, .* string"),
        (
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.int32(), pa.int32()),
            r"column value \(keys\) of the table is string",
        ),
        (pa.list_(pa.int32()), struct_of(a=pa.int32()), "the table is list"),
        (pa.decimal128(9, 2), pa.decimal128(9, 3), r"decimal\(9, 2\), .* decimal\(9, 3\)"),
    ],
)
def test_another_type_is_refused(before: pa.DataType, after: pa.DataType, message: str) -> None:
    with pytest.raises(ColumnsRefusedError, match=message):
        check_columns(columns_of(before), columns_of(after))


JSON = b'{"type": "object", "properties": {"id": {"type": "integer"}}}'


def view(*, is_rejects: bool) -> DecodedView:
    part = PinnedPart(format="json", schema=JSON, is_framed=False)
    return DecodedView(
        topic=PinnedTopic(parts={"value": part}, registries={}), is_rejects=is_rejects
    )


def records(*values: bytes | None) -> pa.RecordBatch:
    rows = [
        {
            "datacenter": "JFK",
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "aggregate_topic": "jfk.t",
            "aggregate_offset": offset,
            "timestamp": 0,
            "key": b"k",
            "value": value,
            "headers": [{"key": "h", "value": None}],
        }
        for offset, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORDS)


def test_each_record_is_in_one_view() -> None:
    rows = records(b'{"id": 1}', b"{", None, b'{"id": "x"}')
    decoded = view(is_rejects=False).decoder()(rows)
    assert decoded.schema.names == RECORDS.names
    assert decoded.column("offset").to_pylist() == [0, 2]
    assert decoded.column("value").to_pylist() == [{"id": 1}, None]
    assert decoded.column("key").to_pylist() == [b"k", b"k"]
    rejects = view(is_rejects=True).decoder()(rows)
    assert rejects.column("offset").to_pylist() == [1, 3]
    assert rejects.column("value").to_pylist() == [b"{", b'{"id": "x"}']
    reasons = [each.split(": ")[:2] for each in rejects.column("reason").to_pylist()]
    assert reasons == [["value", "no JSON"], ["value", "field id"]]


@pytest.mark.parametrize("is_rejects", [False, True])
def test_a_table_gets_the_columns_of_the_view(tmp_path: Path, is_rejects: bool) -> None:
    wanted = view(is_rejects=is_rejects)
    columns = table_schema(wanted.schema, wanted.descriptions)
    catalogue = open_catalogue(str(tmp_path / "tables"), create=True)
    writer = TableWriter(catalogue, ("nyc", "d"), "decoded_d", columns=columns)
    writer.take_over()
    schema = writer.table.schema()
    assert [each.name for each in schema.fields] == wanted.schema.names
    of_partitions = [schema.find_column_name(each.source_id) for each in writer.table.spec().fields]
    assert of_partitions == ["datacenter", "timestamp"]
    assert writer.table.name_mapping() == schema.name_mapping
