"""What each follower fetches from here, remembered between its requests (KIP-227).

The sessions of followers are those of `session_cache.py`, kept apart so that consumers never push
them out: one per follower, which its next full request ends. An incremental request costs what is
named in it and what moved, however many partitions are at rest. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local_cluster.fetch_sessions.session_cache import FetchContext, FetchSessionCache
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import FINAL_EPOCH, INITIAL_EPOCH, FetchRequest

FOLLOWERS_MAX: Final = 1_000
"""Brokers that have a session here; any more name all their partitions in each request."""


class FollowerSessions:
    """Those of one leader, by the follower's broker id."""

    def __init__(self, new_id: Callable[[], int]) -> None:
        """`new_id` gives random positive int32s."""
        self._new_id = new_id
        self._by_follower: dict[int, FetchSessionCache] = {}

    def open(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """What a follower's request reads. Raises KafkaError as FetchSessionCache.open does."""
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
