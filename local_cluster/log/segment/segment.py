"""One segment of a partition log: its `.log` file and its indexes.

Offsets inside lie in [base_offset, base_offset + 2**31). The segment knows nothing of leader
epochs, producers or retention. An append is one write call. If it fails or is short, the file is
truncated to its former end, and nothing in memory has changed.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.log.disk.files import Files, LogFile
from local_cluster.log.segment.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
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
    ValidPrefix,
    find_offset,
    iter_file_headers,
)
from local_cluster.log.segment.segment_file import SegmentFile
from local_cluster.log.segment.transaction_index import TransactionIndex
from local_cluster.records.header import NO_TIMESTAMP, BatchHeader, Buffer

log = logging.getLogger(__name__)

KNOWN_POSITIONS_MAX: Final = 256
"""Remembered batch boundaries per segment: readers stopped there, and will continue there."""


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
        """Return the bytes of the slice."""
        return self.file.pread(self.size_bytes, self.position)


class Segment:
    """A run of batches that begins at `base_offset`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        name_suffix: str = "",
    ) -> None:
        """Make a segment without touching its files.

        `name_suffix` follows every file name, as in `.cleaned`.
        """
        self._files = files
        self._directory = directory
        self._name_suffix = name_suffix
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.size_bytes = 0
        self.next_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        """The largest timestamp so far; -1 where no batch has one."""
        self.max_timestamp_offset = base_offset
        """The last offset of the batch that brought it."""
        self.first_timestamp: int | None = None
        """The largest timestamp of the first batch: time-based rolling counts from it."""
        self.created_ms = 0
        self.is_ragged = False
        """Whether the file may hold a part of a failed append: nothing may follow it."""
        self.file = SegmentFile(files, self.path(LOG_SUFFIX))
        self.offset_index = OffsetIndex(files, self.path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(files, self.path(TIME_INDEX_SUFFIX), base_offset)
        self.transactions = TransactionIndex(files, self.path(TRANSACTION_INDEX_SUFFIX))
        self._bytes_since_entry = 0
        self._known_positions: dict[int, int] = {base_offset: 0}

    def path(self, suffix: str) -> str:
        """Return the path of one of the segment's files."""
        return f"{self._directory}/{file_name(self.base_offset, suffix)}{self._name_suffix}"

    @property
    def log_path(self) -> str:
        return self.file.path

    def move_to(self, directory: str) -> None:
        """Follow a rename of the directory; open files stay valid."""
        self._directory = directory
        self.file.path = self.path(LOG_SUFFIX)
        self.offset_index.path = self.path(INDEX_SUFFIX)
        self.time_index.path = self.path(TIME_INDEX_SUFFIX)
        self.transactions.path = self.path(TRANSACTION_INDEX_SUFFIX)

    # -- opening ----------------------------------------------------------------------------

    def create(self, now_ms: int) -> None:
        """Create the files of an empty segment, removing any that have their names. Raises OSError.

        The `.log` is created last: without it there is no segment, so a failure leaves none.
        """
        for path in (self.log_path, self.transactions.path):
            if self._files.exists(path):
                self._files.remove(path)
        self.offset_index.start_empty()
        self.time_index.start_empty()
        self.file.create()
        self.created_ms = now_ms

    def load_closed(self, next_offset: int) -> None:
        """Load a segment that ends at `next_offset`.

        Raises IndexCorruptError or FileNotFoundError where its indexes must be rebuilt first.
        """
        self.file.set_closed(True)
        self.size_bytes = self._files.size_bytes(self.log_path)
        self.next_offset = next_offset
        self.offset_index.load(self.size_bytes, appendable=False)
        self.time_index.load(appendable=False)
        self.transactions.load()
        self._load_timestamps()

    def load_active(self) -> None:
        """Load the last segment after a clean stop: its indexes, and the headers behind them.

        Raises IndexCorruptError or FileNotFoundError where the indexes must be rebuilt first.
        """
        self.file.set_closed(False)
        self.size_bytes = self._files.size_bytes(self.log_path)
        self.offset_index.load(self.size_bytes, appendable=True)
        self.time_index.load(appendable=True)
        self.transactions.load()
        self._load_timestamps()
        position = self.offset_index.lookup_position(self.size_bytes)
        self._bytes_since_entry = self.size_bytes - position
        for at, header in iter_file_headers(self.file.open(), position, self.size_bytes):
            self._note_timestamp(header)
            self.next_offset = header.next_offset
            position = at + header.size_bytes
        if position != self.size_bytes:
            raise IndexCorruptError(f"{self.log_path}: no batch at position {position}")

    def _load_timestamps(self) -> None:
        self._load_max_timestamp()
        self.created_ms = self._files.modified_ms(self.log_path)

    def _load_max_timestamp(self) -> None:
        entry = self.time_index.last_entry()
        if entry is not None:
            self.max_timestamp, self.max_timestamp_offset = entry

    def _note_timestamp(self, header: BatchHeader) -> None:
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset

    def rebuild(self) -> tuple[ValidPrefix, list[tuple[int, BatchHeader]]]:
        """Read the whole file, check every CRC, and rebuild the indexes.

        Return the valid prefix, and the first header of every leader epoch in it. With each
        header comes the end of the batch before: compaction may have left a gap between them.
        The segment then shows the valid prefix only; the caller decides whether to truncate the
        file. Raises IndexCorruptError for an offset beyond the reach of an index, OSError.
        """
        size_bytes = self._files.size_bytes(self.log_path)
        self.created_ms = self._files.modified_ms(self.log_path)
        self.file.set_closed(False)
        self._reset()
        self.transactions.forget_all()
        self.offset_index.start_empty()
        self.time_index.start_empty()
        epoch_starts: list[tuple[int, BatchHeader]] = []
        previous_end = self.base_offset
        scan = CheckedScan(self.file.open(), size_bytes, self.base_offset)
        for position, header in scan:
            if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                raise IndexCorruptError(f"{self.log_path}: offset {header.last_offset}")
            if not epoch_starts or (
                header.partition_leader_epoch > epoch_starts[-1][1].partition_leader_epoch
            ):
                epoch_starts.append((previous_end, header))
            previous_end = header.next_offset
            self._note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
        return scan.prefix, epoch_starts

    # -- appending --------------------------------------------------------------------------

    def append(
        self,
        buffer: Buffer,
        size_bytes: int,
        headers: Sequence[BatchHeader],
        last_offset: int,
        max_timestamp: int,
    ) -> None:
        """Write whole batches at the end.

        `last_offset` and `max_timestamp` describe the whole buffer. `headers` with their final
        offsets matter only where there are several.
        Raises OSError; nothing has changed then, unless `is_ragged` is set.
        """
        file = self.file.opened
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
            self._note_batch(self.size_bytes, size_bytes, last_offset, max_timestamp)
        else:
            for header in headers:
                self._note_batch(
                    self.size_bytes, header.size_bytes, header.last_offset, header.max_timestamp
                )

    def _undo_write(self, file: LogFile) -> None:
        self.is_ragged = True
        file.truncate(self.size_bytes)
        self.is_ragged = False

    def _note_batch(
        self, position: int, size_bytes: int, last_offset: int, max_timestamp: int
    ) -> None:
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
        """Return the age that segment.ms limits: by record time where the records have one."""
        if self.first_timestamp is None and self.size_bytes:
            for _, header in iter_file_headers(self.file.open(), 0, self.size_bytes):
                self.first_timestamp = header.max_timestamp
                break
        if self.first_timestamp is not None and self.first_timestamp >= 0:
            return max_timestamp - self.first_timestamp
        return now_ms - self.created_ms

    def indexes_are_full(self, index_bytes_max: int) -> bool:
        """Return whether an index has reached segment.index.bytes."""
        # The time index keeps one place for the entry that closing adds.
        return (
            self.offset_index.entries_count >= index_bytes_max // OFFSET_ENTRY_BYTES
            or self.time_index.entries_count >= index_bytes_max // TIME_ENTRY_BYTES - 1
        )

    def finish(self) -> list[str]:
        """Complete the indexes, with the largest timestamp as last entry; return paths to flush.

        Raises OSError; the segment can then be appended to as before.
        """
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.offset_index.write_out()
        self.time_index.write_out()
        paths = [self.log_path, self.offset_index.path, self.time_index.path]
        # Entries that are being rebuilt are written once they are known: ProducerSnapshots.load.
        return paths if self.transactions.needs_rebuild else paths + self.transactions.write_out()

    def close_for_appends(self) -> None:
        """Free the memory of the indexes; `finish` came before."""
        self.file.set_closed(True)
        self.offset_index.close_for_appends()
        self.time_index.close_for_appends()

    # -- reading ----------------------------------------------------------------------------

    def position_of(self, offset: int) -> int | None:
        """Return where the batch that holds `offset` begins, or the next one if it is in a gap."""
        position = self._known_positions.get(offset)
        if position is not None and position < self.size_bytes:
            return position
        start = self.offset_index.lookup(offset)
        found = find_offset(self.file.open(), offset, start, self.size_bytes)
        return None if found is None else found.position

    def remember(self, offset: int, position: int) -> None:
        """Note that the batch of `offset` begins at `position`, for the reader's next call."""
        if len(self._known_positions) >= KNOWN_POSITIONS_MAX:
            self._known_positions.clear()
        self._known_positions[offset] = position

    # -- truncating and deleting ------------------------------------------------------------

    def truncate(self, position: int, next_offset: int) -> None:
        """Truncate at a batch boundary and make this the segment that is appended to."""
        self.file.set_closed(False)
        self.file.open().truncate(position)
        self._known_positions = {self.base_offset: 0}
        self.offset_index.truncate_positions(position)
        self.time_index.truncate_to(next_offset)
        self.transactions.truncate_to(next_offset)
        self.size_bytes = position
        self.next_offset = next_offset
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._load_max_timestamp()
        if not position:
            self.first_timestamp = None
        start = self.offset_index.lookup_position(position)
        self._bytes_since_entry = position - start
        for _, header in iter_file_headers(self.file.open(), start, position):
            self._note_timestamp(header)

    def mark_deleted(self) -> list[str]:
        """Rename the files so that no restart loads them; return the new paths.

        The `.log` goes first, and with it the segment: an index left behind belongs to nothing.
        Raises OSError with the segment unchanged.
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
                log.warning("%s stays until its offset is used again: %s", path, error)
                continue
            paths.append(path + DELETED_SUFFIX)
        return paths

    def _reset(self) -> None:
        self.size_bytes = 0
        self.next_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.first_timestamp = None
        self._bytes_since_entry = 0
        self._known_positions = {self.base_offset: 0}
