"""A map from keys to the last offset of each key, in a fixed number of bytes. Pure.

As Kafka's SkimpyOffsetMap: open addressing over 24-byte slots, each a 16-byte hash of the key and
an offset. Two keys with one hash would lose a record. With 128 bits of BLAKE2b nobody can find such
keys, not even on purpose (Kafka's default is MD5).
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final

SLOT_BYTES: Final = 24
HASH_BYTES: Final = 16
LOAD_FACTOR: Final = 0.9
"""Default of log.cleaner.io.buffer.load.factor: beyond it a lookup takes too many steps."""
SLOTS_MIN: Final = 7

_SLOT: Final = struct.Struct(">16sq")
_HASH: Final = struct.Struct(">QQ")
_OFFSET: Final = struct.Struct(">q")
_EMPTY: Final = bytes(HASH_BYTES)


class KeyOffsetMap:
    """Key -> last offset. No new key fits once `is_full` is true."""

    def __init__(self, bytes_max: int, keys_max: int, load_factor: float = LOAD_FACTOR) -> None:
        """Make room for `keys_max` keys, or for as many as fit in `bytes_max`."""
        wanted = int(keys_max / load_factor) + 1
        # A prime, so that every step visits every slot.
        self._slots = _prime_at_most(max(SLOTS_MIN, min(bytes_max // SLOT_BYTES, wanted * 2)))
        self._capacity = max(1, int(self._slots * load_factor))
        self._table = bytearray(self._slots * SLOT_BYTES)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        return len(self._table)

    @property
    def is_full(self) -> bool:
        return self._count >= self._capacity

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a key; return false, and note nothing, if a new key has no room."""
        digest, position, is_there = self._find(key)
        if not is_there:
            if self._count >= self._capacity:
                return False
            self._count += 1
        _SLOT.pack_into(self._table, position, digest, offset)
        return True

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, -1 for an unknown key."""
        _, position, is_there = self._find(key)
        if not is_there:
            return -1
        offset: int = _OFFSET.unpack_from(self._table, position + HASH_BYTES)[0]
        return offset

    def _find(self, key: bytes) -> tuple[bytes, int, bool]:
        """Return (hash, position of the key's slot or of a free one, whether the key is there)."""
        digest = blake2b(key, digest_size=HASH_BYTES).digest()
        if digest == _EMPTY:
            digest = b"\xff" * HASH_BYTES
        table, slots = self._table, self._slots
        first, second = _HASH.unpack(digest)
        slot = first % slots
        step = 1 + second % (slots - 1)
        while True:
            position = slot * SLOT_BYTES
            found = table[position : position + HASH_BYTES]
            if found == digest:
                return digest, position, True
            if found == _EMPTY:
                return digest, position, False
            slot = (slot + step) % slots


def _prime_at_most(number: int) -> int:
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
