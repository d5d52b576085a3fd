"""The `.log` file of one segment, and the bound on how many of them are open.

A broker has thousands of partitions with many segments each, and readers touch few of them. The
descriptors belong to the process, so one table serves all logs:

- The file of an active segment stays open and is not in the table.
- The file of a closed segment opens on first use. Beyond the bound, the file that was used least
  recently is let go; it closes with the last slice that reads it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from weakref import ReferenceType, ref

from local_cluster.log.disk.files import Files, LogFile

CLOSED_SEGMENT_FILES_MAX: Final = 1_000
"""Open `.log` files of closed segments, of all logs together."""


class OpenFiles:
    """The files of closed segments that are open, the most recently used last."""

    def __init__(self, files_max: int) -> None:
        self.files_max = files_max
        self._users: OrderedDict[ReferenceType[SegmentFile], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._users)

    def used(self, file: SegmentFile) -> None:
        """Note a use; let the least recently used files go where there are too many."""
        key = ref(file)
        self._users[key] = None
        self._users.move_to_end(key)
        while len(self._users) > self.files_max:
            oldest, _ = self._users.popitem(last=False)
            let_go = oldest()
            if let_go is not None:
                let_go.let_go()

    def forget(self, file: SegmentFile) -> None:
        """Remove a file from the table: it is appended to again."""
        self._users.pop(ref(file), None)


OPEN_FILES: Final = OpenFiles(CLOSED_SEGMENT_FILES_MAX)


class SegmentFile:
    """The `.log` file of one segment: of a closed one, or of the active one."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.opened: LogFile | None = None
        """The open file; None until it is used, or after it was let go."""
        self._is_closed = False

    def open(self) -> LogFile:
        """Return the open file. Raises OSError."""
        opened = self.opened
        if opened is None:
            opened = self.opened = self._files.open(self.path)
        if self._is_closed:
            OPEN_FILES.used(self)
        return opened

    def create(self) -> None:
        """Create the file and open it. Raises OSError."""
        self.opened = self._files.open(self.path, create=True)

    def set_closed(self, is_closed: bool) -> None:
        """Note whether the segment is closed for appends."""
        self._is_closed = is_closed
        if not is_closed:
            OPEN_FILES.forget(self)
        elif self.opened is not None:
            OPEN_FILES.used(self)

    def let_go(self) -> None:
        """Drop the open file of a closed segment."""
        assert self._is_closed, "the file of the active segment stays open"
        self.opened = None
