"""The header that serializers of schema registries write before a value. Pure.

    byte 0     magic byte, 0
    bytes 1-4  schema id, big-endian
    Protobuf   the indexes of the message type in its file: a zigzag varint with their number, then
               each of them; a single 0 is short for the first message of the file

Source: Confluent's "Wire format" in the documentation of its schema registry.
"""

from __future__ import annotations

from typing import Final

from spark_global.values.not_decodable import NotDecodable

MAGIC_BYTE: Final = 0
HEADER_BYTES: Final = 5
NESTING_MAX: Final = 64
"""Most indexes of a message type."""
_VARINT_BITS_MAX: Final = 63


def read_schema_id(value: bytes) -> int:
    """Return the schema id. Raises NotDecodable if there is no header."""
    if len(value) < HEADER_BYTES:
        raise NotDecodable(f"{len(value)} bytes, too few for a schema id")
    if value[0] != MAGIC_BYTE:
        raise NotDecodable(f"magic byte {value[0]}, expected {MAGIC_BYTE} and a schema id")
    return int.from_bytes(value[1:HEADER_BYTES], "big")


def read_message_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the message type, and where the message begins.

    Raises NotDecodable.
    """
    count, position = _zigzag(value, HEADER_BYTES)
    if not 0 <= count <= NESTING_MAX:
        raise NotDecodable(f"{count} message indexes, expected at most {NESTING_MAX}")
    if count == 0:
        return (0,), position
    indexes = []
    for _ in range(count):
        index, position = _zigzag(value, position)
        if index < 0:
            raise NotDecodable(f"message index {index} is negative")
        indexes.append(index)
    return tuple(indexes), position


def _zigzag(value: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        if position >= len(value) or shift > _VARINT_BITS_MAX:
            raise NotDecodable("the message indexes are cut off")
        byte = value[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
