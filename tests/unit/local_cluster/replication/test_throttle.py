"""Which replicas are throttled by the configs of topics and brokers, and when they wait."""

from __future__ import annotations

import pytest

from local_cluster.controller.model.cluster_image import ClusterImage, TopicState, difference
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.replication.rate_quota import UNLIMITED
from local_cluster.replication.throttle import ReplicationThrottle, throttled_partitions
from tests.unit.local_cluster.controller.samples import partition, topic, topic_id


@pytest.mark.parametrize(
    ("value", "partitions"),
    [
        ("", frozenset()),
        ("0:1,1:2,2:1", frozenset({0, 2})),
        (" 0:1 , 3:1 ", frozenset({0, 3})),
        ("*", None),
        ("0:2", frozenset()),
        ("what:ever,1", frozenset()),
    ],
)
def test_the_replicas_of_a_broker(value: str, partitions: frozenset[int] | None) -> None:
    assert throttled_partitions(value, 1) == partitions


class Followed:
    """A throttle of broker 1 behind a metadata cache."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.cache = MetadataCache()
        self.throttle = ReplicationThrottle(1, {}, lambda: self.now_ms)
        self.sequence = 0

    def show(
        self,
        *topics: TopicState,
        configs: dict[str, dict[str, str]] | None = None,
        deleted: str | None = None,
    ) -> None:
        self.sequence += 1
        deletions = {} if deleted is None else {deleted: topic_id(deleted)}
        shown = {each.name: each for each in topics}
        image = ClusterImage(1, 1, self.sequence, {}, shown, deletions, configs or {})
        delta = difference(None, image, self.cache.broker_epoch)
        self.throttle.apply(self.cache.apply(delta), self.cache)


RATE = "leader.replication.throttled.rate"


def throttled(value: str) -> TopicState:
    return topic("t", partition(0, 1), leader_replication_throttled_replicas=value)


def test_only_throttled_replicas_wait() -> None:
    followed = Followed()
    leader = followed.throttle.leader
    followed.show(throttled("0:1,1:2"), configs={"1": {RATE: "1000"}})
    leader.record("t", 1, 1_000_000)
    assert not leader.must_wait("t", 0), "bytes of other replicas do not count"
    leader.record("t", 0, 1_001)
    assert leader.must_wait("t", 0)
    assert not leader.must_wait("t", 1)
    assert not leader.must_wait("u", 0)
    assert not followed.throttle.follower.must_wait("t", 0), "another quota"
    followed.now_ms = 1_001
    assert not leader.must_wait("t", 0)


def test_the_throttle_ends_with_either_config() -> None:
    followed = Followed()
    leader = followed.throttle.leader
    followed.show(throttled("*"), configs={"1": {RATE: "10"}})
    leader.record("t", 7, 1_000)
    assert leader.must_wait("t", 7)
    followed.show(topic("t", partition(0, 1)), configs={"1": {RATE: "10"}})
    assert not leader.must_wait("t", 7)
    followed.show(throttled("*"), configs={"1": {RATE: "10"}})
    assert leader.must_wait("t", 7)
    followed.show(throttled("*"))
    assert not leader.must_wait("t", 7)


def test_a_deleted_topic_is_not_throttled() -> None:
    followed = Followed()
    followed.show(throttled("*"))
    followed.show(deleted="t")
    assert not followed.throttle.leader.is_throttled("t", 0)


@pytest.mark.parametrize(
    ("configs", "rate"),
    [
        ({"1": {RATE: "5"}, "<default>": {RATE: "7"}}, 5),
        ({"2": {RATE: "5"}, "<default>": {RATE: "7"}}, 7),
        ({"2": {RATE: "5"}}, UNLIMITED),
        ({"1": {RATE: "-5"}, "<default>": {RATE: "7"}}, 7),
    ],
    ids=["its own", "the default", "another broker's", "an invalid rate"],
)
def test_the_rate_of_a_broker(configs: dict[str, dict[str, str]], rate: int) -> None:
    followed = Followed()
    followed.show(throttled("*"), configs=configs)
    assert followed.throttle.leader.quota.bytes_per_second_max == rate
