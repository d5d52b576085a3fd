"""The producer snapshots of one log: written at every roll and at a clean stop."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from .files import Files
from .producer_snapshot import (
    SNAPSHOT_SUFFIX,
    SnapshotCorruptError,
    decode_snapshot,
    encode_snapshot,
)
from .producer_state import ProducerState
from .scan import iter_file_headers
from .segment import Segment, file_name

_log = logging.getLogger(__name__)


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

        Raises OSError.
        """
        state = ProducerState(segments[0].base_offset)
        for offset in reversed(self._offsets):
            if offset > end_offset:
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
                continue
            for _, header in iter_file_headers(segment.file, position, segment.size_bytes):
                if header.producer_id >= 0 and start <= header.base_offset < end_offset:
                    state.record(header, header.base_offset, header.max_timestamp, now_ms)
        state.end_offset = end_offset
        return state

    def drop_older(self, offset: int) -> None:
        """Remove the snapshots before `offset`, but never the newest one."""
        self._drop([known for known in self._offsets[:-1] if known < offset])

    def drop_newer(self, offset: int) -> None:
        """Remove the snapshots of offsets beyond `offset`: what they describe is gone."""
        self._drop([known for known in self._offsets if known > offset])

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
