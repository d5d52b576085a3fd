"""What of one log has reached the disk, and what a flush must still bring there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.disk.files import Files, Syncable


class FlushState:
    """`flushed_end_offset`, and everything written since that an fsync has not covered.

    Files are kept by path and opened when a ticket is made, so that a log that is not flushed
    holds no descriptors, and deleted segments give their space back. Several tickets may be out at
    once: what is noted while one runs has a higher sequence, and completing it forgets only what it
    really flushed.
    """

    def __init__(self, files: Files, flushed_end_offset: int, unsynced: Iterable[str]) -> None:
        self._files = files
        self.flushed_end_offset = flushed_end_offset
        self._generation = 0
        self._sequence = 0
        self._unsynced: dict[str, int] = dict.fromkeys(unsynced, 0)

    def add(self, *paths: str) -> None:
        """Note files that were written, and directories in which files were made or renamed."""
        self._sequence += 1
        for path in paths:
            self._unsynced[path] = self._sequence

    def forget(self, paths: Iterable[str]) -> None:
        """These files are gone."""
        for path in paths:
            self._unsynced.pop(path, None)

    def move(self, directory: str, new_directory: str) -> None:
        """The directory of the log was renamed."""
        self._unsynced = {
            new_directory + path[len(directory) :]
            if path == directory or path.startswith(f"{directory}/")
            else path: noted
            for path, noted in self._unsynced.items()
        }

    def make_ticket(
        self, end_offset: int, active: Syncable, on_failure: Callable[[str], None]
    ) -> FlushJob:
        """A ticket for everything below `end_offset`. Raises OSError."""
        files = [active]
        for path in self._unsynced:
            try:
                files.append(self._files.open_for_sync(path))
            except FileNotFoundError:
                # Removed meanwhile: what is no longer there need not be on the disk.
                continue
        return FlushJob(
            end_offset=end_offset,
            generation=self._generation,
            sequence=self._sequence,
            files=files,
            on_failure=on_failure,
        )

    def count_at_most(self, end_offset: int) -> None:
        """Of what was flushed no more counts than this, until the next flush is complete."""
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)

    def complete(self, ticket: FlushJob) -> None:
        """Take over what a ticket flushed; ignored if the log was truncated meanwhile."""
        assert ticket.is_done, "the flush did not run, or failed"
        if ticket.generation != self._generation:
            return
        self.flushed_end_offset = max(self.flushed_end_offset, ticket.end_offset)
        if self._unsynced:
            self._unsynced = {
                path: noted for path, noted in self._unsynced.items() if noted > ticket.sequence
            }

    @property
    def truncations(self) -> int:
        return self._generation

    @property
    def is_touched(self) -> bool:
        """Whether any file was noted, or the log cut back, since it was opened."""
        return bool(self._sequence or self._generation)

    def truncate(self, end_offset: int) -> None:
        """The log now ends at `end_offset`; tickets that are out say nothing about it."""
        self._generation += 1
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
