"""Where the sources of a link ended at a time T, out of its completeness topic. Pure.

Feed every record from `READ_BACK_MS` before T to the end of the topic. The cut of a partition is
its latest sample at or before T, so T is rounded down to that sample. The samples that count are
those that the topic holds before the partition's first sample after T. So an answer does not change
as the topic grows. Later records can only confirm the sample, or refuse it:

- a new leader epoch whose first sample has another end withdraws a sample that is not proved. A
  leader that was cut off may have given it (`metrics/end_samples.py`);
- one with a smaller end withdraws every sample, because the log was truncated;
- the topic was deleted and re-created, or its copy was started over.

A sample is proved by a larger end in its epoch, or by the same end in the next epoch.

A listing at or after T proves which partitions there were (`listed_partitions.py`). A partition
that did not exist at T, or later, has no records in the cut.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Final

from mirror_maker.formats.completeness.listed_partitions import ListedPartitions
from mirror_maker.formats.completeness.runs import RUNS_MAX, Run, continued
from mirror_maker.formats.completeness.statement import Entry, Statement, decode_statement
from mirror_maker.formats.fields import MapFormatError

READ_BACK_MS: Final = 11 * 60_000
"""How far before T a reader begins: every worker writes a vector in five minutes."""
SAMPLE_AGE_MS_MAX: Final = 60_000
"""How far T is rounded down at most. A worker takes over from another one in this time."""


class CutRefusal(StrEnum):
    """Why a partition has no cut at T."""

    NO_SAMPLE = "no sample"
    """No sample lies in the `SAMPLE_AGE_MS_MAX` before T."""
    NOT_SETTLED = "not settled"
    """There is no sample after T yet, so a later one at or before T may still come."""
    EPOCH = "leader epoch"
    """A new leader epoch has withdrawn the sample."""
    TRUNCATED = "truncated"
    """A new leader had a shorter log."""
    OLD_TOPIC_ID = "old topic id"
    """The source topic was deleted and re-created after T."""
    STARTED_OVER = "started over"
    """The copy was started over after T."""
    NOT_LISTED = "not listed"
    """No listing at or after T says which partitions the source had."""


@dataclass(frozen=True, slots=True)
class CutSample:
    """Every record that the source committed before `sampled_ms` has an offset below `end`."""

    sampled_ms: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class PartitionCut:
    """Where a source partition ended at T, or why that is not known."""

    topic_id: uuid.UUID
    sample: CutSample | None
    is_proved: bool
    """Whether no later leader epoch can withdraw the sample, except for a truncation."""
    refusal: CutRefusal | None
    """None if and only if there is a sample."""
    earlier: CutSample | None
    """Of a refused partition: the latest sample before T that is known, if one is."""


@dataclass(slots=True)
class _Partition:
    """What was read of one partition."""

    topic_id: uuid.UUID
    generation: int
    position: int
    written_ms: int
    epoch: int = -1
    end: int | None = None
    """The largest end of this epoch."""
    chosen: CutSample | None = None
    is_proved: bool = False
    earlier: CutSample | None = None
    is_closed: bool = False
    """Whether a sample after T was read."""
    refusal: CutRefusal | None = None

    def withdraw(self, why: CutRefusal) -> None:
        if self.chosen is not None:
            self.chosen, self.is_proved, self.refusal = None, False, why


class CutReader:
    """A completeness topic, read for the cut at one time: feed records in log order, then ask."""

    def __init__(self, as_of_ms: int) -> None:
        self._as_of_ms = as_of_ms
        self._runs: dict[tuple[str, int], Run] = {}
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._followed: dict[tuple[str, int], Run] = {}
        """By partition, the run that has named it last."""
        self._listed = ListedPartitions()

    def replay(self, value: bytes | None) -> None:
        """Take in the next record. Raises MapFormatError."""
        if value is None:
            raise MapFormatError("a completeness record without a value")
        self.apply(decode_statement(value))

    def apply(self, statement: Statement) -> None:
        """Take in the next statement."""
        if self._listed.take(statement):
            return
        name = statement.worker_id, statement.run
        before = self._runs.pop(name, None)
        run = continued(before, statement)
        if run is not before:
            self._end(before)
        if run is None:
            return
        self._runs[name] = run  # last: it has written most recently
        while len(self._runs) > RUNS_MAX:
            self._end(self._runs.pop(next(iter(self._runs))))
        for entry in statement.entries:
            at = entry.topic, entry.partition
            self._repeat(run, at)  # with the times of earlier rounds
            run.entries.pop(at, None)
        run.round, run.listed_ms = statement.round, self._listed.prove(statement)
        self._advance(run, [each.asked_ms for each in statement.sessions])
        for entry in statement.entries:
            at = entry.topic, entry.partition
            followed = self._followed.get(at)
            if followed is not None:
                self._repeat(followed, at)  # before this worker's samples, as in the log
            run.entries[at], self._followed[at] = entry, run
            self._name(entry, statement.written_ms)
            self._repeat(run, at)

    def cuts(self) -> Mapping[tuple[str, int], PartitionCut]:
        """Return the cut by source topic and partition. The reader takes no more records then."""
        while self._runs:
            self._end(self._runs.popitem()[1])
        cuts = {at: self._cut(at, found) for at, found in self._partitions.items()}
        for name, each in self._listed.topics().items():
            for partition in range(each.topic.partitions_count):
                at = name, partition
                if at not in cuts:
                    nothing = _Partition(each.topic.topic_id, 0, 0, each.written_ms)
                    cuts[at] = self._cut(at, nothing)
        return dict(sorted(cuts.items()))

    def _cut(self, at: tuple[str, int], found: _Partition) -> PartitionCut:
        refusal, sample, is_proved = found.refusal, found.chosen, found.is_proved
        listed_ms = self._listed.newest_ms
        if refusal is None:
            absent_ms = self._listed.absent_ms(at[0], found.topic_id, at[1])
            if sample is None and absent_ms is not None and absent_ms >= self._as_of_ms:
                sample, is_proved = CutSample(self._as_of_ms, 0, -1), True
            elif sample is None or sample.sampled_ms < self._as_of_ms - SAMPLE_AGE_MS_MAX:
                refusal = CutRefusal.NO_SAMPLE
            elif not found.is_closed:
                refusal = CutRefusal.NOT_SETTLED
            elif listed_ms is None or listed_ms < self._as_of_ms:
                refusal = CutRefusal.NOT_LISTED
        is_known = refusal is None
        return PartitionCut(
            topic_id=found.topic_id,
            sample=sample if is_known else None,
            is_proved=is_known and is_proved,
            refusal=refusal,
            earlier=None if is_known else sample or found.earlier,
        )

    # -- runs -----------------------------------------------------------------------------------

    def _end(self, run: Run | None) -> None:
        """Take the last samples of a run that is read no further."""
        if run is not None:
            for at in run.entries:
                self._repeat(run, at)

    def _advance(self, run: Run, asked_ms: list[int | None]) -> None:
        """Set the times of the sessions. Each is a new sample of the partitions that follow it.

        These samples are taken when they matter: here if a session passes T, else when a partition
        is named again.
        """
        passing = {
            index
            for index, (before, after) in enumerate(zip_longest(run.asked_ms, asked_ms))
            if after is not None and (before or 0) <= self._as_of_ms < after
        }
        passed = [at for at, each in run.entries.items() if each.session in passing]
        for at in passed:
            self._repeat(run, at)
        run.asked_ms = asked_ms
        for at in passed:
            self._repeat(run, at)

    def _repeat(self, run: Run, at: tuple[str, int]) -> None:
        """Take the sample that a session repeats of a partition, if it follows one."""
        entry = run.entries.get(at)
        if entry is None:
            return
        asked_ms = run.session_ms(entry)
        found = self._partitions.get(at)
        if found is not None and asked_ms is not None and _is_of(entry, found):
            self._sample(found, entry, asked_ms)

    # -- partitions -----------------------------------------------------------------------------

    def _name(self, entry: Entry, written_ms: int) -> None:
        at = entry.topic, entry.partition
        found = self._partitions.get(at)
        if found is None:
            found = self._partitions[at] = _begun(entry, written_ms)
        elif entry.topic_id != found.topic_id:
            if written_ms < found.written_ms:
                return  # from a worker that has not seen the new topic yet
            found = self._start_over(at, entry, written_ms, CutRefusal.OLD_TOPIC_ID)
        elif entry.generation < found.generation:
            return
        elif entry.generation > found.generation and entry.position < found.position:
            found = self._start_over(at, entry, written_ms, CutRefusal.STARTED_OVER)
        found.generation = entry.generation
        found.position = max(found.position, entry.position)
        found.written_ms = max(found.written_ms, written_ms)
        if entry.sampled_ms is not None:
            self._sample(found, entry, entry.sampled_ms)

    def _start_over(
        self, at: tuple[str, int], entry: Entry, written_ms: int, why: CutRefusal
    ) -> _Partition:
        """Forget the samples of an earlier topic, or copy: the cut is none of them any more."""
        before, after = self._partitions[at], _begun(entry, written_ms)
        has_cut = before.chosen is not None or before.refusal is not None
        after.refusal = why if has_cut else None
        after.is_closed = before.is_closed
        self._partitions[at] = after
        return after

    def _sample(self, found: _Partition, entry: Entry, sampled_ms: int) -> None:
        end, epoch = entry.end, entry.epoch
        if end is None or epoch < found.epoch:
            return
        if epoch > found.epoch or found.end is None:  # a source without epochs has -1
            self._enter(found, end)
            found.epoch, found.end = epoch, end
        if end < found.end:
            return  # an older one, by another worker
        if end > found.end:
            found.end, found.is_proved = end, True
        if sampled_ms > self._as_of_ms:
            found.is_closed = True
        elif not found.is_closed and (
            found.chosen is None or sampled_ms >= found.chosen.sampled_ms
        ):
            if found.chosen is not None and found.chosen.end < end:
                found.earlier = found.chosen
            found.chosen, found.refusal = CutSample(sampled_ms, end, epoch), None
            found.is_proved = False

    def _enter(self, found: _Partition, end: int) -> None:
        """Decide what remains of the samples of the epoch before, by the first end of this one."""
        if found.end is None:
            return
        if end < found.end:
            found.withdraw(CutRefusal.TRUNCATED)
            found.earlier, found.is_proved = None, False
        elif end == found.end:
            found.is_proved = True
        elif not found.is_proved:
            found.withdraw(CutRefusal.EPOCH)


def _begun(entry: Entry, written_ms: int) -> _Partition:
    return _Partition(entry.topic_id, entry.generation, entry.position, written_ms)


def _is_of(entry: Entry, found: _Partition) -> bool:
    return (entry.topic_id, entry.generation) == (found.topic_id, found.generation)
