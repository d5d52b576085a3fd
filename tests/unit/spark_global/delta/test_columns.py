"""The columns of a Delta table, from those of a view."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_global.delta.columns import ColumnsRefusedError, missing_columns, table_schema


def schema(**columns: Any) -> str:
    fields = [
        {"name": name, "type": kind, "nullable": False, "metadata": {}}
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def test_every_column_is_optional_and_keeps_its_type() -> None:
    kinds = {"type": "array", "elementType": "binary", "containsNull": False}
    found = json.loads(table_schema(schema(a="long", b=kinds)))["fields"]
    assert [(each["name"], each["nullable"]) for each in found] == [("a", True), ("b", True)]
    assert found[0]["type"] == "long"
    assert found[1]["type"] == kinds | {"containsNull": True}


@pytest.mark.parametrize(
    "kind",
    [
        "interval day to second",
        "void",
        {"type": "array", "elementType": "void", "containsNull": True},
        json.loads(schema(inner="interval year")),
    ],
)
def test_a_type_that_delta_lacks_is_refused_by_the_column(kind: Any) -> None:
    with pytest.raises(ColumnsRefusedError, match="column spread is of type"):
        table_schema(schema(a="long", spread=kind))


def test_a_table_gets_the_columns_that_it_lacks_and_no_other_types() -> None:
    more = [
        json.loads(each)["name"] for each in missing_columns(schema(a="long"), schema(b="date"))
    ]
    assert more == ["b"]
    assert missing_columns(schema(a="long", others="date"), schema(a="long")) == []
    with pytest.raises(ColumnsRefusedError, match="column a of the table is long, and the view"):
        missing_columns(schema(a="long"), schema(a="string"))
