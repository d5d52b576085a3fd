"""The sparse indexes of one segment, in Kafka's formats.

    .index      8-byte entries: relative offset int32, position int32. The offset is the LAST one
                of the batch at the position, so a lookup never lands behind what it looks for.
    .timeindex  12-byte entries: timestamp int64, relative offset int32. Both strictly grow.

The active segment keeps its entries in arrays and writes them when it rolls or closes. Entries that
a crash loses are rebuilt from the batches, which recovery reads anyway. A closed segment keeps
nothing in memory: a lookup opens the file and does a binary search with preads.

Unlike in Kafka, files are not preallocated: their size is always the size of their entries.
"""

from __future__ import annotations

import errno
import struct
from array import array
from bisect import bisect_right
from typing import Final

from local_cluster.log.disk.files import Files, LogFile

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1

_OFFSET_ENTRY: Final = struct.Struct(">II")
_TIME_ENTRY: Final = struct.Struct(">qI")


class IndexCorruptError(ValueError):
    """An index file that is not valid; it must be rebuilt from its segment."""


class _IndexFile:
    """The file of an index: how much of it is written, and which entries are not yet."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._pending = bytearray()
        self._written_bytes = 0
        self._is_ragged = False
        """Whether the file may hold a part of a failed write."""

    def write_out(self) -> None:
        """Write the pending entries. Raises OSError; the next call repeats the same write."""
        if not self._pending:
            return
        file = self._files.open(self.path, create=True)
        if self._is_ragged:
            file.truncate(self._written_bytes)
        self._is_ragged = True
        # A copy: an error that is being handled may keep the buffer that failed, and a bytearray
        # of which somebody holds a view cannot grow.
        content = bytes(self._pending)
        if file.write(content) != len(content):
            raise OSError(errno.ENOSPC, "short write", self.path)
        self._is_ragged = False
        self._written_bytes += len(content)
        self._pending.clear()

    def rewrite(self, content: bytes | bytearray) -> None:
        """Empty the file and make `content` pending. Raises OSError."""
        self._files.open(self.path, create=True).truncate(0)
        self._written_bytes = 0
        self._pending = bytearray(content)


class OffsetIndex(_IndexFile):
    """Offset -> position, with about one entry every index.interval.bytes."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path)
        self._base_offset = base_offset
        self._offsets: array[int] | None = None
        self._positions: array[int] = array("I")
        self._closed_count = 0

    def start_empty(self) -> None:
        """Start over as the index of an active segment. Raises OSError."""
        self._offsets, self._positions = array("I"), array("I")
        self.rewrite(b"")

    def load(self, segment_bytes: int, *, appendable: bool) -> None:
        """Read the file. Raises IndexCorruptError where it is not valid, OSError."""
        content = self._files.read_bytes(self.path)
        count, rest = divmod(len(content), OFFSET_ENTRY_BYTES)
        if rest:
            raise IndexCorruptError(f"{self.path}: size {len(content)}")
        if count:
            _, position = _OFFSET_ENTRY.unpack_from(content, (count - 1) * OFFSET_ENTRY_BYTES)
            if position == 0 or position >= segment_bytes:
                raise IndexCorruptError(f"{self.path}: last position {position}")
        self._written_bytes = len(content)
        self._closed_count = count
        if appendable:
            entries = array("I")
            entries.frombytes(content)
            entries.byteswap()
            self._offsets, self._positions = entries[0::2], entries[1::2]

    @property
    def entries_count(self) -> int:
        return self._closed_count if self._offsets is None else len(self._offsets)

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the last offset of the batch at `position`."""
        assert self._offsets is not None, "closed index"
        relative = offset - self._base_offset
        self._offsets.append(relative)
        self._positions.append(position)
        self._pending += _OFFSET_ENTRY.pack(relative, position)

    def close_for_appends(self) -> None:
        """Free the memory of the entries; `write_out` came before."""
        assert not self._pending, "entries would be lost"
        self._closed_count = self.entries_count
        self._offsets = None
        self._positions = array("I")

    def lookup(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`."""
        relative = offset - self._base_offset
        if self._offsets is not None:
            index = bisect_right(self._offsets, relative) - 1
            return self._positions[index] if index >= 0 else 0
        return self._search_closed(relative, 0)[1]

    def lookup_position(self, position: int) -> int:
        """Return the position of the last entry at or before `position`."""
        if self._offsets is not None:
            index = bisect_right(self._positions, position) - 1
            return self._positions[index] if index >= 0 else 0
        return self._search_closed(position, 1)[1]

    def truncate_positions(self, position: int) -> None:
        """Keep the entries of batches before `position`; the index can then be appended to."""
        offsets, positions = self._arrays_before(position)
        content = array("I", bytes(OFFSET_ENTRY_BYTES * len(offsets)))
        content[0::2], content[1::2] = offsets, positions
        content.byteswap()
        self.rewrite(content.tobytes())
        self._offsets, self._positions = offsets, positions

    def _arrays_before(self, position: int) -> tuple[array[int], array[int]]:
        if self._offsets is None:
            entries = array("I")
            entries.frombytes(self._files.read_bytes(self.path))
            entries.byteswap()
            offsets, positions = entries[0::2], entries[1::2]
        else:
            offsets, positions = self._offsets, self._positions
        count = bisect_right(positions, position - 1)
        return offsets[:count], positions[:count]

    def _search_closed(self, wanted: int, column: int) -> tuple[int, int]:
        if not self._closed_count:
            return 0, 0
        file = self._files.open(self.path)
        low, high = 0, self._closed_count
        best = (0, 0)
        while low < high:
            middle = (low + high) // 2
            entry = _OFFSET_ENTRY.unpack(
                file.pread(OFFSET_ENTRY_BYTES, middle * OFFSET_ENTRY_BYTES)
            )
            if entry[column] <= wanted:
                best, low = entry, middle + 1
            else:
                high = middle
        return best


