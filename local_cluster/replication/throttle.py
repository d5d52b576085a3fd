"""How fast replicas that are not in sync may be filled (KIP-73).

    leader.replication.throttled.rate       of a broker: bytes per second that it sends to replicas
    follower.replication.throttled.rate     ... and that it fetches for its own
    leader.replication.throttled.replicas   of a topic: partition:broker,... or *; the broker leads
    follower.replication.throttled.replicas ... the broker follows

Where the rate is exceeded, a leader leaves throttled replicas that are not in sync out of its
answer, and a follower does not ask for its own: what is in sync is never held back, so that
producers do not wait for a move. All bytes of throttled replicas count, also of those in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from local_cluster.controller.decisions.dynamic_broker_configs import (
    FOLLOWER_RATE,
    LEADER_RATE,
    broker_overrides,
)
from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.replication.rate_quota import (
    UNLIMITED,
    WINDOW_MS_DEFAULT,
    WINDOWS_DEFAULT,
    RateQuota,
)

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
WINDOWS: Final = "replication.quota.window.num"
WINDOW_SECONDS: Final = "replication.quota.window.size.seconds"

ALL: Final = None
"""Every partition of a topic is throttled, whoever holds it."""


class ThrottledSide:
    """What this broker sends as leader, or fetches as follower."""

    def __init__(self, quota: RateQuota, now_ms: Callable[[], int]) -> None:
        self.quota = quota
        self._now_ms = now_ms
        self._topics: dict[str, frozenset[int] | None] = {}
        """Throttled partitions by topic; topics without any are not here."""

    def follow_topic(self, topic: str, partitions: frozenset[int] | None) -> None:
        """What a topic's config says from now on."""
        if partitions is ALL or partitions:
            self._topics[topic] = partitions
        else:
            self._topics.pop(topic, None)

    @property
    def is_used(self) -> bool:
        """Whether any replica is throttled."""
        return bool(self._topics)

    def is_throttled(self, topic: str, partition: int) -> bool:
        """Whether the bytes of the replica count."""
        if topic not in self._topics:
            return False
        partitions = self._topics[topic]
        return partitions is ALL or partition in partitions

    def holds_back(self, topic: str, partition: int) -> bool:
        """Whether a replica that is not in sync has to wait now."""
        return self.is_throttled(topic, partition) and self.quota.is_exceeded(self._now_ms())

    def record(self, topic: str, partition: int, size_bytes: int) -> None:
        """Count what was moved, where it is throttled."""
        if size_bytes and self.is_throttled(topic, partition):
            self.quota.record(size_bytes, self._now_ms())


class ReplicationThrottle:
    """Both sides of one broker, as the metadata says."""

    def __init__(
        self, broker_id: int, broker_config: Mapping[str, str], now_ms: Callable[[], int]
    ) -> None:
        """`now_ms` is monotonic."""
        self._broker_id = broker_id

        def side() -> ThrottledSide:
            quota = RateQuota(
                windows=int(broker_config.get(WINDOWS, WINDOWS_DEFAULT)),
                window_ms=int(broker_config.get(WINDOW_SECONDS, WINDOW_MS_DEFAULT // 1000)) * 1000,
            )
            return ThrottledSide(quota, now_ms)

        self.leader = side()
        self.follower = side()

    def apply(self, changes: Changes, cache: MetadataCache) -> None:
        """Go by what the metadata cache now says."""
        for name in changes.topics:
            self._follow_topic(cache.topics[name])
        for name in (*changes.removed, *changes.deleted):
            if name not in cache.topics:
                self.leader.follow_topic(name, frozenset())
                self.follower.follow_topic(name, frozenset())
        if changes.broker_configs:
            overrides = broker_overrides(cache.broker_configs, self._broker_id)
            self.leader.quota.bytes_per_second_max = int(overrides.get(LEADER_RATE, UNLIMITED))
            self.follower.quota.bytes_per_second_max = int(overrides.get(FOLLOWER_RATE, UNLIMITED))

    def _follow_topic(self, topic: TopicState) -> None:
        for side, name in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
            value = topic.configs.get(name, "")
            side.follow_topic(topic.name, throttled_partitions(value, self._broker_id))


def throttled_partitions(value: str, broker_id: int) -> frozenset[int] | None:
    """The partitions of which this broker's replica is named; ALL for `*`.

    The value was checked when it was set; what an outside tool wrote otherwise throttles nothing.
    """
    if value.strip() == "*":
        return ALL
    named = set()
    for entry in value.split(","):
        partition, _, replica = entry.strip().partition(":")
        if partition.isdecimal() and replica.isdecimal() and int(replica) == broker_id:
            named.add(int(partition))
    return frozenset(named)
