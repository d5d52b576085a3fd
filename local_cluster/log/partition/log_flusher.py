"""Flushing one log: the tickets that make it durable, and how far it is."""

from __future__ import annotations

import logging

from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.partition.log_state import LogState
from local_cluster.log.state.checkpoints import LEADER_EPOCHS, encode_epochs
from local_cluster.wire.errors import KafkaError

_log = logging.getLogger(__name__)


class LogFlushes(LogState):
    """`flushed_end_offset` moves only over bytes that an fsync covered."""

    @property
    def flushed_end_offset(self) -> int:
        """Offsets below are on the disk: what a replica reports in fsync mode."""
        return self._flushing.flushed_end_offset

    @property
    def needs_flush(self) -> bool:
        """Whether there is something to flush, and the log is fit for it."""
        return (
            self.failure is None
            and self.corruption is None
            and self.flushed_end_offset < self.log_end_offset
        )

    def begin_flush(self) -> FlushJob | None:
        """What a worker must flush for everything appended so far.

        None if there is nothing, if the log is finished (failed, deleted), or if the disk is too
        full to note the leader epoch: then nothing new counts as flushed, and the next call tries
        again. Several tickets may be out.
        """
        if not self.needs_flush:
            return None
        try:
            ticket = self._make_ticket()
        except KafkaError as error:
            if not self._flush_refusals:
                _log.warning("%s", error)
            self._flush_refusals += 1
            return None
        if self._flush_refusals:
            _log.info("%s can be flushed again, after %d failures", self, self._flush_refusals)
            self._flush_refusals = 0
        return ticket

    def complete_flush(self, ticket: FlushJob) -> None:
        """Take over what a ticket flushed; ignored if the log was truncated meanwhile."""
        self._flushing.complete(ticket)

    def _make_ticket(self) -> FlushJob:
        active = self._segments.active
        # Readers that follow the flushed end come by exactly this boundary.
        active.remember(self.log_end_offset, active.size_bytes)
        try:
            if self._epochs_unwritten:
                path = f"{self.directory}/{LEADER_EPOCHS}"
                content = encode_epochs(self.leader_epochs.entries)
                self._files.replace(path, content, durable=False)
                self._flushing.add(path, self.directory)
                self._epochs_unwritten = False
            return self._flushing.make_ticket(self.log_end_offset, active.file, self.fail)
        except OSError as error:
            raise self._write_error("cannot be flushed", error) from error
