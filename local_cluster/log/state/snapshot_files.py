"""The producer snapshots of one log: written at every roll and at a clean stop."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from local_cluster.log.disk.files import Files
from local_cluster.log.segment.file_names import file_name
from local_cluster.log.segment.scan import iter_file_headers
from local_cluster.log.segment.segment import Segment
from local_cluster.log.segment.transaction_index import AbortedTransaction
from local_cluster.log.state.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    SnapshotCorruptError,
    decode_snapshot,
    encode_snapshot,
)
from local_cluster.log.state.producer_state import CompletedTransaction, ProducerState
from local_cluster.records.control import read_marker

log = logging.getLogger(__name__)


def aborted_transaction(ended: CompletedTransaction, state: ProducerState) -> AbortedTransaction:
    """Return the index entry of a transaction that was just ended in `state`."""
    first_open = state.first_open_offset
    return AbortedTransaction(
        ended.producer_id,
        ended.first_offset,
        ended.last_offset,
        ended.last_offset + 1 if first_open is None else first_open,
    )


class ProducerSnapshots:
    """The snapshot files in a partition directory, each named by its offset."""

    def __init__(self, files: Files, directory: str, offsets: Iterable[int]) -> None:
        self._files = files
        self._directory = directory
        self._offsets = sorted(offsets)

    @property
    def offsets(self) -> Sequence[int]:
        return tuple(self._offsets)

    def path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def move_to(self, directory: str) -> None:
        """Follow a rename of the directory."""
        self._directory = directory

    def write(self, state: ProducerState) -> str:
        """Write the snapshot of a state without waiting for the disk; return its path.

        Raises OSError.
        """
        offset = state.end_offset
        path = self.path(offset)
        self._files.replace(path, encode_snapshot(state), durable=False)
        if offset not in self._offsets:
            self._offsets.append(offset)
        return path

    def load(self, segments: Sequence[Segment], end_offset: int, now_ms: int) -> ProducerState:
        """Return the producer state at `end_offset`: the newest valid snapshot, then a replay.

        The replay also rebuilds the transaction indexes that need it; it then begins before the
        first of them. Raises OSError, CorruptRecordError, CompressionError.
        """
        state = self._newest_valid(segments, end_offset, now_ms)
        start = state.end_offset
        for segment in segments:
            if segment.next_offset <= start:
                continue
            position = segment.position_of(max(start, segment.base_offset))
            if position is not None:
                _replay(segment, position, state, start, end_offset, now_ms)
            segment.transactions.needs_rebuild = False
        state.end_offset = end_offset
        return state

    def _newest_valid(
        self, segments: Sequence[Segment], end_offset: int, now_ms: int
    ) -> ProducerState:
        first_offset = segments[0].base_offset
        rebuilt = (item.base_offset for item in segments if item.transactions.needs_rebuild)
        newest = min(end_offset, next(rebuilt, end_offset))
        for offset in reversed(self._offsets):
            # Anything may lie between an older snapshot and the first segment, such as the marker
            # of a transaction that is open in it.
            if not first_offset <= offset <= newest:
                continue
            try:
                return decode_snapshot(self._files.read_bytes(self.path(offset)), offset, now_ms)
            except (SnapshotCorruptError, FileNotFoundError) as error:
                log.warning("producer snapshot %s is not used: %s", self.path(offset), error)
        return ProducerState(first_offset)

    def drop_older(self, offset: int) -> None:
        """Delete the snapshots before `offset`, but never the newest one."""
        self._drop([known for known in self._offsets[:-1] if known < offset])

    def drop_newer(self, offset: int) -> None:
        """Delete the snapshots beyond `offset`: their records were truncated."""
        self._drop([known for known in self._offsets if known > offset])

    def drop_all(self) -> None:
        """Delete all: the log starts over and forgets its producers."""
        self._drop(self.offsets)

    def drop_at(self, offsets: Iterable[int]) -> None:
        """Delete the snapshots at some offsets (of removed segments), but never the newest."""
        removed = set(offsets)
        self._drop([known for known in self._offsets[:-1] if known in removed])

    def _drop(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self._offsets.remove(offset)
            try:
                self._files.remove(self.path(offset))
            except OSError as error:
                # One too many is harmless while the log runs, and a start checks them all.
                log.warning("producer snapshot stays: %s", error)


def _replay(
    segment: Segment,
    position: int,
    state: ProducerState,
    start: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Record the batches between two offsets, and the aborted transactions if they are needed."""
    file = segment.file.open()
    for at, header in iter_file_headers(file, position, segment.size_bytes):
        if header.producer_id >= 0 and start <= header.base_offset < end_offset:
            marker = None
            if header.is_control:
                marker = read_marker(file.pread(header.size_bytes, at), 0, header)
            ended = state.record(header, header.base_offset, header.max_timestamp, now_ms, marker)
            if ended is not None and ended.is_aborted and segment.transactions.needs_rebuild:
                segment.transactions.entries.append(aborted_transaction(ended, state))
