"""When a record was committed and copied, by the completeness topic of a link. Pure.

About once a second a worker states where the source ended and how far it has copied
(`mirror_maker/formats/completeness/statement.py`). For one source offset that gives bounds:

    committed, not before   a sample of the source that ended at or below it
    committed, not after    the first statement with an end above it
    passed, not before      the last statement of the same worker whose position is not beyond it
    passed, not after       the first statement with a position beyond it

A sample of an earlier leader epoch than the record's batch proves nothing: a leader that was cut
off gives samples too. A larger generation with a smaller position copies again, and counts anew.
A partition that a whole round does not name has not moved since. One without a fetch session may
belong to another worker by then, so only its passing counts.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.listing import listed_ms
from mirror_maker.formats.completeness.runs import RUNS_MAX, Run, continued
from mirror_maker.formats.completeness.statement import Entry, Statement
from topology.tracing.facts import NOTHING_STATED, Bounds, Stated


@dataclass(slots=True)
class _Life:
    """One life of a worker."""

    run: Run
    behind_ms: int | None = None
    """When it last stated a position that is not beyond the record."""


@dataclass(slots=True)
class StatedTimes:
    """The times of one source offset: feed statements in log order, query at any time."""

    at: TopicPartition
    offset: int
    topic_id: uuid.UUID | None
    leader_epoch: int | None
    """Of the record's batch; None if unknown, then no sample bounds the commit from below."""
    generation: int | None = None
    """Of the statement that passed the record."""
    found: Stated = NOTHING_STATED
    _lives: dict[tuple[str, int], _Life] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether later statements can add nothing."""
        return self.found.complete_from_ms is not None

    def apply(self, statement: Statement) -> None:
        """Take in the next statement."""
        name = statement.worker_id, statement.run
        life = self._lives.pop(name, None)
        run = continued(None if life is None else life.run, statement)
        if run is None:
            return
        if life is None or run is not life.run:
            life = _Life(run, None if life is None else life.behind_ms)
        self._lives[name] = life  # last: it has written most recently
        if len(self._lives) > RUNS_MAX:
            del self._lives[next(iter(self._lives))]
        run.round, run.written_ms = statement.round, statement.written_ms
        run.asked_ms = [each.asked_ms for each in statement.sessions]
        run.listed_ms = listed_ms(statement)
        for entry in statement.entries:
            if (entry.topic, entry.partition) == self.at:
                run.entries[self.at] = entry
        if (at := run.entries.get(self.at)) is not None and self._is_of_topic(at):
            self._take(at, life, statement.worker_id)

    def _is_of_topic(self, entry: Entry) -> bool:
        return self.topic_id is None or entry.topic_id in (self.topic_id, uuid.UUID(int=0))

    def _take(self, entry: Entry, life: _Life, worker_id: str) -> None:
        if self._is_copied_again(entry):
            self.found = Stated(committed=self.found.committed)
            self.generation = None
        self._take_end(entry, life.run)
        if entry.position > self.offset:
            self._take_passed(entry, life, worker_id)
        elif entry.session is not None:
            life.behind_ms = life.run.written_ms

    def _is_copied_again(self, entry: Entry) -> bool:
        return (
            self.generation is not None
            and entry.generation > self.generation
            and entry.position <= self.offset
        )

    def _take_end(self, entry: Entry, run: Run) -> None:
        if entry.end is None:
            return
        committed = self.found.committed
        if entry.end > self.offset:
            committed = committed.no_later_than(run.written_ms)
        elif self.leader_epoch is not None and entry.epoch >= self.leader_epoch:
            times = (entry.sampled_ms, run.session_ms(entry))
            known = [each for each in times if each is not None]
            committed = committed.no_earlier_than(max(known, default=None))
        self.found = self.found._replace(committed=committed)

    def _take_passed(self, entry: Entry, life: _Life, worker_id: str) -> None:
        written_ms = life.run.written_ms
        if self.found.passed.not_after_ms is None:
            passed = Bounds(life.behind_ms, written_ms).without_conflict()
            self.found = self.found._replace(passed=passed, worker_id=worker_id)
            self.generation = entry.generation
        committed_ms = self.found.committed.not_after_ms
        through_ms = life.run.complete_through_ms(entry, life.run.session_ms(entry))
        if self.found.complete_from_ms is None and None not in (committed_ms, through_ms):
            assert committed_ms is not None and through_ms is not None
            if through_ms >= committed_ms:
                self.found = self.found._replace(complete_from_ms=written_ms)
