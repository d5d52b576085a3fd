"""What a worker states about completeness in each round. Pure.

The first round has a vector of all partitions, and so has one after a failed write, which readers
may have missed. Rounds between vectors have only what has changed. An idle partition takes no room:
each round has the times of the sessions that prove its end again.

Each round also has the time of the newest listing of the source. The listing itself precedes a
vector, and a round whose listing is not the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.listing import (
    LISTED_NODE,
    ListedTopic,
    Listing,
    listing_statements,
)
from mirror_maker.formats.completeness.statement import (
    Entry,
    SourceSession,
    Statement,
    split_vector,
)
from mirror_maker.metrics.lag import LastAnswer

VECTOR_MS: Final = 300_000
"""Time between two vectors: a reader that begins anywhere waits for one."""


class Statements:
    """The rounds of one life of a worker."""

    def __init__(self, worker_id: str, run: int) -> None:
        self._worker_id = worker_id
        self._run = run
        self._round = 0
        self._sessions: list[LastAnswer] = []
        self._stated: dict[TopicPartition, Entry] = {}
        """The last entry of each partition."""
        self._vector_ms: int | None = None
        """When the last vector was written; None if readers need one."""
        self._listed: Sequence[ListedTopic] | None = None
        """The topics of the last listing that was written."""

    def session_index(self, session: LastAnswer) -> int:
        """Return the index of a session; a new one is added."""
        for index, known in enumerate(self._sessions):
            if known is session:
                return index
        self._sessions.append(session)
        return len(self._sessions) - 1

    def stated(self, at: TopicPartition) -> Entry | None:
        """Return what was last stated of a partition."""
        return self._stated.get(at)

    def forget(self, at: TopicPartition) -> None:
        """Leave a partition out of later vectors: another worker copies it."""
        self._stated.pop(at, None)

    def next_round(
        self,
        changed: Mapping[TopicPartition, Entry],
        listing: Listing | None,
        now_ms: int,
        monotonic_ms: int,
    ) -> list[Statement]:
        """Return the records of the next round; the caller reports a failed write by `failed`."""
        self._round += 1
        news = [entry for at, entry in changed.items() if self._stated.get(at) != entry]
        self._stated.update(changed)
        is_vector = self._vector_ms is None or monotonic_ms >= self._vector_ms + VECTOR_MS
        if is_vector:
            self._vector_ms = monotonic_ms
            news = list(self._stated.values())
        sessions = [SourceSession(each.node_id, each.asked_ms) for each in self._sessions]
        listings: list[Statement] = []
        if listing is not None:
            sessions.append(SourceSession(LISTED_NODE, listing.asked_ms))
            if is_vector or listing.topics is not self._listed:
                listings += self._listing(listing, now_ms)
        news.sort(key=lambda each: (each.topic, each.partition))
        statement = Statement(
            is_vector=is_vector,
            worker_id=self._worker_id,
            run=self._run,
            round=self._round,
            part=0,
            parts=1,
            written_ms=now_ms,
            sessions=tuple(sessions),
            entries=tuple(news),
        )
        return listings + (list(split_vector(statement)) if is_vector else [statement])

    def _listing(self, listing: Listing, now_ms: int) -> list[Statement]:
        self._listed = listing.topics
        return list(
            listing_statements(
                listing,
                worker_id=self._worker_id,
                run=self._run,
                round_number=self._round,
                written_ms=now_ms,
            )
        )

    def failed(self) -> None:
        """Note that the last round may not have been written."""
        self._vector_ms = None
