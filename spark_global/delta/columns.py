"""The columns of a Delta table, from those of the view. Pure.

Delta writes a schema as Spark does, in JSON. All columns are optional, so that a later version can
add columns to an existing table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_MAY_BE_NULL: Final = ("nullable", "containsNull", "valueContainsNull")
_LACKING: Final = ("interval", "void", "time(", "variant")
"""What Spark's names of types begin with that Delta, or deltalake, does not have."""


class ColumnsRefusedError(ValueError):
    """A table cannot have the columns of the view."""


def table_schema(spark_schema: str) -> str:
    """Return the schema of a table for the rows of a view, both as JSON.

    Raises ColumnsRefusedError.
    """
    document = json.loads(spark_schema)
    for column in document["fields"]:
        if lacking := _lacking(column["type"]):
            raise ColumnsRefusedError(
                f"column {column['name']} is of type {lacking}, which a Delta table does not have; "
                "keep the view as Parquet"
            )
    return json.dumps(_optional(document))


def missing_columns(table: str, wanted: str) -> list[str]:
    """Return the columns that a table lacks, each as JSON.

    Raises ColumnsRefusedError if a column has another type.
    """
    present = {each["name"]: each["type"] for each in json.loads(table)["fields"]}
    missing = []
    for column in json.loads(wanted)["fields"]:
        name = column["name"]
        if name not in present:
            missing.append(json.dumps(column))
        elif _plain(present[name]) != _plain(column["type"]):
            raise ColumnsRefusedError(
                f"column {name} of the table is {_plain(present[name])}, and the view has "
                f"{_plain(column['type'])}; begin in a new PATH"
            )
    return missing


def _lacking(kind: Any) -> str | None:
    if isinstance(kind, str):
        return kind if kind.startswith(_LACKING) else None
    if isinstance(kind, Mapping):
        return next((x for x in map(_lacking, kind.values()) if x), None)
    return next((x for x in map(_lacking, _types(kind)) if x), None)


def _types(kind: Any) -> list[Any]:
    return [each["type"] for each in kind] if isinstance(kind, list) else []


def _optional(document: Any) -> Any:
    if isinstance(document, Mapping):
        return {
            name: True if name in _MAY_BE_NULL else _optional(each)
            for name, each in document.items()
        }
    return [_optional(each) for each in document] if isinstance(document, list) else document


def _plain(kind: Any) -> Any:
    """Return a type without what is said about it."""
    if isinstance(kind, Mapping):
        return {name: _plain(each) for name, each in kind.items() if name != "metadata"}
    return [_plain(each) for each in kind] if isinstance(kind, list) else kind
