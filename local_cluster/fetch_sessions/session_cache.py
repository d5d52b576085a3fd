"""The incremental fetch sessions of a broker's consumers (KIP-227). Pure.

A client that wants a session names its partitions once. Later requests name only changes, and
responses include only partitions that have changed: records, an error, another high watermark or
log start offset. The semantics are those of Kafka's FetchSession.scala.

Guarantees:
- There are at most `slots_max` sessions, with at most PARTITIONS_PER_SESSION_MAX partitions each.
- A session that was used within EVICTION_MS is evicted only by a larger one, and only if it is
  older than EVICTION_MS.
- An epoch that was answered is not answered again.
- A partition that was read to its end is not read again before it changes.

Not here: reads (handlers/data/), the wire format (wire/fetch/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from local_cluster.fetch_sessions.session import FetchSession, key_of
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    ForgottenPartition,
    PartitionFetchResponse,
)

SLOTS_MAX_DEFAULT: Final = 1_000
"""Kafka's default of max.incremental.fetch.session.cache.slots."""
EVICTION_MS: Final = 120_000
"""Kafka's min.incremental.fetch.session.eviction.ms."""
PARTITIONS_PER_SESSION_MAX: Final = 100_000


class FetchContext:
    """One request: what it reads, and which results its response includes."""

    def __init__(
        self,
        sessions: FetchSessionCache,
        partitions: Sequence[FetchPartition],
        *,
        session: FetchSession | None = None,
        wants_session: bool = False,
        uses_topic_ids: bool = False,
    ) -> None:
        self.partitions = partitions
        """What the request has to read."""
        self.session = session
        """The session that continues. A new one exists only after the first response."""
        self._sessions = sessions
        self._epoch = None if session is None else session.epoch
        self._wants_session = wants_session
        self._uses_topic_ids = uses_topic_ids

    def answer(
        self, results: Sequence[PartitionFetchResponse], now_ms: int
    ) -> tuple[ErrorCode, int, Sequence[PartitionFetchResponse]]:
        """Return (error, session id, results to include), from one result per partition."""
        if self.session is not None:
            if self.session.epoch != self._epoch:
                # Another request of this session was answered while this one waited.
                return ErrorCode.invalid_fetch_session_epoch, self.session.id, ()
            return ErrorCode.none, self.session.id, self.session.select_changed(results)
        if not self._wants_session:
            return ErrorCode.none, NO_SESSION, results
        session = self._sessions.create(self.partitions, self._uses_topic_ids, now_ms)
        if session is None:
            return ErrorCode.none, NO_SESSION, results
        for result in results:
            session.partitions[key_of(result)].update_response(result)
        return ErrorCode.none, session.id, results

    def preview(
        self, results: Sequence[PartitionFetchResponse]
    ) -> Sequence[PartitionFetchResponse]:
        """Return the results that `answer` would include, and record nothing."""
        if self.session is None:
            return results
        cached = self.session.partitions
        return [
            result
            for result in results
            if (key := key_of(result)) in cached and cached[key].differs(result)
        ]

    def answer_throttled(self) -> tuple[ErrorCode, int]:
        """Return (error, session id) of a response without partitions.

        A session continues, and its next response includes what this one left out. No session
        begins.
        """
        if self.session is None:
            return ErrorCode.none, NO_SESSION
        if self.session.epoch != self._epoch:
            return ErrorCode.invalid_fetch_session_epoch, self.session.id
        return ErrorCode.none, self.session.id


class FetchSessionCache:
    """Every session of a broker's consumers."""

    def __init__(
        self,
        new_id: Callable[[], int],
        *,
        slots_max: int = SLOTS_MAX_DEFAULT,
        partitions_max: int = PARTITIONS_PER_SESSION_MAX,
    ) -> None:
        """`new_id` returns random positive int32s. A session has at most `partitions_max`."""
        self._new_id = new_id
        self._partitions_max = partitions_max
        self._slots_max = slots_max
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def close(self) -> None:
        """End every session."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def read_all_again(self) -> None:
        """Have the next request of each session read every partition: rights have changed."""
        for session in self._sessions.values():
            session.read_all_again()

    def open(
        self,
        session_id: int,
        session_epoch: int,
        requested: Sequence[FetchPartition],
        forgotten: Sequence[ForgottenPartition],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        """Return the context of a request with this session id and epoch.

        Raises KafkaError: fetch_session_id_not_found, invalid_fetch_session_epoch,
        fetch_session_topic_id_error, invalid_request if the session grows too large.
        """
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # A full request ends the session that it names.
            ended = self._sessions.pop(session_id, None)
            if ended is not None:
                ended.close()
            return FetchContext(
                self,
                requested,
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
        if self._is_too_large(session, requested):
            self._sessions.pop(session_id).close()
            raise KafkaError(
                ErrorCode.invalid_request,
                f"a fetch session has at most {self._partitions_max} partitions",
            )
        session.update(requested, forgotten)
        if not session.partitions:
            self._sessions.pop(session_id).close()
            return FetchContext(self, ())
        session.advance(now_ms)
        partitions = [session.partitions[key].requested for key in session.pending]
        return FetchContext(self, partitions, session=session)

    def _is_too_large(self, session: FetchSession, requested: Sequence[FetchPartition]) -> bool:
        """Whether a session would have too many partitions; those that it has count once."""
        if len(session.partitions) + len(requested) <= self._partitions_max:
            return False
        keys = {key_of(each) for each in requested}
        new = sum(key not in session.partitions for key in keys)
        return len(session.partitions) + new > self._partitions_max

    def create(
        self, partitions: Sequence[FetchPartition], uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """Create a session. Return None if there is no room for it."""
        if len(partitions) > self._partitions_max or self._slots_max <= 0:
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
        """Evict the session that was idle longest, else a smaller one that is old."""
        evicted = min(self._sessions.values(), key=lambda session: session.used_ms)
        if now_ms - evicted.used_ms <= EVICTION_MS:
            old = [s for s in self._sessions.values() if now_ms - s.created_ms > EVICTION_MS]
            smallest = min(old, key=lambda s: len(s.partitions), default=None)
            if smallest is None or len(smallest.partitions) >= size:
                return False
            evicted = smallest
        self._sessions.pop(evicted.id).close()
        return True
