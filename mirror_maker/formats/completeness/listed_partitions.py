"""Which partitions the source of a link has, by the listings of its workers. Pure.

Nothing is complete beyond the newest listing: the source may have partitions since that no worker
knows. All partitions of the listings count, whether a worker states something about them or not.

Each worker lists by itself. The listings of one that has stopped count until another one has listed
`AGE_MS_MAX` later. A worker that writes on counts, however late its clock is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror_maker.formats.completeness.listing import (
    ListedTopic,
    ListingPart,
    listed_ms,
    listing_part,
)
from mirror_maker.formats.completeness.runs import RUNS_MAX
from mirror_maker.formats.completeness.statement import Statement

AGE_MS_MAX: Final = 60_000
"""How much older than a listing that was stated after it another one may be to count."""
ADDED_MAX: Final = 100_000
"""Added partitions that are remembered; the oldest go first."""


class Listed(NamedTuple):
    """A topic of a listing, with who wrote it and when."""

    topic: ListedTopic
    worker_id: str
    written_ms: int


@dataclass(slots=True)
class _Lister:
    """The listings of one life of a worker."""

    worker_id: str
    round: int
    """Of the newest listing."""
    written_ms: int
    topics: list[ListedTopic] = field(default_factory=list)
    listed_ms: int | None = None
    """The newest time of a statement that followed it."""
    parts_missing: int = 0
    """Parts of a newer listing that were not read yet; `incoming` has the others."""
    incoming_round: int = -1
    incoming: list[ListedTopic] = field(default_factory=list)


class ListedPartitions:
    """The listings of a completeness topic: feed every record in log order."""

    def __init__(self) -> None:
        self._listers: dict[tuple[str, int], _Lister] = {}
        """By worker and run."""
        self._absent: dict[tuple[str, uuid.UUID, int], int] = {}
        """By topic, topic id and partition: a time at which it did not exist."""
        self.newest_ms: int | None = None
        """Time of the newest listing; None without one."""

    def take(self, statement: Statement) -> bool:
        """Take in a record of a listing; return whether it is one. Raises MapFormatError."""
        part = listing_part(statement)
        if part is None:
            return False
        name = part.worker_id, part.run
        lister = self._listers.pop(name, None) or _Lister(part.worker_id, -1, part.written_ms)
        self._listers[name] = lister  # last: it has written most recently
        while len(self._listers) > RUNS_MAX:
            del self._listers[next(iter(self._listers))]
        if part.round <= lister.round:
            return True  # written before, and arrived late
        if part.part == 0:
            lister.parts_missing, lister.incoming = part.parts, []
            lister.incoming_round = part.round
        if part.round != lister.incoming_round:
            return True  # its first part was not read
        lister.parts_missing -= 1
        lister.incoming += part.topics
        if lister.parts_missing == 0:
            lister.round, lister.written_ms = part.round, part.written_ms
            lister.topics, lister.incoming = lister.incoming, []
        self._note_added(part)
        return True

    def _note_added(self, part: ListingPart) -> None:
        for topic in part.topics:
            if topic.absent_ms is None:
                continue
            for partition in range(topic.added_from, topic.partitions_count):
                key = topic.name, topic.topic_id, partition
                self._absent[key] = max(topic.absent_ms, self._absent.pop(key, topic.absent_ms))
        while len(self._absent) > ADDED_MAX:
            del self._absent[next(iter(self._absent))]

    def prove(self, statement: Statement) -> int | None:
        """Return until when the listings of a statement's worker are known; None if they are not.

        Call it with each statement whose run is known without a hole.
        """
        time_ms = listed_ms(statement)
        lister = self._listers.get((statement.worker_id, statement.run))
        if time_ms is None or lister is None or lister.parts_missing != 0:
            return None
        if statement.is_vector and lister.round != statement.round:
            return None  # the listing before this vector was not read
        name = statement.worker_id, statement.run
        self._listers[name] = self._listers.pop(name)  # last, as above
        lister.listed_ms = time_ms
        self.newest_ms = time_ms if self.newest_ms is None else max(self.newest_ms, time_ms)
        return time_ms

    def topics(self) -> Mapping[str, Listed]:
        """Return the topics that the source has now, as far as any worker knows."""
        found: dict[str, Listed] = {}
        for _, lister in sorted(self._counting(), key=lambda each: each[0]):
            for topic in lister.topics:
                other = found.get(topic.name)
                if (
                    other is None
                    or other.topic.topic_id != topic.topic_id
                    or other.topic.partitions_count <= topic.partitions_count
                ):
                    found[topic.name] = Listed(topic, lister.worker_id, lister.written_ms)
        return found

    def _counting(self) -> Iterator[tuple[int, _Lister]]:
        """Yield the listings that count, with their times."""
        newest_ms = None
        for lister in reversed(self._listers.values()):
            if lister.listed_ms is None:
                continue
            if newest_ms is None or lister.listed_ms >= newest_ms - AGE_MS_MAX:
                yield lister.listed_ms, lister
            newest_ms = max(lister.listed_ms, newest_ms or 0)

    def absent_ms(self, topic: str, topic_id: uuid.UUID, partition: int) -> int | None:
        """Return a time at which a partition did not exist; None if none is known."""
        return self._absent.get((topic, topic_id, partition))
