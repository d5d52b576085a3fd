"""Decodes what a member of a classic consumer group was assigned. Pure.

The bytes are Kafka's ConsumerProtocolAssignment: a version, then topics with partitions. Every
version begins in the same way.
"""

from __future__ import annotations

import struct
from typing import Final

_VERSION: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">h")


def decode_assignment(data: bytes) -> list[tuple[str, int]] | None:
    """Return (topic, partition) pairs; None for bytes of another protocol, as of Kafka Connect."""
    if not data:
        return []
    try:
        position = _VERSION.size
        (topics,) = _COUNT.unpack_from(data, position)
        position += _COUNT.size
        found = []
        for _ in range(topics):
            (length,) = _LENGTH.unpack_from(data, position)
            position += _LENGTH.size
            topic = data[position : position + length].decode()
            position += length
            (count,) = _COUNT.unpack_from(data, position)
            position += _COUNT.size
            partitions = struct.unpack_from(f">{count}i", data, position)
            position += 4 * count
            found += [(topic, each) for each in partitions]
    except (struct.error, UnicodeDecodeError):
        return None
    return sorted(found)
