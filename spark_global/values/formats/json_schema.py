"""JSON Schema as shapes. Pure.

    {"type": "object", "properties": {..}}            struct
    {"type": "object", "additionalProperties": {..}}  map, if there are no properties
    {"type": "array", "items": {..}}                  list
    {"type": "string" | "integer" | "number" | "boolean"}
    {}                                                the JSON text of whatever is there

`["string", "null"]` and `anyOf` with null are the type itself, because every column may be null.
Keywords that only restrict values, such as `required` and `format`, are not checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa

from spark_global.values.formats.shapes import Mapped, Repeated, Scalar, Shape, Struct
from spark_global.values.not_decodable import UnusableSchema

TYPE: Final = "type"
NULL: Final = "null"
OBJECT: Final = "object"
ARRAY: Final = "array"
PROPERTIES: Final = "properties"
ITEMS: Final = "items"
DEPTH_MAX: Final = 30
_ADDITIONAL: Final = "additionalProperties"


def _whole(value: Any) -> Any:
    """Return 1 for 1.0, which is an integer in JSON Schema."""
    return int(value) if type(value) is float and value.is_integer() else value


TEXT: Final = Scalar(pa.string(), frozenset({str}))
_SCALARS: Final[Mapping[str, Scalar]] = {
    "string": TEXT,
    "integer": Scalar(pa.int64(), frozenset({int}), coerce=_whole),
    "number": Scalar(pa.float64(), frozenset({int, float})),
    "boolean": Scalar(pa.bool_(), frozenset({bool})),
}


@dataclass(frozen=True, slots=True)
class JsonText:
    """Anything, as its JSON text."""

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def build(self, values: Sequence[Any]) -> pa.Array:
        texts = [None if value is None else orjson.dumps(value).decode() for value in values]
        return pa.array(texts, type=pa.string())


def json_shape(text: bytes) -> Shape:
    """Return the shape of a JSON Schema. Raises UnusableSchema."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise UnusableSchema(f"no JSON: {error}") from error
    return _shape(schema, "", 0)


def _shape(schema: object, where: str, depth: int) -> Shape:
    if schema is True or schema == {}:
        return JsonText()
    if not isinstance(schema, dict):
        raise _unusable(where, "expected a JSON Schema")
    if depth > DEPTH_MAX:
        raise _unusable(where, f"nested deeper than {DEPTH_MAX}")
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _shape(_only(schema[union], where), where, depth + 1)
    kind = schema.get(TYPE)
    if isinstance(kind, list):
        kinds = [each for each in kind if each != NULL]
        if len(kinds) != 1:
            raise _unusable(where, "several types; {} keeps the JSON text")
        kind = kinds[0]
    if isinstance(kind, str) and kind in _SCALARS:
        return _SCALARS[kind]
    if kind == ARRAY:
        return Repeated(_shape(schema.get(ITEMS, {}), f"{where}[]", depth + 1))
    if kind == OBJECT or PROPERTIES in schema:
        return _object(schema, where, depth)
    if kind is None and not {"$ref", "allOf", "enum", "const"} & schema.keys():
        return JsonText()
    raise _unusable(where, "expected a `type`: object, array, string, integer, number or boolean")


def _object(schema: Mapping[str, Any], where: str, depth: int) -> Shape:
    properties = schema.get(PROPERTIES, {})
    if not isinstance(properties, dict):
        raise _unusable(where, "`properties` is no object")
    if properties:
        inside = {
            name: _shape(each, f"{where}.{name}".lstrip("."), depth + 1)
            for name, each in properties.items()
        }
        return Struct(inside)
    additional = schema.get(_ADDITIONAL)
    if isinstance(additional, dict):
        return Mapped(TEXT, _shape(additional, f"{where}{{}}", depth + 1))
    return JsonText()


def _only(schemas: object, where: str) -> object:
    """Return the only alternative that is not null."""
    if isinstance(schemas, list):
        kinds = [each for each in schemas if each != {TYPE: NULL}]
        if len(kinds) == 1:
            return kinds[0]
    raise _unusable(where, "several alternatives; {} keeps the JSON text")


def _unusable(where: str, why: str) -> UnusableSchema:
    return UnusableSchema(f"field {where}: {why}" if where else why)
