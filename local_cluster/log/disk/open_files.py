"""How many files of closed segments this process keeps open, and which it lets go first.

A broker has thousands of partitions with many segments each, and readers touch few of them. The
descriptors belong to the process, so there is one table for all logs. Segments that are appended to
are not in it: their files stay open. A file that was let go closes with the last slice that reads
it, and the segment opens it again when it is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol
from weakref import ReferenceType, ref

CLOSED_SEGMENT_FILES_MAX: Final = 1_000
"""Open files of closed segments of all logs together."""


class HasFile(Protocol):
    """A closed segment."""

    def let_go(self) -> None: ...


class OpenFiles:
    """Who has an open file, the one that used it last at the end."""

    def __init__(self, files_max: int) -> None:
        self.files_max = files_max
        self._users: OrderedDict[ReferenceType[HasFile], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._users)

    def used(self, user: HasFile) -> None:
        """This one uses its file; who did not for the longest time loses its own."""
        key = ref(user)
        self._users[key] = None
        self._users.move_to_end(key)
        while len(self._users) > self.files_max:
            oldest, _ = self._users.popitem(last=False)
            segment = oldest()
            if segment is not None:
                segment.let_go()

    def forget(self, user: HasFile) -> None:
        """This one keeps its file from now on, or has none."""
        self._users.pop(ref(user), None)


OPEN_FILES: Final = OpenFiles(CLOSED_SEGMENT_FILES_MAX)
