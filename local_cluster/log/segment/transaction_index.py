"""The aborted transactions of one segment: `.txnindex`, in Kafka's format.

34 bytes per entry, big-endian, in the order of the abort markers:

    version int16 = 0, producer_id int64, first_offset int64, last_offset int64,
    last_stable_offset int64

`last_offset` is the abort marker's; `last_stable_offset` is what it was once the marker was
written, so a reader below it need not look at later markers. A segment without aborted
transactions has no file. Source: Kafka's AbortedTxn and TransactionIndex.

Entries are kept in memory and written as a whole when the segment rolls or closes; after a crash
they are rebuilt from the batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0

ENTRY_BYTES: Final = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One aborted transaction of one producer in one partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndexCorruptError(ValueError):
    """A `.txnindex` that is not in its format; it is rebuilt from the batches."""


def encode_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The content of the file."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_index(content: bytes) -> list[AbortedTransaction]:
    """The entries of a file. Raises TransactionIndexCorruptError."""
    if len(content) % ENTRY_BYTES:
        raise TransactionIndexCorruptError(f"{len(content)} bytes are no whole entries")
    entries: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(content):
        entry = AbortedTransaction._make(fields)
        if version != _VERSION or not 0 <= entry.first_offset <= entry.last_offset:
            raise TransactionIndexCorruptError(f"entry of version {version}: {entry}")
        if entries and entry.last_offset <= entries[-1].last_offset:
            raise TransactionIndexCorruptError(f"{entry} follows {entries[-1]}")
        entries.append(entry)
    return entries


def collect_aborted(
    indexes: Iterable[Sequence[AbortedTransaction]], offset: int, next_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions that touch offsets from `offset` up to below `next_offset`.

    `indexes` are those of the segment of `offset` and all later ones, as markers may come late.
    Ordered by first offset, which is what consumers count on.
    """
    found = []
    for entries in indexes:
        for entry in entries:
            if entry.last_offset >= offset and entry.first_offset < next_offset:
                found.append(entry)
            if entry.last_stable_offset >= next_offset:
                found.sort(key=lambda entry: entry.first_offset)
                return found
    found.sort(key=lambda entry: entry.first_offset)
    return found
