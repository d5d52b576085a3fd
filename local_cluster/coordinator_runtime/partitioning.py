"""The partition of an internal topic that a key (group, transactional id) belongs to.

It is Java's String.hashCode (over UTF-16 code units, wrapping at 32 bits), its absolute value,
modulo the number of partitions. Every client tool and every Kafka broker computes the same.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Final

_CACHED_KEYS_MAX: Final = 16_384
_INT32_MIN: Final = -(2**31)


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode, a signed 32-bit integer."""
    units = array("H")
    # Java strings may hold lone surrogates, and so may the strings of clients.
    units.frombytes(text.encode("utf-16-le", "surrogatepass"))
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(maxsize=_CACHED_KEYS_MAX)
def partition_of(key: str, partitions: int) -> int:
    """Return the key's partition, as Kafka's Utils.abs(hashCode) % partitions."""
    value = java_string_hash(key)
    # Utils.abs maps the one number without a positive counterpart to 0.
    return 0 if value == _INT32_MIN else abs(value) % partitions
