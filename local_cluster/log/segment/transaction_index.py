"""The aborted transactions of one segment: `.txnindex`, in Kafka's format.

34 bytes per entry, big-endian, in the order of the abort markers:

    version int16 = 0, producer_id int64, first_offset int64, last_offset int64,
    last_stable_offset int64

`last_offset` is the offset of the abort marker. `last_stable_offset` is the value right after the
marker was written: a reader below it need not look at later markers. A segment without aborted
transactions has no file. Source: Kafka's AbortedTxn and TransactionIndex.

Entries are kept in memory and written as a whole when the segment rolls or closes. After a crash
they are rebuilt from the batches.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from local_cluster.log.disk.files import Files

log = logging.getLogger(__name__)

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


class TransactionIndex:
    """The entries of one segment and their file."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.entries: list[AbortedTransaction] = []
        """Aborted transactions whose markers are in the segment, in the order of the markers."""
        self.needs_rebuild = False
        """Whether the batches must be read for the entries: after a crash, or a corrupt file."""

    def load(self) -> None:
        """Read the file if there is one. A corrupt file sets `needs_rebuild`. Raises OSError."""
        if not self._files.exists(self.path):
            return
        try:
            self.entries = decode_index(self._files.read_bytes(self.path))
        except TransactionIndexCorruptError as error:
            log.warning("%s is rebuilt: %s", self.path, error)
            self.needs_rebuild = True

    def write_out(self) -> list[str]:
        """Write the file where it has entries or exists; return its path. Raises OSError."""
        if not self.entries and not self._files.exists(self.path):
            return []
        self._files.replace(self.path, encode_index(self.entries), durable=False)
        return [self.path]

    def forget_all(self) -> None:
        """Drop the entries; the caller rebuilds them."""
        self.entries = []
        self.needs_rebuild = True

    def truncate_to(self, offset: int) -> None:
        """Keep the entries whose marker lies before `offset`."""
        self.entries = [entry for entry in self.entries if entry.last_offset < offset]


def encode_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of the file."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def iter_entries(content: bytes) -> Iterator[tuple[int, AbortedTransaction]]:
    """Yield (version, entry) of every whole entry of a file, unchecked."""
    for version, *fields in _ENTRY.iter_unpack(
        content[: len(content) - len(content) % ENTRY_BYTES]
    ):
        yield version, AbortedTransaction._make(fields)


def decode_index(content: bytes) -> list[AbortedTransaction]:
    """Return the entries of a file. Raises TransactionIndexCorruptError."""
    if len(content) % ENTRY_BYTES:
        raise TransactionIndexCorruptError(f"{len(content)} bytes are no whole entries")
    entries: list[AbortedTransaction] = []
    for version, entry in iter_entries(content):
        if version != _VERSION or not 0 <= entry.first_offset <= entry.last_offset:
            raise TransactionIndexCorruptError(f"entry of version {version}: {entry}")
        if entries and entry.last_offset <= entries[-1].last_offset:
            raise TransactionIndexCorruptError(f"{entry} follows {entries[-1]}")
        entries.append(entry)
    return entries


def collect_aborted(
    indexes: Iterable[Sequence[AbortedTransaction]], offset: int, next_offset: int
) -> list[AbortedTransaction]:
    """Return the aborted transactions with offsets from `offset` to below `next_offset`.

    `indexes` are those of the segment of `offset` and of all later ones: markers may come late.
    Ordered by first offset, as consumers require.
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
