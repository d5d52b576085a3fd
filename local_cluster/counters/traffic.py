"""Records and bytes by topic, as in Kafka's BrokerTopicMetrics.

The replicas of a topic share one object. A deleted topic's counts stay in the sums of all topics,
because a counter must not decrease.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

FIELDS: Final = (
    "messages_in",
    "bytes_in",
    "bytes_out",
    "replication_bytes_in",
    "replication_bytes_out",
    "produce_requests",
    "failed_produce_requests",
    "fetch_requests",
    "failed_fetch_requests",
)


class TopicTraffic:
    """The traffic of one topic on this broker."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        """Records that producers appended; an offset range counts as its length."""
        self.bytes_in = 0
        """Bytes of batches from producers, as compressed."""
        self.bytes_out = 0
        """Bytes of batches to consumers."""
        self.replication_bytes_in = 0
        """Bytes that this broker fetched as follower."""
        self.replication_bytes_out = 0
        """Bytes to followers."""
        self.produce_requests = 0
        """Appends by producers, one per partition of a request."""
        self.failed_produce_requests = 0
        self.fetch_requests = 0
        """Reads for consumers and followers, one per partition and attempt."""
        self.failed_fetch_requests = 0

    def values(self) -> tuple[int, ...]:
        """Return the counts in the order of FIELDS."""
        return tuple(getattr(self, name) for name in FIELDS)


class TopicsTraffic:
    """The traffic of every topic that has a replica here."""

    __slots__ = ("_dropped", "_topics", "unknown")

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._dropped = [0] * len(FIELDS)
        self.unknown = TopicTraffic()
        """Requests for partitions that have no replica here. Their topics are not kept by name:
        clients could make up any number of them."""

    def of(self, topic: str) -> TopicTraffic:
        """Return the counters of a topic that has a replica here."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def drop(self, topic: str) -> None:
        """Forget a topic without replicas; its counts stay in the sums."""
        dropped = self._topics.pop(topic, None)
        if dropped is not None:
            self._dropped = [a + b for a, b in zip(self._dropped, dropped.values(), strict=True)]

    def __iter__(self) -> Iterator[tuple[str, TopicTraffic]]:
        yield from tuple(self._topics.items())

    def sums(self) -> tuple[int, ...]:
        """Return the counts of all topics since the start, in the order of FIELDS."""
        counts = [self._dropped, self.unknown.values()]
        counts += [each.values() for each in self._topics.values()]
        return tuple(map(sum, zip(*counts, strict=True)))
