"""The fetch sessions of the followers of one leader (KIP-227). Pure.

They are those of `session_cache.py`, kept apart so that consumers never evict them: one per
follower, and the follower's next full request ends it. An incremental request costs what it names
and what has changed, however many partitions are idle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local_cluster.fetch_sessions.session_cache import FetchContext, FetchSessionCache
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import FINAL_EPOCH, INITIAL_EPOCH, FetchRequest

FOLLOWERS_MAX: Final = 1_000
"""Brokers that have a session here. Any others name all their partitions in each request."""


class FollowerSessions:
    """The sessions by the broker id of the follower."""

    def __init__(self, new_id: Callable[[], int]) -> None:
        """`new_id` returns random positive int32s."""
        self._new_id = new_id
        self._by_follower: dict[int, FetchSessionCache] = {}

    def open(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """Return the context of a request. Raises KafkaError as FetchSessionCache.open does."""
        follower = request.replica_id
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            former = self._by_follower.pop(follower, None)
            if former is not None:
                former.close()
            has_room = len(self._by_follower) < FOLLOWERS_MAX
            sessions = FetchSessionCache(self._new_id, slots_max=1 if has_room else 0)
            if has_room:
                self._by_follower[follower] = sessions
        elif follower in self._by_follower:
            sessions = self._by_follower[follower]
        else:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        return sessions.open(
            request.session_id,
            request.session_epoch,
            request.partitions,
            request.forgotten,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
        )