class TimeIndex(_IndexFile):
    """Timestamp -> last offset of the batch that brought the largest timestamp so far."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path)
        self._base_offset = base_offset
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array("I")
        self._closed_count = 0

    def start_empty(self) -> None:
        """Start over as the index of an active segment. Raises OSError."""
        self._timestamps, self._offsets = array("q"), array("I")
        self.rewrite(b"")

    def load(self, *, appendable: bool) -> None:
        """Read the file. Raises IndexCorruptError where it is not valid, OSError."""
        content = self._files.read_bytes(self.path)
        count, rest = divmod(len(content), TIME_ENTRY_BYTES)
        if rest:
            raise IndexCorruptError(f"{self.path}: size {len(content)}")
        if count > 1:
            first, last = (
                _TIME_ENTRY.unpack_from(content, index * TIME_ENTRY_BYTES)
                for index in (0, count - 1)
            )
            if last <= first:
                raise IndexCorruptError(f"{self.path}: last entry {last} after {first}")
        self._written_bytes = len(content)
        self._closed_count = count
        if appendable:
            self._set_arrays(content)

    def _set_arrays(self, content: bytes) -> None:
        entries = list(_TIME_ENTRY.iter_unpack(content))
        self._timestamps = array("q", [timestamp for timestamp, _ in entries])
        self._offsets = array("I", [relative for _, relative in entries])

    @property
    def entries_count(self) -> int:
        return self._closed_count if self._timestamps is None else len(self._timestamps)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry unless the last one has this timestamp or a later one."""
        assert self._timestamps is not None, "closed index"
        if timestamp_ms > (self._timestamps[-1] if self._timestamps else -1):
            relative = offset - self._base_offset
            self._timestamps.append(timestamp_ms)
            self._offsets.append(relative)
            self._pending += _TIME_ENTRY.pack(timestamp_ms, relative)

    def close_for_appends(self) -> None:
        """Free the memory of the entries; `write_out` came before."""
        assert not self._pending, "entries would be lost"
        self._closed_count = self.entries_count
        self._timestamps, self._offsets = None, array("I")

    def last_entry(self) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the last entry; None if there is none."""
        if self._timestamps is not None:
            if not self._timestamps:
                return None
            return self._timestamps[-1], self._base_offset + self._offsets[-1]
        if not self._closed_count:
            return None
        entry = self._read_closed(self._files.open(self.path), self._closed_count - 1)
        return entry[0], self._base_offset + entry[1]

    def lookup(self, timestamp_ms: int) -> int:
        """Return an offset at or before the first batch with a record at `timestamp_ms` or later.

        It is the offset of the last entry before the timestamp: everything up to its batch is
        older.
        """
        if self._timestamps is not None:
            index = bisect_right(self._timestamps, timestamp_ms - 1) - 1
            return self._base_offset + (self._offsets[index] if index >= 0 else 0)
        low, high, best = 0, self._closed_count, 0
        file = self._files.open(self.path) if high else None
        while low < high and file is not None:
            middle = (low + high) // 2
            entry = self._read_closed(file, middle)
            if entry[0] < timestamp_ms:
                best, low = entry[1], middle + 1
            else:
                high = middle
        return self._base_offset + best

    def truncate_to(self, offset: int) -> None:
        """Keep the entries of batches before `offset`; the index can then be appended to."""
        if self._timestamps is None:
            self._set_arrays(self._files.read_bytes(self.path))
        assert self._timestamps is not None
        count = bisect_right(self._offsets, offset - self._base_offset - 1)
        entries = zip(self._timestamps[:count], self._offsets[:count], strict=True)
        content = b"".join(_TIME_ENTRY.pack(*entry) for entry in entries)
        self.rewrite(content)
        self._set_arrays(content)

    @staticmethod
    def _read_closed(file: LogFile, index: int) -> tuple[int, int]:
        timestamp_ms, relative = _TIME_ENTRY.unpack(
            file.pread(TIME_ENTRY_BYTES, index * TIME_ENTRY_BYTES)
        )
        return timestamp_ms, relative
