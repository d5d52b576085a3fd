"""Reads the fields of a record in order."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from typing import Final

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    NO_TAGGED_FIELDS,
    read_array_length,
    read_string,
    read_tagged_fields,
    read_unsigned_varint,
)

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_UUID_BYTES: Final = 16
_READ_ERRORS: Final = (IndexError, struct.error, PeerError)
"""What the readers of primitives raise for short or invalid bytes."""


class RecordReader:
    """A cursor over the fields of one record. Every method may raise UnreadableRecordError."""

    __slots__ = ("_buffer", "_flexible", "_position")

    def __init__(self, buffer: bytes | memoryview, *, flexible: bool) -> None:
        self._buffer = memoryview(buffer)
        self._position = 0
        self._flexible = flexible

    def int8(self) -> int:
        return self._unpack(_INT8)

    def int16(self) -> int:
        return self._unpack(_INT16)

    def int32(self) -> int:
        return self._unpack(_INT32)

    def int64(self) -> int:
        return self._unpack(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise UnreadableRecordError(f"string at {self._position} is null")
        return text

    def nullable_string(self) -> str | None:
        try:
            text, self._position = read_string(
                self._buffer, self._position, flexible=self._flexible
            )
        except _READ_ERRORS as error:
            raise UnreadableRecordError(f"string at {self._position}: {error}") from error
        return text

    def array_length(self, element_bytes_min: int) -> int:
        try:
            length, self._position = read_array_length(
                self._buffer,
                self._position,
                flexible=self._flexible,
                element_bytes_min=element_bytes_min,
            )
        except _READ_ERRORS as error:
            raise UnreadableRecordError(f"array at {self._position}: {error}") from error
        return max(length, 0)

    def uuid(self) -> uuid.UUID:
        end = self._position + _UUID_BYTES
        if end > len(self._buffer):
            raise UnreadableRecordError(f"uuid at {self._position} is cut off")
        value = uuid.UUID(bytes=bytes(self._buffer[self._position : end]))
        self._position = end
        return value

    def octets(self) -> bytes:
        length = self._varint() - 1 if self._flexible else self.int32()
        end = self._position + length
        if length < 0 or end > len(self._buffer):
            raise UnreadableRecordError(f"invalid length {length} at {self._position}")
        out = bytes(self._buffer[self._position : end])
        self._position = end
        return out

    def nullable_octets(self) -> bytes | None:
        """Return bytes with an int32 as their length, -1 for null; not for flexible formats."""
        start = self._position
        if self.int32() < 0:
            return None
        self._position = start
        return self.octets()

    def tagged_fields(self) -> Mapping[int, memoryview]:
        """Return the tagged fields that end a flexible structure, by tag; others have none."""
        if not self._flexible:
            return NO_TAGGED_FIELDS
        try:
            values, self._position = read_tagged_fields(self._buffer, self._position)
        except _READ_ERRORS as error:
            raise UnreadableRecordError(f"tagged fields at {self._position}: {error}") from error
        return values

    def _varint(self) -> int:
        try:
            value, self._position = read_unsigned_varint(self._buffer, self._position)
        except _READ_ERRORS as error:
            raise UnreadableRecordError(f"varint at {self._position}: {error}") from error
        return value

    def _unpack(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._buffer, self._position)
        except struct.error as error:
            raise UnreadableRecordError(f"integer at {self._position}: {error}") from error
        self._position += layout.size
        number: int = value
        return number
