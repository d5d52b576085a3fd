"""Topics and partitions that a request creates, in Kafka's znodes."""

from __future__ import annotations

import pytest

from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.controller.model.topic_requests import PartitionsSpec, TopicSpec
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    eventually,
)
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestTopicAdmin:
    async def test_creation_is_kafkas_znodes(self, member: Member, server: FakeZooKeeper) -> None:
        spec = TopicSpec(name="a", partitions=2, configs={"cleanup.policy": "compact"})
        (created,) = await member.plane.create_topics([spec])
        assert created.topic is not None
        assert created.topic == member.cache.topics["a"]
        stored = topic_znodes.decode_topic(server.tree["/brokers/topics/a"].payload)
        assert stored.topic_id == created.topic.topic_id
        assert stored.replicas == {0: (1,), 1: (1,)}
        assert server.tree["/config/topics/a"].payload == (
            b'{"version":1,"config":{"cleanup.policy":"compact"}}'
        )
        for index in (0, 1):
            payload = server.tree[znode_paths.state_path("a", index)].payload
            assert topic_znodes.decode_state(payload) == (1, 0, (1,), 1)
        assert member.changes[-1] == Changes(topics=("a",))

    async def test_validate_only_writes_nothing(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        specs = [TopicSpec(name="a", partitions=2), TopicSpec(name="a b")]
        good, bad = await member.plane.create_topics(specs, validate_only=True)
        assert good.topic is not None
        assert len(good.topic.partitions) == 2
        assert bad.error is not None
        assert server.child_names(znode_paths.TOPICS) == ()
        assert member.cache.topics == {}

    async def test_one_bad_topic_does_not_stop_the_others(self, member: Member) -> None:
        specs = [TopicSpec(name="a"), TopicSpec(name="a"), TopicSpec(name="b")]
        results = await member.plane.create_topics(specs)
        codes = [None if each.error is None else each.error.code for each in results]
        assert codes == [None, ErrorCode.topic_already_exists, None]
        assert member.cache.topics.keys() == {"a", "b"}

    async def test_configs_left_by_a_removed_topic_are_replaced(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/config/topics/a", b'{"version":1,"config":{"retention.ms":"1"}}')
        await member.create("a")
        assert member.cache.topics["a"].configs == {}
        assert server.tree["/config/topics/a"].payload == b'{"version":1,"config":{}}'

    async def test_an_outside_tool_that_is_faster_wins(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        def be_faster(ops: object) -> None:
            member.coordination.before_commit = lambda ops: None
            server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1]}}')

        member.coordination.before_commit = be_faster
        (created,) = await member.plane.create_topics([TopicSpec(name="a", partitions=5)])
        assert created.error is not None
        assert created.error.code is ErrorCode.topic_already_exists
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))
        assert len(member.cache.topics["a"].partitions) == 1

    async def test_partitions_are_added(self, member: Member, server: FakeZooKeeper) -> None:
        await member.create("a")
        before = member.cache.topics["a"].topic_id
        results = await member.plane.create_partitions([PartitionsSpec(topic="a", count=3)])
        assert results == {"a": None}
        assert member.leader("a", 2) == (1, 0)
        assert member.cache.topics["a"].topic_id == before

    async def test_a_creation_whose_answer_was_lost_is_found_again(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        member.coordination.lose_answer_of = lambda ops: True
        with pytest.raises(KafkaError) as refused:
            await member.create("a")
        assert refused.value.code is ErrorCode.request_timed_out
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))
