"""One fetch session: what its client fetches, and the last response for it. Pure.

The semantics are those of Kafka's FetchSession.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from local_cluster.fetch_sessions.watches import Watches
from local_cluster.wire.fetch import (
    INITIAL_EPOCH,
    FetchPartition,
    ForgottenPartition,
    PartitionFetchResponse,
    next_session_epoch,
    records_size_bytes,
)

UNKNOWN_OFFSET: Final = -1

Key = tuple[str | int, int]
"""The topic's name, or its id as a number (which hashes faster than a UUID), and the partition."""


class CachedPartition:
    """One partition of a session: the last request for it, and the last response."""

    __slots__ = ("high_watermark", "log_start_offset", "requested")

    def __init__(self, requested: FetchPartition) -> None:
        self.requested = requested
        self.high_watermark = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET

    def update_response(self, result: PartitionFetchResponse) -> bool:
        """Record a result. Return whether the response has to include it."""
        is_included = (
            records_size_bytes(result.records) > 0
            or result.diverging_epoch is not None
            or result.preferred_read_replica >= 0
        )
        if result.high_watermark != self.high_watermark:
            self.high_watermark = result.high_watermark
            is_included = True
        if result.log_start_offset != self.log_start_offset:
            self.log_start_offset = result.log_start_offset
            is_included = True
        if result.error_code or result.diverging_epoch is not None:
            # The client takes no high watermark from these. The next result is included for it.
            self.high_watermark = UNKNOWN_OFFSET
            is_included = True
        return is_included

    def differs(self, result: PartitionFetchResponse) -> bool:
        """Return whether a response has to include a result, and record nothing."""
        return (
            records_size_bytes(result.records) > 0
            or result.diverging_epoch is not None
            or result.preferred_read_replica >= 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.error_code != 0
        )

    def update_request(self, requested: FetchPartition) -> None:
        """Record that a request names the partition again.

        At the same or an earlier offset the client may have lost the last response.
        """
        if requested.fetch_offset <= self.requested.fetch_offset:
            self.high_watermark = UNKNOWN_OFFSET
        self.requested = requested


class FetchSession:
    """The partitions of one client. Those that had records last are at the end."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "on_changed",
        "on_closed",
        "partitions",
        "pending",
        "used_ms",
        "uses_topic_ids",
        "watches",
    )

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        """The epoch that the next request must name."""
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.partitions: dict[Key, CachedPartition] = {}
        self.pending: dict[Key, None] = {}
        """The partitions that the next request has to read."""
        self.watches: Watches[Key] = Watches(self._changed)
        self.on_changed: Callable[[Key], None] | None = None
        """Called for a change while a request waits."""
        self.on_closed: Callable[[], None] | None = None
        """Called at the end of the session while a request waits."""

    def close(self) -> None:
        """End every watch. A request that waits would hear of no change."""
        self.watches.close()
        if self.on_closed is not None:
            self.on_closed()

    def settle(self, key: Key) -> None:
        """Do not read a partition again before it changes: it was read to its end."""
        self.pending.pop(key, None)

    def read_all_again(self) -> None:
        """Have the next request read every partition."""
        self.pending = dict.fromkeys(self.partitions)

    def update(
        self, requested: Iterable[FetchPartition], forgotten: Iterable[ForgottenPartition]
    ) -> None:
        """Take over the partitions that a request names or forgets."""
        for entry in requested:
            key = key_of(entry)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(entry)
            else:
                cached.update_request(entry)
            self.pending[key] = None
        for dropped in forgotten:
            key = key_of(dropped)
            self.partitions.pop(key, None)
            self.pending.pop(key, None)
            self.watches.drop(key)

    def advance(self, now_ms: int) -> None:
        """Advance the epoch for a request, and mark the session used."""
        self.epoch = next_session_epoch(self.epoch)
        self.used_ms = now_ms

    def select_changed(
        self, results: Iterable[PartitionFetchResponse]
    ) -> list[PartitionFetchResponse]:
        """Return the results that the response has to include."""
        changed = []
        for result in results:
            key = key_of(result)
            cached = self.partitions.get(key)
            if cached is None or not cached.update_response(result):
                continue
            changed.append(result)
            if records_size_bytes(result.records):
                # The others come first next time, so that one busy partition starves none.
                self.partitions[key] = self.partitions.pop(key)
                self.pending.pop(key, None)
                self.pending[key] = None
        return changed

    def _changed(self, key: Key) -> None:
        self.pending[key] = None
        if self.on_changed is not None:
            self.on_changed(key)


def key_of(entry: FetchPartition | ForgottenPartition | PartitionFetchResponse) -> Key:
    """Return the key of a partition, at any version."""
    topic_id = entry.topic_id
    return (entry.topic if topic_id is None else topic_id.int, entry.partition)
