"""Avro values to objects, a batch in one call.

fastavro takes longer to begin a call than to decode a value. So the values of a batch are decoded
as one Avro array. A random marker after each value proves that it ended where its record does. If
one is not there, the batch is halved until the values that do not decode stand alone.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Sequence
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader
from fastavro.read import SchemaResolutionError

from spark_global.values.formats.avro_schema import AvroSchema
from spark_global.values.not_decodable import NotDecodable

MARKER_BYTES: Final = 8
_ITEM: Final = "heliograph.Item"
_MARKER: Final = "heliograph.Marker"
_END_OF_ARRAY: Final = b"\x00"
_BAD_VALUE_ERRORS: Final = (
    SchemaResolutionError,
    EOFError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What fastavro raises for bytes that are no value of the schema."""


class AvroReader:
    """Decodes values that one schema wrote into objects of another one."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        """Prepare both schemas, as `read_avro_schema` returns them."""
        self._writer = _array_of(writer)
        self._reader = None if writer == reader else _array_of(reader)
        self._marker = os.urandom(MARKER_BYTES)

    def decode(self, values: Sequence[bytes]) -> list[Any]:
        """Return an object per value, or the NotDecodable that says why there is none."""
        try:
            return self._decode_all(values)
        except NotDecodable as error:
            if len(values) == 1:
                return [error]
        half = len(values) // 2
        return self.decode(values[:half]) + self.decode(values[half:])

    def _decode_all(self, values: Sequence[bytes]) -> list[Any]:
        if not values:
            return []
        marker = self._marker
        body = b"".join((_long(len(values)), marker.join(values), marker, _END_OF_ARRAY))
        try:
            items: Any = schemaless_reader(io.BytesIO(body), self._writer, self._reader)
        except _BAD_VALUE_ERRORS as error:
            raise NotDecodable(_reason(error)) from error
        ends = {item["marker"] for item in items}
        if len(items) != len(values) or ends != {marker}:
            raise NotDecodable("the value does not end where its schema says")
        return [item["value"] for item in items]


def _reason(error: BaseException) -> str:
    """Return why a value does not decode, without the value."""
    if isinstance(error, SchemaResolutionError):
        return "the schema that wrote the value does not resolve to the schema of the columns"
    return f"no value of its Avro schema ({type(error).__name__})"


def _array_of(schema: AvroSchema) -> AvroSchema:
    marker = {"type": "fixed", "name": _MARKER, "size": MARKER_BYTES}
    fields = [{"name": "value", "type": schema}, {"name": "marker", "type": marker}]
    return parse_schema(
        {"type": "array", "items": {"type": "record", "name": _ITEM, "fields": fields}}
    )


def _long(number: int) -> bytes:
    """Return a positive number as an Avro long."""
    raw = number << 1
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)
