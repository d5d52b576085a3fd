"""Avro schemas as shapes. Pure.

    record, enum, fixed and bytes, array, map   struct, text, binary, list, map
    ["null", X]                                 X; other unions are refused
    date, timestamp-*, local-timestamp-*        date and timestamps
    decimal                                     decimal
    time-*, uuid, duration                      the type that they annotate

Source: the Avro specification, 1.12.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from spark_global.values.formats.shapes import Mapped, Repeated, Scalar, Shape, Struct
from spark_global.values.not_decodable import UnusableSchema

AvroSchema = Any
"""A schema as `json.loads` returns it."""

_DECIMAL_DIGITS_MAX: Final = 38
_NO_SCHEMA_ERRORS: Final = (
    SchemaParseException,
    UnknownType,
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What fastavro raises for a text that is no schema."""
_LOGICAL: Final = "logicalType"
_TEXT: Final = Scalar(pa.string(), frozenset({str}))
_BINARY: Final = Scalar(pa.binary(), frozenset({bytes}))
_SCALARS: Final[Mapping[str, Scalar]] = {
    "boolean": Scalar(pa.bool_(), frozenset({bool})),
    "int": Scalar(pa.int32(), frozenset({int})),
    "long": Scalar(pa.int64(), frozenset({int})),
    "float": Scalar(pa.float32(), frozenset({int, float})),
    "double": Scalar(pa.float64(), frozenset({int, float})),
    "bytes": _BINARY,
    "string": _TEXT,
}


def _instant(unit: str, zone: str | None) -> Scalar:
    column = pa.timestamp("us", tz=zone)
    return Scalar(column, frozenset({int}), built_as=pa.timestamp(unit, tz=zone))


_LOGICAL_TYPES: Final[Mapping[str, Scalar]] = {
    "date": Scalar(pa.date32(), frozenset({int, datetime.date})),
    **{
        f"{prefix}timestamp-{name}": _instant(unit, zone)
        for prefix, zone in (("", "UTC"), ("local-", None))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
"""They are decoded as numbers, and become times a column at once."""


def read_avro_schema(texts: tuple[str, ...]) -> AvroSchema:
    """Return a schema as fastavro wants it; `texts` has the schemas it refers to, then itself.

    Raises UnusableSchema.
    """
    named: dict[str, Any] = {}
    parsed: AvroSchema = None
    try:
        for text in texts:
            parsed = parse_schema(_as_numbers(json.loads(text)), named_schemas=named)
    except _NO_SCHEMA_ERRORS as error:
        raise UnusableSchema(f"no Avro schema: {type(error).__name__}: {error}") from error
    return parsed


def avro_shape(text: str) -> Shape:
    """Return the shape of a schema. Raises UnusableSchema."""
    read_avro_schema((text,))
    return _Shapes().shape(json.loads(text), "", None)


def _as_numbers(schema: AvroSchema) -> AvroSchema:
    """Return the schema with times and dates as the numbers that they annotate."""
    if isinstance(schema, list):
        return [_as_numbers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _as_numbers(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
        if name != _LOGICAL or value == "decimal"
    }


class _Shapes:
    """The shapes of one schema, whose named types may be used again."""

    def __init__(self) -> None:
        self._named: dict[str, Shape | None] = {}
        """None while the type is being read: it would contain itself."""

    def shape(self, schema: AvroSchema, where: str, namespace: str | None) -> Shape:
        if isinstance(schema, list):
            return self._union(schema, where, namespace)
        if isinstance(schema, str):
            return self._by_name(schema, where, namespace)
        kind, logical = schema["type"], schema.get(_LOGICAL)
        if logical in _LOGICAL_TYPES and kind in ("int", "long"):
            return _LOGICAL_TYPES[logical]
        match kind:
            case "array":
                return Repeated(self.shape(schema["items"], f"{where}[]", namespace))
            case "map":
                return Mapped(_TEXT, self.shape(schema["values"], f"{where}{{}}", namespace))
            case "record" | "error":
                return self._define(schema, where, namespace, self._record)
            case "enum":
                return self._define(schema, where, namespace, lambda *_: _TEXT)
            case "fixed":
                plain = _decimal(schema, where) or _BINARY
                return self._define(schema, where, namespace, lambda *_: plain)
            case "bytes":
                return _decimal(schema, where) or _BINARY
        return self.shape(kind, where, namespace)

    def _union(self, schemas: list[AvroSchema], where: str, namespace: str | None) -> Shape:
        others = [each for each in schemas if each != "null"]
        if len(others) != 1:
            raise UnusableSchema(
                f"field {where}: a union of several types; leave the field out of the schema file"
            )
        return self.shape(others[0], where, namespace)

    def _by_name(self, name: str, where: str, namespace: str | None) -> Shape:
        if name in _SCALARS:
            return _SCALARS[name]
        if name == "null":
            raise UnusableSchema(f"field {where}: type null has no column")
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self._named else name
        found = self._named.get(full)
        if found is None:
            raise UnusableSchema(f"field {where}: type {name} contains itself, or is not here")
        return found

    def _define(
        self,
        schema: Mapping[str, Any],
        where: str,
        namespace: str | None,
        read: Callable[[Mapping[str, Any], str, str | None], Shape],
    ) -> Shape:
        name = schema["name"]
        own: str | None = schema.get("namespace", namespace)
        if "." in name:
            own, name = name.rsplit(".", 1)
        full = f"{own}.{name}" if own else name
        self._named[full] = None
        found = read(schema, where, own)
        self._named[full] = found
        return found

    def _record(self, schema: Mapping[str, Any], where: str, namespace: str | None) -> Shape:
        fields = {
            each["name"]: self.shape(each["type"], f"{where}.{each['name']}".lstrip("."), namespace)
            for each in schema["fields"]
        }
        if not fields:
            raise UnusableSchema(f"record {schema['name']} has no fields")
        return Struct(fields)


def _decimal(schema: Mapping[str, Any], where: str) -> Scalar | None:
    if schema.get(_LOGICAL) != "decimal":
        return None
    if not isinstance(schema.get("precision"), int):
        raise UnusableSchema(f"field {where}: a decimal without precision")
    if schema["precision"] > _DECIMAL_DIGITS_MAX:
        raise UnusableSchema(f"field {where}: a decimal of more than {_DECIMAL_DIGITS_MAX} digits")
    column = pa.decimal128(schema["precision"], schema.get("scale", 0))
    return Scalar(column, frozenset({decimal.Decimal}))
