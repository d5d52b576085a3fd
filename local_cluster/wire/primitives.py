"""The wire primitives of the codecs by hand: varints, strings, arrays, tagged fields.

Readers take (buffer, position) and return (value, next position). They raise IndexError or
struct.error past the end of the buffer; callers turn that into PeerError.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from local_cluster.wire.errors import PeerError

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
UNSIGNED_VARINT_BYTES_MAX: Final = 5
NO_TAGGED_FIELDS: Final[Mapping[int, memoryview]] = MappingProxyType({})


def read_unsigned_varint(buffer: memoryview | bytes, position: int) -> tuple[int, int]:
    """Read an unsigned LEB128 of at most 32 bits."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    shift = 7
    for index in range(position + 1, position + UNSIGNED_VARINT_BYTES_MAX):
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise PeerError("unsigned varint longer than 5 bytes")


def write_unsigned_varint(value: int) -> bytes:
    """Encode a non-negative integer as LEB128."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


ARRAY_LENGTH_MAX: Final = 1_000_000
"""Elements of an array in a message (Kafka 4.4's MessageUtil.MAX_ARRAY_LENGTH)."""
TAGGED_FIELDS_MAX: Final = 10_000
"""Fields of one section of tagged fields (MessageUtil.MAX_TAGGED_FIELD_COUNT)."""


def skip_tagged_fields(buffer: memoryview, position: int) -> int:
    """Return the position after a section of tagged fields (KIP-482)."""
    if buffer[position] == 0:
        return position + 1
    count, position = read_unsigned_varint(buffer, position)
    if count > min(len(buffer), TAGGED_FIELDS_MAX):
        raise PeerError(f"{count} tagged fields in {len(buffer)} bytes")
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > len(buffer):
            raise PeerError("tagged field runs past the end of the frame")
    return position


def read_tagged_fields(buffer: memoryview, position: int) -> tuple[Mapping[int, memoryview], int]:
    """Return the values of a section of tagged fields by tag, and the position after it."""
    if buffer[position] == 0:
        return NO_TAGGED_FIELDS, position + 1
    end = skip_tagged_fields(buffer, position)
    values: dict[int, memoryview] = {}
    _, position = read_unsigned_varint(buffer, position)
    while position < end:
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        values[tag] = buffer[position : position + size]
        position += size
    return values, end


def read_string(buffer: memoryview, position: int, *, flexible: bool) -> tuple[str | None, int]:
    """Read a nullable string in the compact or the legacy encoding."""
    if flexible:
        length, position = read_unsigned_varint(buffer, position)
        length -= 1
    else:
        (length,) = _INT16.unpack_from(buffer, position)
        position += 2
    if length < 0:
        return None, position
    end = position + length
    if end > len(buffer):
        raise PeerError("string runs past the end of the frame")
    try:
        return str(buffer[position:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise PeerError("string is not UTF-8") from error


def write_string(value: str | None, *, flexible: bool) -> bytes:
    """Encode a nullable string in the compact or the legacy encoding."""
    if value is None:
        return b"\0" if flexible else b"\xff\xff"
    encoded = value.encode()
    if flexible:
        return write_unsigned_varint(len(encoded) + 1) + encoded
    return _INT16.pack(len(encoded)) + encoded


def read_array_length(
    buffer: memoryview, position: int, *, flexible: bool, element_bytes_min: int
) -> tuple[int, int]:
    """Read the length of an array, -1 for null.

    Raises PeerError if it is above ARRAY_LENGTH_MAX, or takes more bytes than are left.
    """
    if flexible:
        length, position = read_unsigned_varint(buffer, position)
        length -= 1
    else:
        (length,) = _INT32.unpack_from(buffer, position)
        position += 4
    if length > ARRAY_LENGTH_MAX or length * element_bytes_min > len(buffer) - position:
        raise PeerError(f"array of {length} in {len(buffer) - position} bytes")
    return length, position


def write_array_length(length: int, *, flexible: bool) -> bytes:
    """Encode the length of a non-null array."""
    return write_unsigned_varint(length + 1) if flexible else _INT32.pack(length)
