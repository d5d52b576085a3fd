"""A JSON Schema from sample values. Pure.

The result is the same for any order of the samples. A field of several types gets `{}`, which keeps
its JSON text; whole numbers beside others are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final

from spark_global.values.formats.json_schema import ARRAY, ITEMS, NULL, OBJECT, PROPERTIES, TYPE

FIELDS_MAX: Final = 1_000
"""Most fields of an object. One with more is kept as JSON text, because its keys are data."""
_KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    NoneType: NULL,
}

Schema = dict[str, Any]


def infer_schema(values: Iterable[object]) -> Schema:
    """Return the schema of all values; `{}` if they have nothing in common."""
    merged: Schema = {TYPE: NULL}
    for value in values:
        merged = _merge(merged, _schema_of(value))
    return _finish(merged)


def _schema_of(value: object) -> Schema:
    match value:
        case dict() if len(value) > FIELDS_MAX:
            return {}
        case dict():
            return {
                TYPE: OBJECT,
                PROPERTIES: {name: _schema_of(each) for name, each in value.items()},
            }
        case list():
            items: Schema = {TYPE: NULL}
            for each in value:
                items = _merge(items, _schema_of(each))
            return {TYPE: ARRAY, ITEMS: items}
        case _:
            return {TYPE: _KINDS[type(value)]}


def _merge(one: Schema, other: Schema) -> Schema:
    if not one or not other:
        return {}
    kinds = {one[TYPE], other[TYPE]}
    if NULL in kinds:
        return other if one[TYPE] == NULL else one
    if kinds == {"integer", "number"}:
        return {TYPE: "number"}
    if len(kinds) > 1:
        return {}
    if kinds == {OBJECT}:
        mine, theirs = one[PROPERTIES], other[PROPERTIES]
        if not mine or not theirs:
            return other if not mine else one
        unknown: Schema = {TYPE: NULL}
        names = sorted({*mine, *theirs})
        if len(names) > FIELDS_MAX:
            return {}
        return {
            TYPE: OBJECT,
            PROPERTIES: {
                name: _merge(mine.get(name, unknown), theirs.get(name, unknown)) for name in names
            },
        }
    if kinds == {ARRAY}:
        return {TYPE: ARRAY, ITEMS: _merge(one[ITEMS], other[ITEMS])}
    return one


def _finish(schema: Schema) -> Schema:
    """Return the schema without types that are only known to be null."""
    match schema.get(TYPE):
        case "array":
            return {TYPE: ARRAY, ITEMS: _finish(schema[ITEMS])}
        case "object" if schema[PROPERTIES]:
            properties = {name: _finish(each) for name, each in sorted(schema[PROPERTIES].items())}
            return {TYPE: OBJECT, PROPERTIES: properties}
        case "string" | "integer" | "number" | "boolean":
            return schema
    return {}
