"""One segment of a partition log: its `.log` file, the two sparse indexes, and `.txnindex`.

Offsets inside lie in [base_offset, base_offset + 2**31). The segment knows nothing of epochs,
producers or retention. An append is one write call; if it fails or is short, the file is cut back
to what it was, and nothing in memory has changed.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.log.disk.files import Files, LogFile
from local_cluster.log.disk.open_files import OPEN_FILES
from local_cluster.log.segment.index import (
    OFFSET_ENTRY_BYTES,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY_BYTES,
    IndexCorruptError,
    OffsetIndex,
    TimeIndex,
)
from local_cluster.log.segment.scan import (
    CheckedScan,
    Found,
    ValidPrefix,
    find_offset,
    find_position,
    iter_file_headers,
    leads_to,
)
from local_cluster.log.segment.transaction_index import (
    AbortedTransaction,
    TransactionIndexCorruptError,
    decode_index,
    encode_index,
)
from local_cluster.records.header import BatchHeader, Buffer

_log = logging.getLogger(__name__)

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"

KNOWN_POSITIONS_MAX: Final = 256
"""Remembered batch boundaries per segment: where readers stopped, and so where they go on."""


def file_name(offset: int, suffix: str) -> str:
    """Kafka's name of a file that begins at an offset: twenty digits."""
    return f"{offset:020d}{suffix}"


class LogSlice(NamedTuple):
    """Whole batches in a segment file, for os.sendfile.

    `file` stays readable while the slice lives, even if the segment is deleted meanwhile.
    `next_offset` is the offset after the last batch, or where the read began if it is empty.
    """

    file: LogFile
    position: int
    size_bytes: int
    next_offset: int

    def read(self) -> bytes:
        """The bytes of the slice."""
        return self.file.pread(self.size_bytes, self.position)


class Boundary(NamedTuple):
    """Where to cut a segment."""

    position: int
    next_offset: int
    """Behind the last batch before it; where the segment begins if there is none."""
    end_offset: int
    """Where the log ends then: beyond `next_offset` where compaction left nothing in between."""


