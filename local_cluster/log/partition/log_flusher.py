"""Flushing one log: what an fsync must still cover, and how far the log is durable.

Unflushed files are kept by path and opened when a flush begins. So a log that is not flushed holds
no descriptors for it, and deleted segments give their space back. Several flush jobs may run at
once: completing one forgets only what was noted before it was made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.disk.files import Syncable
from local_cluster.log.partition.log_state import LogState
from local_cluster.log.state.checkpoints import LEADER_EPOCHS, encode_epochs
from local_cluster.wire.errors import KafkaError

log = logging.getLogger(__name__)


class LogFlusher:
    """The flush jobs of one log. `flushed_end_offset` rises only over what an fsync covered."""

    def __init__(self, state: LogState, flushed_end_offset: int, unflushed: Iterable[str]) -> None:
        self._state = state
        self.flushed_end_offset = flushed_end_offset
        """Offsets below it are on the disk: what a replica reports with `flush: fsync`."""
        self._sequence = 0
        self._unflushed: dict[str, int] = dict.fromkeys(unflushed, 0)
        """Paths of files and directories, each with the sequence of its last change."""
        self._refusals = 0
        """How often in a row the disk refused to begin a flush."""

    # -- what must be flushed ---------------------------------------------------------------

    def add(self, *paths: str) -> None:
        """Note files that were written, and directories whose entries changed."""
        self._sequence += 1
        for path in paths:
            self._unflushed[path] = self._sequence

    def forget(self, paths: Iterable[str]) -> None:
        """Drop files that are deleted."""
        for path in paths:
            self._unflushed.pop(path, None)

    def move(self, directory: str, new_directory: str) -> None:
        """Follow a rename of the log's directory."""
        self._unflushed = {
            new_directory + path[len(directory) :]
            if path == directory or path.startswith(f"{directory}/")
            else path: noted
            for path, noted in self._unflushed.items()
        }

    def limit_flushed(self, end_offset: int) -> None:
        """Count no more than this as flushed until the next flush completes."""
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)

    def truncated(self, end_offset: int) -> None:
        """Follow a truncation. Flush jobs that are running no longer count."""
        self._state.truncations += 1
        self.limit_flushed(end_offset)

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was written or truncated since the log was opened."""
        return not self._sequence and not self._state.truncations

    # -- flushing ---------------------------------------------------------------------------

    @property
    def needs_flush(self) -> bool:
        """Whether records wait for a flush, and the log can be flushed."""
        state = self._state
        return (
            state.failure is None
            and state.corruption is None
            and self.flushed_end_offset < state.log_end_offset
        )

    def begin_flush(self) -> FlushJob | None:
        """Make a job that flushes everything appended so far.

        None where nothing waits, where the log failed, or where the disk is too full to write the
        leader epochs. In the last case the next call tries again. Several jobs may run at once.
        """
        if not self.needs_flush:
            return None
        try:
            job = self.make_job()
        except KafkaError as error:
            if not self._refusals:
                log.warning("%s", error)
            self._refusals += 1
            return None
        if self._refusals:
            log.info("%s is flushed again, after %d failures", self._state, self._refusals)
            self._refusals = 0
        return job

    def begin_full_flush(self) -> FlushJob:
        """Make a job that flushes everything, even where no record waits.

        Raises KafkaError(kafka_storage_error).
        """
        if self._state.failure is not None or self._state.corruption is not None:
            raise self._state.refusal()
        return self.make_job()

    def complete_flush(self, job: FlushJob) -> None:
        """Count what a job flushed; ignored where the log was truncated since the job was made."""
        assert job.is_done, "the flush did not run, or failed"
        if job.truncations != self._state.truncations:
            return
        self.flushed_end_offset = max(self.flushed_end_offset, job.end_offset)
        if self._unflushed:
            self._unflushed = {
                path: noted for path, noted in self._unflushed.items() if noted > job.sequence
            }

    def make_job(self) -> FlushJob:
        """Make a job for the whole log as it is. Raises KafkaError(kafka_storage_error)."""
        state = self._state
        active = state.segments.active
        # Readers that follow the flushed end continue at exactly this boundary.
        active.remember(state.log_end_offset, active.size_bytes)
        try:
            if state.epochs_unwritten:
                path = f"{state.segments.directory}/{LEADER_EPOCHS}"
                content = encode_epochs(state.leader_epochs.entries)
                state.files.replace(path, content, durable=False)
                self.add(path, state.segments.directory)
                state.epochs_unwritten = False
            files: list[Syncable] = [active.file.open()]
            for path in self._unflushed:
                try:
                    files.append(state.files.open_for_sync(path))
                except FileNotFoundError:
                    # Deleted since: it need not be on the disk.
                    continue
        except OSError as error:
            raise state.write_error("cannot be flushed", error) from error
        return FlushJob(
            end_offset=state.log_end_offset,
            truncations=state.truncations,
            sequence=self._sequence,
            files=files,
            on_failure=state.fail,
        )
