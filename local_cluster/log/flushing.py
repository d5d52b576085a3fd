"""What of one log has reached the disk, and what a flush must still bring there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .files import Files, Syncable
from .tickets import FlushTicket


class FlushState:
    """`flushed_end_offset`, and everything written since that an fsync has not covered.

    Several tickets may be out at once. What is added while one runs has a higher sequence, so
    that completing it forgets only what it really flushed.
    """

    def __init__(self, files: Files, flushed_end_offset: int, unsynced: Iterable[Syncable]) -> None:
        self._files = files
        self.flushed_end_offset = flushed_end_offset
        self._generation = 0
        self._sequence = 0
        self._unsynced: list[tuple[int, Syncable | str]] = [(0, file) for file in unsynced]

    def add(self, *items: Syncable | str) -> None:
        """Note files, or paths of small files and directories, that were written or changed.

        A path is opened when the next ticket is made, so that idle logs hold no descriptors.
        """
        self._sequence += 1
        self._unsynced += [(self._sequence, item) for item in items]

    def make_ticket(
        self, end_offset: int, active: Syncable, on_failure: Callable[[str], None]
    ) -> FlushTicket:
        """A ticket for everything below `end_offset`. Raises OSError."""
        files: dict[int | str, Syncable] = {}
        for _, item in self._unsynced:
            if not isinstance(item, str):
                files[id(item)] = item
            elif item not in files:
                try:
                    files[item] = self._files.open_for_sync(item)
                except FileNotFoundError:
                    # Removed meanwhile (a snapshot of offsets that were cut off).
                    continue
        files[id(active)] = active
        return FlushTicket(
            end_offset=end_offset,
            generation=self._generation,
            sequence=self._sequence,
            files=list(files.values()),
            on_failure=on_failure,
        )

    def complete(self, ticket: FlushTicket) -> None:
        """Take over what a ticket flushed; ignored if the log was truncated meanwhile."""
        assert ticket.is_done, "the flush did not run, or failed"
        if ticket.generation != self._generation:
            return
        self.flushed_end_offset = max(self.flushed_end_offset, ticket.end_offset)
        if self._unsynced:
            self._unsynced = [item for item in self._unsynced if item[0] > ticket.sequence]

    def truncate(self, end_offset: int) -> None:
        """The log now ends at `end_offset`; tickets that are out say nothing about it."""
        self._generation += 1
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
