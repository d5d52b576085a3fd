"""A completeness topic, replayed. `statement.py` has its format. Pure.

A reader may begin anywhere: it knows a worker's partitions after that worker's next vector. Of
several workers that state something of one partition each is right, so the best statement holds:

- of the same generation and leader epoch: the latest time;
- a later generation at a smaller position starts over, and so does another topic id;
- a later leader epoch keeps what is proved, or everything if the source's end has not moved.

Nothing is complete beyond the listing of its worker (`listed_partitions.py`). What is stated by an
older version, which has no listings, counts until the newest listing of the link. Each partition
of the listings is known: if no worker states it, it is complete through a time at which it did
not exist, or unknown.
"""

from __future__ import annotations

import uuid
from collections.abc import Set
from dataclasses import dataclass, replace

from mirror_maker.formats.completeness.listed_partitions import Listed, ListedPartitions
from mirror_maker.formats.completeness.runs import RUNS_MAX, Run, capped, continued, latest
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    Hold,
    Statement,
    decode_statement,
)
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
    listed_ms: int | None
    """Time of the listing that proves which partitions there are; None if no worker has one."""
    is_stated: bool = True
    """Whether a worker states it; if not, a listing names it."""


class CompletenessTopic:
    """A completeness topic: feed every record in log order, query at any time."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], Run] = {}
        self._known: dict[tuple[str, int], PartitionCompleteness] = {}
        self._followed: dict[tuple[str, int], tuple[str, int]] = {}
        """By partition, the run whose entry holds."""
        self._listed = ListedPartitions()

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record. Raises MapFormatError."""
        if value is None:
            raise MapFormatError("a completeness record without a value")
        self.apply(decode_statement(value))

    def apply(self, statement: Statement) -> None:
        """Take in the next statement."""
        if self._listed.take(statement):
            return
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
        run.listed_ms = self._listed.prove(statement)
        for entry in statement.entries:
            run.entries[entry.topic, entry.partition] = entry
            self._merge(name, entry, run)

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

    def _merge(self, name: tuple[str, int], entry: Entry, run: Run) -> None:
        at, written_ms = (entry.topic, entry.partition), run.written_ms
        found = _stated(entry, name[0], run)
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
        is_sampled = entry.end is not None and known.sampled_ms is not None
        asked_ms = run.session_ms(entry) if is_sampled else None
        return replace(
            known,
            sampled_ms=latest(known.sampled_ms, asked_ms),
            complete_through_ms=latest(
                known.complete_through_ms, run.complete_through_ms(entry, asked_ms)
            ),
            proved_through_ms=latest(
                known.proved_through_ms, capped(entry.proved_through_ms, run.listed_ms)
            ),
            written_ms=max(known.written_ms, run.written_ms),
            listed_ms=run.listed_ms,
        )

    # -- queries --------------------------------------------------------------------------------

    def partitions(self) -> list[PartitionCompleteness]:
        """Return what is known of each source partition, sorted."""
        listed = self._listed.topics()
        named = {
            (name, partition)
            for name, each in listed.items()
            for partition in range(each.topic.partitions_count)
        }
        return [
            found
            for at in sorted(named | self._known.keys())
            if (found := self._answer(at, listed.get(at[0]))) is not None
        ]

    def partition(self, topic: str, partition: int) -> PartitionCompleteness | None:
        """Return what is known of one source partition; None if nothing is."""
        return self._answer((topic, partition), self._listed.topics().get(topic))

    @property
    def listed_ms(self) -> int | None:
        """Time of the newest listing; None without one."""
        return self._listed.newest_ms

    def listed_topics(self) -> Set[str]:
        """Return the topics that the source has, as far as any worker knows."""
        return self._listed.topics().keys()

    def _answer(self, at: tuple[str, int], listed: Listed | None) -> PartitionCompleteness | None:
        """Return what is known of a partition, as far as the listings allow."""
        known = self._current(at)
        if listed is not None and at[1] < listed.topic.partitions_count:
            is_other = known is None or known.topic_id != listed.topic.topic_id
            if is_other and (known is None or known.written_ms <= listed.written_ms):
                known = _unstated(at[1], listed)
        if known is None:
            return None
        absent_ms = self._listed.absent_ms(at[0], known.topic_id, at[1])
        newest_ms = self._listed.newest_ms
        through_ms = latest(known.complete_through_ms, absent_ms)
        proved_ms = latest(known.proved_through_ms, absent_ms)
        through_ms = None if newest_ms is None else capped(through_ms, newest_ms)
        proved_ms = None if newest_ms is None else capped(proved_ms, newest_ms)
        listed_ms = newest_ms if known.listed_ms is None else known.listed_ms
        times = known.complete_through_ms, known.proved_through_ms, known.listed_ms
        if times == (through_ms, proved_ms, listed_ms):
            return known  # as nearly always: to make another one takes longer than all the rest
        return replace(
            known,
            complete_through_ms=through_ms,
            proved_through_ms=proved_ms,
            listed_ms=listed_ms,
        )


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
        complete_through_ms=latest(before.complete_through_ms, found.complete_through_ms),
        proved_through_ms=latest(before.proved_through_ms, found.proved_through_ms),
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


def _stated(entry: Entry, worker_id: str, run: Run) -> PartitionCompleteness:
    return PartitionCompleteness(
        topic=entry.topic,
        partition=entry.partition,
        topic_id=entry.topic_id,
        generation=entry.generation,
        position=entry.position,
        epoch=entry.epoch,
        sampled_ms=entry.sampled_ms,
        end=entry.end,
        complete_through_ms=capped(entry.complete_through_ms, run.listed_ms),
        proved_through_ms=capped(entry.proved_through_ms, run.listed_ms),
        gaps=entry.gaps,
        hold=entry.hold,
        worker_id=worker_id,
        written_ms=run.written_ms,
        listed_ms=run.listed_ms,
    )


def _unstated(partition: int, listed: Listed) -> PartitionCompleteness:
    """Return what is known of a partition that only a listing names."""
    return PartitionCompleteness(
        topic=listed.topic.name,
        partition=partition,
        topic_id=listed.topic.topic_id,
        generation=0,
        position=0,
        epoch=-1,
        sampled_ms=None,
        end=None,
        complete_through_ms=None,
        proved_through_ms=None,
        gaps=0,
        hold=NO_HOLD,
        worker_id=listed.worker_id,
        written_ms=listed.written_ms,
        listed_ms=None,
        is_stated=False,
    )