class Segment:
    """A run of batches that begins at `base_offset`."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, *, index_interval_bytes: int
    ) -> None:
        self._files = files
        self._directory = directory
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.size_bytes = 0
        self.next_offset = base_offset
        self.max_timestamp = -1
        """The largest timestamp so far; -1 where no batch has one."""
        self.max_timestamp_offset = base_offset
        """The last offset of the batch that brought it."""
        self.first_timestamp: int | None = None
        """The largest timestamp of the first batch: what time-based rolling counts from."""
        self.created_ms = 0
        self.is_ragged = False
        """Whether the file may hold a part of an append that failed: nothing may follow it."""
        self.offset_index = OffsetIndex(files, self.path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(files, self.path(TIME_INDEX_SUFFIX), base_offset)
        self.aborted: list[AbortedTransaction] = []
        """Aborted transactions whose markers are here, in their order."""
        self.needs_transactions = False
        """Whether `aborted` must be rebuilt from the batches: after a crash, or a broken file."""
        self._file: LogFile | None = None
        self._is_closed = False
        self._bytes_since_entry = 0
        self._known_positions: dict[int, int] = {base_offset: 0}

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}"

    def move_to(self, directory: str) -> None:
        """The directory was renamed; open files stay valid."""
        self._directory = directory
        self.offset_index.path = self.path(INDEX_SUFFIX)
        self.time_index.path = self.path(TIME_INDEX_SUFFIX)

    @property
    def file(self) -> LogFile:
        """The open `.log` file; closed segments open it on first use."""
        if self._file is None:
            self._file = self._files.open(self.path(LOG_SUFFIX))
        if self._is_closed:
            OPEN_FILES.used(self)
        return self._file

    def let_go(self) -> None:
        """Keep the file open no longer: see open_files.py."""
        assert self._is_closed, "the file that is appended to stays open"
        self._file = None

    def _set_closed(self, is_closed: bool) -> None:
        self._is_closed = is_closed
        if not is_closed:
            OPEN_FILES.forget(self)
        elif self._file is not None:
            OPEN_FILES.used(self)

    # Opening

    def create(self, now_ms: int) -> None:
        """Make the files of a new, empty segment; what has their names already goes.

        The `.log` is made last: without it there is no segment, so a failure leaves none behind.
        """
        for suffix in (LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            if self._files.exists(self.path(suffix)):
                self._files.remove(self.path(suffix))
        self.offset_index.start_empty()
        self.time_index.start_empty()
        self._file = self._files.open(self.path(LOG_SUFFIX), create=True)
        self.created_ms = now_ms

    def load_closed(self, next_offset: int) -> None:
        """Take over a segment that ends at `next_offset`; IndexCorruptError or FileNotFoundError
        where its indexes must be rebuilt first."""
        self._set_closed(True)
        self.size_bytes = self._files.size_bytes(self.path(LOG_SUFFIX))
        self.next_offset = next_offset
        self.offset_index.load(self.size_bytes, appendable=False)
        self.time_index.load(appendable=False)
        self._load_transactions()
        self._load_timestamps()

    def load_active(self) -> None:
        """Take over the last segment after a clean stop: indexes as they are, headers behind the
        last entry. IndexCorruptError, FileNotFoundError where it must be rebuilt first."""
        self._set_closed(False)
        self.size_bytes = self._files.size_bytes(self.path(LOG_SUFFIX))
        self.offset_index.load(self.size_bytes, appendable=True)
        self.time_index.load(appendable=True)
        self._load_transactions()
        self._load_timestamps()
        position = self.offset_index.lookup_position(self.size_bytes)
        self._bytes_since_entry = self.size_bytes - position
        for at, header in iter_file_headers(self.file, position, self.size_bytes):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
            self.next_offset = header.next_offset
            position = at + header.size_bytes
        if position != self.size_bytes:
            raise IndexCorruptError(f"{self.path(LOG_SUFFIX)}: no batch at {position}")

    def _load_transactions(self) -> None:
        path = self.path(TRANSACTION_INDEX_SUFFIX)
        if not self._files.exists(path):
            return
        try:
            self.aborted = decode_index(self._files.read_bytes(path))
        except TransactionIndexCorruptError as error:
            _log.warning("%s is rebuilt: %s", path, error)
            self.needs_transactions = True

    def write_transactions(self) -> list[str]:
        """Write `.txnindex` if there is something to say; returns its path. Raises OSError."""
        path = self.path(TRANSACTION_INDEX_SUFFIX)
        if not self.aborted and not self._files.exists(path):
            return []
        self._files.replace(path, encode_index(self.aborted), durable=False)
        return [path]

    def _load_timestamps(self) -> None:
        entry = self.time_index.last_entry()
        if entry is not None:
            self.max_timestamp, self.max_timestamp_offset = entry
        self.created_ms = self._files.modified_ms(self.path(LOG_SUFFIX))

    def rebuild(self) -> tuple[ValidPrefix, list[tuple[int, BatchHeader]]]:
        """Read the whole file, check every CRC and make both indexes anew.

        Returns how far the file is whole, and the first header of every leader epoch in it, each
        with the offset behind the batch before it (compaction may have left a hole between). The
        segment then shows the whole part only; cutting the file is the caller's decision.
        """
        size_bytes = self._files.size_bytes(self.path(LOG_SUFFIX))
        self.created_ms = self._files.modified_ms(self.path(LOG_SUFFIX))
        self._set_closed(False)
        self._forget()
        self.aborted = []
        self.needs_transactions = True
        self.offset_index.start_empty()
        self.time_index.start_empty()
        epoch_starts: list[tuple[int, BatchHeader]] = []
        previous_end = self.base_offset
        scan = CheckedScan(self.file, size_bytes, self.base_offset)
        for position, header in scan:
            if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                raise IndexCorruptError(f"{self.path(LOG_SUFFIX)}: offset {header.last_offset}")
            if not epoch_starts or (
                header.partition_leader_epoch > epoch_starts[-1][1].partition_leader_epoch
            ):
                epoch_starts.append((previous_end, header))
            previous_end = header.next_offset
            self._count(position, header.size_bytes, header.last_offset, header.max_timestamp)
        return scan.prefix, epoch_starts

    # Appending

    def append(
        self,
        buffer: Buffer,
        size_bytes: int,
        headers: Sequence[BatchHeader],
        last_offset: int,
        max_timestamp: int,
    ) -> None:
        """Write whole batches at the end. `last_offset` and `max_timestamp` are of the whole
        buffer; `headers` with their final offsets matter only where there are several.

        Raises OSError with everything as it was before, unless `is_ragged` says otherwise.
        """
        file = self._file
        assert file is not None, "append to a segment that was not opened for it"
        try:
            written = file.write(buffer)
        except OSError:
            self._undo_write(file)
            raise
        if written != size_bytes:
            # Linux writes what still fits and reports ENOSPC only on the next call.
            self._undo_write(file)
            raise OSError(errno.ENOSPC, f"{written} of {size_bytes} bytes were written")
        if len(headers) == 1:
            self._count(self.size_bytes, size_bytes, last_offset, max_timestamp)
        else:
            for header in headers:
                self._count(
                    self.size_bytes, header.size_bytes, header.last_offset, header.max_timestamp
                )

    def _undo_write(self, file: LogFile) -> None:
        self.is_ragged = True
        file.truncate(self.size_bytes)
        self.is_ragged = False

    def _count(self, position: int, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_entry > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes
        self.size_bytes = position + size_bytes
        self.next_offset = last_offset + 1

    def waited_ms(self, now_ms: int, max_timestamp: int) -> int:
        """What segment.ms is compared with: message time where the messages have times."""
        if self.first_timestamp is None and self.size_bytes:
            for _, header in iter_file_headers(self.file, 0, self.size_bytes):
                self.first_timestamp = header.max_timestamp
                break
        if self.first_timestamp is not None and self.first_timestamp >= 0:
            return max_timestamp - self.first_timestamp
        return now_ms - self.created_ms

    def indexes_are_full(self, index_bytes_max: int) -> bool:
        # The time index keeps one place for the entry that closing adds.
        return (
            self.offset_index.entries_count >= index_bytes_max // OFFSET_ENTRY_BYTES
            or self.time_index.entries_count >= index_bytes_max // TIME_ENTRY_BYTES - 1
        )

    def finish(self) -> list[str]:
        """Make the indexes complete, with the largest timestamp as last entry.

        Returns the paths of the files, to be synced. Raises OSError; the segment can then
        be appended to as before.
        """
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.offset_index.write_out()
        self.time_index.write_out()
        paths = [self.path(LOG_SUFFIX), self.offset_index.path, self.time_index.path]
        # Rebuilt entries are written once they are known, see ProducerSnapshots.load.
        return paths if self.needs_transactions else paths + self.write_transactions()

    def close_for_appends(self) -> None:
        """After `finish`: free the memory of the indexes."""
        self._set_closed(True)
        self.offset_index.close_for_appends()
        self.time_index.close_for_appends()

    # Reading

    def position_of(self, offset: int) -> int | None:
        """Where the batch that holds `offset` begins (or, in a gap, the next one)."""
        position = self._known_positions.get(offset)
        if position is not None and position < self.size_bytes:
            return position
        found = find_offset(self.file, offset, self.offset_index.lookup(offset), self.size_bytes)
        return None if found is None else found.position

    def ends_before(self, offset: int) -> bool:
        """Where `position_of` knows no batch: whether that is because the last one is before it."""
        return leads_to(self.file, self.offset_index.lookup(offset), self.size_bytes)

    def batch_at(self, position: int) -> Found | None:
        return find_offset(self.file, -1, position, self.size_bytes)

    def last_before(self, position: int, position_max: int) -> Found | None:
        """The last batch from `position` on that ends at or before `position_max`."""
        start = max(position, self.offset_index.lookup_position(position_max))
        found = find_position(self.file, start, position_max, self.size_bytes)
        if found is None and start > position:
            # The batch of that entry ends too late; the one before it may be anywhere between the
            # entries, so look from the entry before.
            start = max(position, self.offset_index.lookup_position(start - 1))
            found = find_position(self.file, start, position_max, self.size_bytes)
        return found

    def remember(self, offset: int, position: int) -> None:
        """Note that the batch of `offset` begins at `position`, for the reader's next call."""
        if len(self._known_positions) >= KNOWN_POSITIONS_MAX:
            self._known_positions.clear()
        self._known_positions[offset] = position

    # Cutting and removing

    def boundary_before(self, offset: int) -> Boundary:
        """Where to cut so that no batch reaches to `offset` or beyond. The log ends at `offset`
        then, also where compaction left nothing right before it, or where the batch begins that
        contains it.

        Where a damaged batch ends the way there, it lies before that: a cut lower than asked is
        fetched again, and nothing of the damaged part may be taken for what comes next.
        """
        start = position = self.offset_index.lookup(offset - 1)
        next_offset = self.base_offset
        for at, header in iter_file_headers(self.file, start, self.size_bytes):
            if header.last_offset >= offset:
                end_offset = max(next_offset, min(offset, header.base_offset))
                return Boundary(at, next_offset, end_offset)
            position, next_offset = at + header.size_bytes, header.next_offset
        if position == self.size_bytes:
            end_offset = max(next_offset, min(offset, self.next_offset))
            return Boundary(position, next_offset, end_offset)
        while True:
            scan = CheckedScan(self.file, self.size_bytes, self.base_offset, start)
            for _, header in scan:
                if header.last_offset >= offset:
                    break
            prefix = scan.prefix
            if prefix.size_bytes > start or not start:
                return Boundary(prefix.size_bytes, prefix.next_offset, prefix.next_offset)
            # The batch of that entry is the damaged one: the one before it lies behind another.
            start = self.offset_index.lookup_position(start - 1)

    def cut(self, position: int, next_offset: int) -> None:
        """Truncate at a batch boundary and be the segment that is appended to."""
        self._set_closed(False)
        self.file.truncate(position)
        self._known_positions = {self.base_offset: 0}
        self.offset_index.truncate_positions(position)
        self.time_index.truncate_to(next_offset)
        self.aborted = [entry for entry in self.aborted if entry.last_offset < next_offset]
        self.size_bytes = position
        self.next_offset = next_offset
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        entry = self.time_index.last_entry()
        if entry is not None:
            self.max_timestamp, self.max_timestamp_offset = entry
        if not position:
            self.first_timestamp = None
        start = self.offset_index.lookup_position(position)
        self._bytes_since_entry = position - start
        for _, header in iter_file_headers(self.file, start, position):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    def mark_deleted(self) -> list[str]:
        """Rename the files so that no restart takes them up again; returns the new paths.

        The `.log` goes first, and with it the segment: an index that stays behind is nobody's.
        Raises OSError with the segment as it was.
        """
        paths = []
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            path = self.path(suffix)
            if not self._files.exists(path):
                continue
            try:
                self._files.rename(path, path + DELETED_SUFFIX)
            except OSError as error:
                if suffix == LOG_SUFFIX:
                    raise
                _log.warning("%s stays until its offset is used again: %s", path, error)
                continue
            paths.append(path + DELETED_SUFFIX)
        return paths

    def _forget(self) -> None:
        self.size_bytes = 0
        self.next_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        self.first_timestamp = None
        self._bytes_since_entry = 0
        self._known_positions = {self.base_offset: 0}
