"""Incremental fetch sessions (KIP-227): what a client reads, remembered between its requests.

A client that asks for a session names its partitions once; later requests name only what changed,
and answers only the partitions with news: records, an error, another high watermark or log start
offset. Semantics are those of Kafka's FetchSession.scala.

Guarantees: at most `slots_max` sessions, each of at most PARTITIONS_PER_SESSION_MAX partitions; a
session that was used within EVICTION_MS is evicted only by a larger one, and not before it is
that old; an epoch that was answered is not answered twice; a partition that was read to its end is
not looked at again before it moves. Pure: time and ids come from outside.

Not here: reading (handlers/p01_fetch.py), the wire (wire/fetch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from local_cluster.fetch_sessions.watches import Watches
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    ForgottenPartition,
    PartitionFetchResponse,
    next_session_epoch,
    records_size_bytes,
)

SLOTS_MAX_DEFAULT: Final = 1_000
"""Kafka's default of max.incremental.fetch.session.cache.slots."""
EVICTION_MS: Final = 120_000
"""How long a session is safe, as min.incremental.fetch.session.eviction.ms in Kafka."""
PARTITIONS_PER_SESSION_MAX: Final = 100_000

Key = tuple[str | int, int]
"""The topic's name, or its id as a number (which hashes faster than a UUID), and the partition."""


class CachedPartition:
    """One partition of a session: what is asked for, and what was told last."""

    __slots__ = ("asked", "high_watermark", "log_start_offset")

    def __init__(self, asked: FetchPartition) -> None:
        self.asked = asked
        self.high_watermark = -1
        self.log_start_offset = -1

    def take_news(self, result: PartitionFetchResponse) -> bool:
        """Whether the client has to be told, and remember that it was."""
        news = (
            records_size_bytes(result.records) > 0
            or result.diverging_epoch is not None
            or result.preferred_read_replica >= 0
        )
        if result.high_watermark != self.high_watermark:
            self.high_watermark = result.high_watermark
            news = True
        if result.log_start_offset != self.log_start_offset:
            self.log_start_offset = result.log_start_offset
            news = True
        if result.error_code or result.diverging_epoch is not None:
            # Nobody takes a high watermark from these: it is news afterwards, and so is their end.
            self.high_watermark = -1
            news = True
        return news

    def ask(self, entry: FetchPartition) -> None:
        """It is named again. At no later place, what was told last may not have been taken."""
        if entry.fetch_offset <= self.asked.fetch_offset:
            self.high_watermark = -1
        self.asked = entry


