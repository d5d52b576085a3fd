"""A completeness topic, replayed. `statement.py` has its format. Pure.

A reader may begin anywhere: it knows a worker's partitions after that worker's next vector. Of
several workers that state something of one partition each is right, so the best statement holds:

- of the same generation and leader epoch: the latest time;
- a later generation at a smaller position starts over, and so does another topic id;
- a later leader epoch keeps what is proved, or everything if the source's end has not moved.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from mirror_maker.formats.completeness.runs import RUNS_MAX, Run, continued
from mirror_maker.formats.completeness.statement import Entry, Hold, Statement, decode_statement
from mirror_maker.formats.fields import MapFormatError


@dataclass(frozen=True, slots=True)
class PartitionCompleteness:
    """What is known of one source partition. Times are milliseconds of its worker's clock."""

    topic: str
    partition: int
    topic_id: uuid.UUID
    generation: int
    position: int
    epoch: int
    sampled_ms: int | None
    """When the newest sample was taken."""
    end: int | None
    """The source's end in it."""
    complete_through_ms: int | None
    """Every record committed before this time is on the target, or left out; None if unknown."""
    proved_through_ms: int | None
    """The same, whatever a later leader epoch brings."""
    gaps: int
    hold: Hold
    worker_id: str
    written_ms: int
    """When the worker stated it last."""


class CompletenessTopic:
    """A completeness topic: feed every record in log order, query at any time."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], Run] = {}
        self._known: dict[tuple[str, int], PartitionCompleteness] = {}
        self._followed: dict[tuple[str, int], tuple[str, int]] = {}
        """By partition, the run whose entry holds."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record. Raises MapFormatError."""
        if value is None:
            raise MapFormatError("a completeness record without a value")
        self.apply(decode_statement(value))

    def apply(self, statement: Statement) -> None:
        """Take in the next statement."""
        name = statement.worker_id, statement.run
        before = self._runs.get(name)
        run = continued(before, statement)
        if run is not before:
            self._end(name)
        if run is None:
            return
        self._runs[name] = self._runs.pop(name, run)  # last: it has written most recently
        while len(self._runs) > RUNS_MAX:
            self._end(next(iter(self._runs)))
        for entry in statement.entries:
            self._fold(name, (entry.topic, entry.partition))  # by the times of the rounds before
        run.round, run.written_ms = statement.round, statement.written_ms
        run.asked_ms = [each.asked_ms for each in statement.sessions]
        for entry in statement.entries:
            run.entries[entry.topic, entry.partition] = entry
            self._merge(name, entry, statement.written_ms)

    def _end(self, name: tuple[str, int]) -> None:
        """Forget a run, but not what its sessions have proved."""
        run = self._runs.get(name)
        if run is None:
            return
        for at in run.entries:
            self._fold(name, at)
            if self._followed.get(at) == name:
                del self._followed[at]
        del self._runs[name]

    def _fold(self, name: tuple[str, int], at: tuple[str, int]) -> None:
        """Note what the sessions of a run have proved of a partition since it was named."""
        known = self._current(at) if self._followed.get(at) == name else None
        if known is not None:
            self._known[at] = known

    # -- merging --------------------------------------------------------------------------------

    def _merge(self, name: tuple[str, int], entry: Entry, written_ms: int) -> None:
        at = entry.topic, entry.partition
        found = _stated(entry, name[0], written_ms)
        before = self._current(at)
        self._known[at] = found if before is None else merged(before, found)
        if self._known[at].worker_id == name[0] and self._known[at].written_ms == written_ms:
            self._followed[at] = name

    def _current(self, at: tuple[str, int]) -> PartitionCompleteness | None:
        """Return what is known, with what the sessions of its run have proved since."""
        known, name = self._known.get(at), self._followed.get(at)
        run = self._runs.get(name) if name is not None else None
        if known is None or run is None or not run.is_whole:
            return known
        entry = run.entries.get(at)
        if entry is None:
            return known
        if (entry.epoch, entry.topic_id) != (known.epoch, known.topic_id):
            return known
        asked_ms = run.session_ms(entry)
        if asked_ms is None or entry.end is None or known.sampled_ms is None:
            return known
        is_complete = entry.position >= entry.end
        return replace(
            known,
            sampled_ms=max(known.sampled_ms, asked_ms),
            complete_through_ms=(
                _latest(known.complete_through_ms, asked_ms)
                if is_complete
                else known.complete_through_ms
            ),
            written_ms=max(known.written_ms, run.written_ms),
        )

    # -- queries --------------------------------------------------------------------------------

    def partitions(self) -> list[PartitionCompleteness]:
        """Return what is known of each source partition, sorted."""
        return [found for at in sorted(self._known) if (found := self._current(at)) is not None]

    def partition(self, topic: str, partition: int) -> PartitionCompleteness | None:
        """Return what is known of one source partition; None if nothing is."""
        return self._current((topic, partition))


def merged(before: PartitionCompleteness, found: PartitionCompleteness) -> PartitionCompleteness:
    """Return what holds after another statement about the same partition."""
    if found.topic_id != before.topic_id:
        is_newer = found.written_ms >= before.written_ms
        return found if is_newer else before
    if found.generation < before.generation:
        return before
    if found.generation > before.generation and found.position < before.position:
        return found
    if found.epoch < 0 <= before.epoch and found.sampled_ms is None:
        found = replace(found, epoch=before.epoch)  # it knows no epoch yet, but the position
    if found.epoch < before.epoch:
        return before
    if found.epoch > before.epoch >= 0:
        before = _withdrawn(before, found)
    is_newest = found.written_ms >= before.written_ms
    newest = found if is_newest else before
    has_sample = found.sampled_ms is not None and (
        before.sampled_ms is None or found.sampled_ms >= before.sampled_ms
    )
    sample = found if has_sample else before
    return replace(
        newest,
        generation=found.generation,
        position=max(before.position, found.position),
        epoch=found.epoch,
        sampled_ms=sample.sampled_ms,
        end=sample.end,
        complete_through_ms=_latest(before.complete_through_ms, found.complete_through_ms),
        proved_through_ms=_latest(before.proved_through_ms, found.proved_through_ms),
    )


def _withdrawn(
    before: PartitionCompleteness, found: PartitionCompleteness
) -> PartitionCompleteness:
    """Return what remains of statements of an earlier leader epoch."""
    if found.end is not None and found.end == before.end:
        return before
    is_truncated = found.end is not None and before.end is not None and found.end < before.end
    proved_ms = None if is_truncated else before.proved_through_ms
    return replace(
        before,
        sampled_ms=None,
        end=None,
        complete_through_ms=proved_ms,
        proved_through_ms=proved_ms,
    )


def _stated(entry: Entry, worker_id: str, written_ms: int) -> PartitionCompleteness:
    return PartitionCompleteness(
        topic=entry.topic,
        partition=entry.partition,
        topic_id=entry.topic_id,
        generation=entry.generation,
        position=entry.position,
        epoch=entry.epoch,
        sampled_ms=entry.sampled_ms,
        end=entry.end,
        complete_through_ms=entry.complete_through_ms,
        proved_through_ms=entry.proved_through_ms,
        gaps=entry.gaps,
        hold=entry.hold,
        worker_id=worker_id,
        written_ms=written_ms,
    )


def _latest(one: int | None, other: int | None) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)
