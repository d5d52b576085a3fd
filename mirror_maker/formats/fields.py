"""The fields of records in the mirror's own topics, to and from bytes or JSON.

Numbers are big-endian. A varint is unsigned LEB128 of at most 63 bits. A string is a varint of its
UTF-8 length followed by the bytes. A uuid is 16 bytes.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any, Final

from local_cluster.foreign_json import INT64_MAX, INT64_MIN, integer, parse_object

VARINT_BYTES_MAX: Final = 10

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")


class MapFormatError(ValueError):
    """The bytes are not a record of this format, or are of a newer version than this reader."""


def check_range(start: int, end: int | None) -> None:
    """Refuse offsets [start, end) that run backwards or are none. None is an unknown end."""
    if start < 0 or (end is not None and not start <= end <= INT64_MAX):
        raise MapFormatError(f"no range of offsets: {start} to {end}")


def versioned_object(data: bytes, what: str, known: int) -> dict[str, Any]:
    """Parse a JSON object whose `version` this reader knows. Raises ValueError, KeyError."""
    found = parse_object(data)
    version = integer(found["version"])
    if version != known:
        raise MapFormatError(f"{what} version {version}; this reader knows {known}")
    return found


def optional_integer(value: Any, minimum: int = INT64_MIN) -> int | None:
    """Return an integer of a JSON document, or None for null. Raises ValueError."""
    return None if value is None else integer(value, minimum)


def put_varint(out: bytearray, value: int) -> None:
    assert value >= 0, value
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_string(out: bytearray, value: str) -> None:
    encoded = value.encode()
    put_varint(out, len(encoded))
    out += encoded


class Cursor:
    """Reads fields from the front of some bytes; MapFormatError if they end too soon."""

    __slots__ = ("_bytes", "_position")

    def __init__(self, data: bytes) -> None:
        self._bytes = data
        self._position = 0

    def take(self, count: int) -> bytes:
        start, end = self._position, self._position + count
        if end > len(self._bytes):
            raise MapFormatError(f"{count} bytes at {start} exceed the {len(self._bytes)} bytes")
        self._position = end
        return self._bytes[start:end]

    def version(self, known: int) -> None:
        found = self.byte()
        if found != known:
            raise MapFormatError(f"format version {found}, this reader knows {known}")

    def byte(self) -> int:
        return self.take(1)[0]

    def int16(self) -> int:
        value: int = INT16.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = INT32.unpack(self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = INT64.unpack(self.take(8))[0]
        return value

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.take(16))

    def varint(self) -> int:
        value = 0
        for index in range(VARINT_BYTES_MAX):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value > 0x7FFF_FFFF_FFFF_FFFF:
                    raise MapFormatError("varint beyond 63 bits")
                return value
        raise MapFormatError(f"varint longer than {VARINT_BYTES_MAX} bytes")

    def string(self) -> str:
        try:
            return self.take(self.varint()).decode()
        except UnicodeDecodeError as error:
            raise MapFormatError("string is not UTF-8") from error

    def flag(self) -> bool:
        """Return a byte that is 0 or 1."""
        value = self.byte()
        if value > 1:
            raise MapFormatError(f"the flag is {value}")
        return bool(value)

    def flag_at_end(self) -> bool:
        """Return whether one more byte with the value 1 follows."""
        if self._position == len(self._bytes):
            return False
        if self.byte() != 1:
            raise MapFormatError("the flag is not 1")
        return True

    def finish(self) -> None:
        if self._position != len(self._bytes):
            raise MapFormatError(f"{len(self._bytes) - self._position} trailing bytes")