class FetchSession:
    """One client's partitions, those that had records last at the end."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "on_moved",
        "partitions",
        "unsettled",
        "used_ms",
        "uses_topic_ids",
        "watches",
    )

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        """That the next request has to name."""
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.partitions: dict[Key, CachedPartition] = {}
        self.unsettled: dict[Key, None] = {}
        """The partitions that the next request has to look at."""
        self.watches: Watches[Key] = Watches(self._moved)
        self.on_moved: Callable[[Key], None] | None = None
        """Told of what moves while a request waits."""

    def close(self) -> None:
        self.watches.close()

    def settle(self, key: Key) -> None:
        """Nothing is left to be read until the watch on it says so."""
        self.unsettled.pop(key, None)

    def _moved(self, key: Key) -> None:
        self.unsettled[key] = None
        if self.on_moved is not None:
            self.on_moved(key)

    def update(
        self, asked: Iterable[FetchPartition], forgotten: Iterable[ForgottenPartition]
    ) -> None:
        for entry in asked:
            key = key_of(entry)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(entry)
            else:
                cached.ask(entry)
            self.unsettled[key] = None
        for gone in forgotten:
            key = key_of(gone)
            self.partitions.pop(key, None)
            self.unsettled.pop(key, None)
            self.watches.drop(key)

    def advance(self, now_ms: int) -> None:
        self.epoch = next_session_epoch(self.epoch)
        self.used_ms = now_ms


class FetchContext:
    """One request: what to read, and what of it to tell."""

    def __init__(
        self,
        sessions: FetchSessions,
        partitions: Sequence[FetchPartition],
        *,
        session: FetchSession | None = None,
        wants_session: bool = False,
        uses_topic_ids: bool = False,
    ) -> None:
        self.partitions = partitions
        """What has to be looked at."""
        self.session = session
        """The session that goes on; a new one is not there before its first answer."""
        self._sessions = sessions
        self._epoch = None if session is None else session.epoch
        self._wants_session = wants_session
        self._uses_topic_ids = uses_topic_ids

    def answer(
        self, results: Sequence[PartitionFetchResponse], now_ms: int
    ) -> tuple[ErrorCode, int, Sequence[PartitionFetchResponse]]:
        """(error, session id, what to tell), from one result per partition, in order."""
        if self.session is not None:
            return self._incremental(self.session, results)
        if not self._wants_session:
            return ErrorCode.none, NO_SESSION, results
        session = self._sessions.create(self.partitions, self._uses_topic_ids, now_ms)
        if session is None:
            return ErrorCode.none, NO_SESSION, results
        for result in results:
            session.partitions[key_of(result)].take_news(result)
        return ErrorCode.none, session.id, results

    def _incremental(
        self, session: FetchSession, results: Sequence[PartitionFetchResponse]
    ) -> tuple[ErrorCode, int, Sequence[PartitionFetchResponse]]:
        if session.epoch != self._epoch:
            # Another request of this session was answered while this one waited.
            return ErrorCode.invalid_fetch_session_epoch, session.id, ()
        told = []
        for result in results:
            key = key_of(result)
            cached = session.partitions.get(key)
            if cached is None or not cached.take_news(result):
                continue
            told.append(result)
            if records_size_bytes(result.records):
                # Others come first next time, so that one busy partition starves nobody.
                session.partitions[key] = session.partitions.pop(key)
                session.unsettled.pop(key, None)
                session.unsettled[key] = None
        return ErrorCode.none, session.id, told


class FetchSessions:
    """Every session of a broker."""

    def __init__(self, new_id: Callable[[], int], *, slots_max: int = SLOTS_MAX_DEFAULT) -> None:
        """`new_id` gives random positive int32s."""
        self._new_id = new_id
        self._slots_max = slots_max
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def close(self) -> None:
        """End every session."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def open(
        self,
        session_id: int,
        session_epoch: int,
        asked: Sequence[FetchPartition],
        forgotten: Sequence[ForgottenPartition],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        """What a request with this session id and epoch reads.

        Raises KafkaError: fetch_session_id_not_found, invalid_fetch_session_epoch,
        fetch_session_topic_id_error, invalid_request where the session grows beyond its bound.
        """
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # A full request ends the session that it names.
            ended = self._sessions.pop(session_id, None)
            if ended is not None:
                ended.close()
            return FetchContext(
                self,
                asked,
                wants_session=session_epoch == INITIAL_EPOCH,
                uses_topic_ids=uses_topic_ids,
            )
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != session_epoch:
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.fetch_session_topic_id_error)
        if len(session.partitions) + len(asked) > PARTITIONS_PER_SESSION_MAX:
            self._sessions.pop(session_id).close()
            raise KafkaError(ErrorCode.invalid_request, "the fetch session is too large")
        session.update(asked, forgotten)
        if not session.partitions:
            self._sessions.pop(session_id).close()
            return FetchContext(self, ())
        session.advance(now_ms)
        partitions = [session.partitions[key].asked for key in session.unsettled]
        return FetchContext(self, partitions, session=session)

    def create(
        self, partitions: Sequence[FetchPartition], uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """A new session, None where there is no room for it."""
        if len(partitions) > PARTITIONS_PER_SESSION_MAX or self._slots_max <= 0:
            return None
        if len(self._sessions) >= self._slots_max and not self._evict(len(partitions), now_ms):
            return None
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, uses_topic_ids, now_ms)
        session.update(partitions, ())
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room: the one that was idle for longest, else a smaller one that is old."""
        idle = min(self._sessions.values(), key=lambda session: session.used_ms)
        if now_ms - idle.used_ms <= EVICTION_MS:
            old = [s for s in self._sessions.values() if now_ms - s.created_ms > EVICTION_MS]
            idle_or_none = min(old, key=lambda s: len(s.partitions), default=None)
            if idle_or_none is None or len(idle_or_none.partitions) >= size:
                return False
            idle = idle_or_none
        self._sessions.pop(idle.id).close()
        return True


def key_of(entry: FetchPartition | ForgottenPartition | PartitionFetchResponse) -> Key:
    """What tells a partition from all others, at any version."""
    topic_id = entry.topic_id
    return (entry.topic if topic_id is None else topic_id.int, entry.partition)
