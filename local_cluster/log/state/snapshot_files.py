"""The producer snapshots of one log: written at every roll and at a clean stop."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from local_cluster.log.disk.files import Files
from local_cluster.log.segment.scan import iter_file_headers
from local_cluster.log.segment.segment import Segment, file_name
from local_cluster.log.segment.transaction_index import AbortedTransaction
from local_cluster.log.state.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    SnapshotCorruptError,
    decode_snapshot,
    encode_snapshot,
)
from local_cluster.log.state.producer_state import CompletedTransaction, ProducerState
from local_cluster.records.control import read_marker

_log = logging.getLogger(__name__)


def aborted_transaction(ended: CompletedTransaction, state: ProducerState) -> AbortedTransaction:
    """The index entry of a transaction that was just ended in `state`."""
    first_open = state.first_open_offset
    return AbortedTransaction(
        ended.producer_id,
        ended.first_offset,
        ended.last_offset,
        ended.last_offset + 1 if first_open is None else first_open,
    )


class ProducerSnapshots:
    """The snapshot files in a partition directory, by the offset they are of."""

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
        """The directory was renamed."""
        self._directory = directory

    def write(self, state: ProducerState) -> str:
        """Write the snapshot of a state, not waiting for the disk; returns its path.

        Raises OSError.
        """
        offset = state.end_offset
        path = self.path(offset)
        self._files.replace(path, encode_snapshot(state), durable=False)
        if offset not in self._offsets:
            self._offsets.append(offset)
        return path

    def load(self, segments: Sequence[Segment], end_offset: int, now_ms: int) -> ProducerState:
        """The producer state at `end_offset`: the newest whole snapshot, and a replay from there.

        Segments whose aborted transactions are not known get them by the same replay, which then
        begins before the first of them. Raises OSError, CorruptRecordError or CompressionError.
        """
        state = ProducerState(segments[0].base_offset)
        unknown = (item.base_offset for item in segments if item.needs_transactions)
        newest = min(end_offset, next(unknown, end_offset))
        for offset in reversed(self._offsets):
            # Between an older one and the first segment there may have been anything: the end of
            # what was open in it, for one.
            if not segments[0].base_offset <= offset <= newest:
                continue
            try:
                content = self._files.read_bytes(self.path(offset))
                state = decode_snapshot(content, offset, now_ms)
                break
            except (SnapshotCorruptError, FileNotFoundError) as error:
                _log.warning("producer snapshot %s is not used: %s", self.path(offset), error)
        start = state.end_offset
        for segment in segments:
            if segment.next_offset <= start:
                continue
            position = segment.position_of(max(start, segment.base_offset))
            if position is None:
                segment.needs_transactions = False
                continue
            for at, header in iter_file_headers(segment.file, position, segment.size_bytes):
                if header.producer_id >= 0 and start <= header.base_offset < end_offset:
                    marker = None
                    if header.is_control:
                        content = segment.file.pread(header.size_bytes, at)
                        marker = read_marker(content, 0, header)
                    ended = state.record(
                        header, header.base_offset, header.max_timestamp, now_ms, marker
                    )
                    if ended is not None and ended.is_aborted and segment.needs_transactions:
                        segment.aborted.append(aborted_transaction(ended, state))
            segment.needs_transactions = False
        state.end_offset = end_offset
        return state

    def drop_older(self, offset: int) -> None:
        """Remove the snapshots before `offset`, but never the newest one."""
        self._drop([known for known in self._offsets[:-1] if known < offset])

    def drop_newer(self, offset: int) -> None:
        """Remove the snapshots of offsets beyond `offset`: what they describe is gone."""
        self._drop([known for known in self._offsets if known > offset])

    def drop_all(self) -> None:
        """Remove all: the log begins anew, and who wrote before is not known any more."""
        self._drop(self.offsets)

    def drop_at(self, offsets: Iterable[int]) -> None:
        """Remove the snapshots of some offsets (segments that are gone), but never the newest."""
        self._drop([known for known in self._offsets[:-1] if known in set(offsets)])

    def _drop(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self._offsets.remove(offset)
            try:
                self._files.remove(self.path(offset))
            except OSError as error:
                # One too many does no harm while the log runs, and a start checks them all.
                _log.warning("producer snapshot stays: %s", error)
