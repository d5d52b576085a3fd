"""How fast replicas outside the ISR may be filled (KIP-73).

    leader.replication.throttled.rate       of a broker: bytes per second sent to replicas
    follower.replication.throttled.rate     of a broker: bytes per second fetched for replicas
    leader.replication.throttled.replicas   of a topic: partition:broker,... or *; the broker leads
    follower.replication.throttled.replicas of a topic: the same; the broker follows

Above the rate a leader leaves throttled replicas outside the ISR out of its response, and a
follower does not fetch its own. Replicas in the ISR never wait, so producers do not wait for a
reassignment. All bytes of throttled replicas count, those of replicas in the ISR too.
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
"""Every partition of the topic is throttled, on every broker."""


class ThrottledSide:
    """The throttle of what this broker sends as leader, or of what it fetches as follower."""

    def __init__(self, quota: RateQuota, now_ms: Callable[[], int]) -> None:
        self.quota = quota
        self._now_ms = now_ms
        self._topics: dict[str, frozenset[int] | None] = {}
        """Throttled partitions by topic, for topics that have any."""

    def set_throttled(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Set the throttled partitions of a topic, or ALL."""
        if partitions is ALL or partitions:
            self._topics[topic] = partitions
        else:
            self._topics.pop(topic, None)

    @property
    def is_used(self) -> bool:
        """Whether any replica is throttled."""
        return bool(self._topics)

    def is_throttled(self, topic: str, partition: int) -> bool:
        """Whether the bytes of a replica count."""
        if topic not in self._topics:
            return False
        partitions = self._topics[topic]
        return partitions is ALL or partition in partitions

    def must_wait(self, topic: str, partition: int) -> bool:
        """Whether a replica outside the ISR has to wait now."""
        return self.is_throttled(topic, partition) and self.quota.is_exceeded(self._now_ms())

    def record(self, topic: str, partition: int, size_bytes: int) -> None:
        """Count the bytes of a replica if it is throttled."""
        if size_bytes and self.is_throttled(topic, partition):
            self.quota.record(size_bytes, self._now_ms())


class ReplicationThrottle:
    """The throttles of one broker, as the metadata configures them."""

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
        """Take over changed configs from the metadata cache."""
        for name in changes.topics:
            self._apply_topic(cache.topics[name])
        for name in (*changes.removed, *changes.deleted):
            if name not in cache.topics:
                self.leader.set_throttled(name, frozenset())
                self.follower.set_throttled(name, frozenset())
        if changes.broker_configs:
            overrides = broker_overrides(cache.broker_configs, self._broker_id)
            self.leader.quota.bytes_per_second_max = int(overrides.get(LEADER_RATE, UNLIMITED))
            self.follower.quota.bytes_per_second_max = int(overrides.get(FOLLOWER_RATE, UNLIMITED))

    def _apply_topic(self, topic: TopicState) -> None:
        for side, name in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
            value = topic.configs.get(name, "")
            side.set_throttled(topic.name, throttled_partitions(value, self._broker_id))


def throttled_partitions(value: str, broker_id: int) -> frozenset[int] | None:
    """Return the partitions whose replica on this broker is throttled; ALL for `*`.

    The value was checked when it was set. A bad value from an outside tool throttles nothing.
    """
    if value.strip() == "*":
        return ALL
    named = set()
    for entry in value.split(","):
        partition, _, replica = entry.strip().partition(":")
        if partition.isdecimal() and replica.isdecimal() and int(replica) == broker_id:
            named.add(int(partition))
    return frozenset(named)
