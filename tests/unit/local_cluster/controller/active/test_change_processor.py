"""Topics, their configs and partitions: made by requests or by outside tools, in Kafka's znodes."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.controller.model.topic_requests import PartitionsSpec, TopicSpec
from local_cluster.controller.zk.coordination import SetPayload, ZkOp
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    dead_broker,
    eventually,
)
from tests.unit.local_cluster.controller.samples import partition
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestTopics:
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

    async def test_a_topic_of_an_outside_tool_gets_an_id_and_leaders(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/config/topics/a", b'{"version":1,"config":{"retention.ms":"7"}}')
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1],"1":[1]}}')
        await eventually(lambda: "a" in member.cache.topics and member.leader("a", 1) == (1, 0))
        assert member.cache.topics["a"].configs == {"retention.ms": "7"}
        stored = topic_znodes.decode_topic(server.tree["/brokers/topics/a"].payload)
        assert stored.topic_id == member.cache.topics["a"].topic_id

    async def test_partitions_added_by_an_outside_tool(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        stored = topic_znodes.decode_topic(server.tree["/brokers/topics/a"].payload)
        grown = topic_znodes.TopicAssignment(stored.topic_id, {0: (1,), 1: (1,)}, {}, {})
        server.write("/brokers/topics/a", topic_znodes.encode_topic(grown))
        await eventually(lambda: len(member.cache.topics["a"].partitions) == 2)
        assert member.leader("a", 1) == (1, 0)

    async def test_an_unreadable_topic_harms_no_other(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/brokers/topics/bad", b"not json")
        await member.create("good")
        assert member.cache.topics.keys() == {"good"}

    async def test_a_topic_that_was_unreadable_is_taken_up_when_it_is_repaired(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        whole = server.tree[znode_paths.topic_path("a")].payload
        await member.plane.stop()
        server.write(znode_paths.topic_path("a"), b"{")
        again = Member(server)
        await again.plane.start()
        for payload in (b"{", whole):
            assert "a" not in again.cache.topics
            assert not again.cache.is_whole
            await eventually(lambda: server.watches.get(znode_paths.topic_path("a")))
            server.write(znode_paths.topic_path("a"), payload)
        await eventually(lambda: "a" in again.cache.topics and again.cache.is_whole)
        assert again.leader("a") == (1, 1), "its leader was started again"
        await again.plane.stop()

    async def test_a_topic_that_is_removed_while_it_is_unreadable_is_missed(
        self, server: FakeZooKeeper
    ) -> None:
        server.write(znode_paths.topic_path("torn"), b"{")
        member = Member(server)
        await member.plane.start()
        server.remove(znode_paths.topic_path("torn"))
        await member.create("a")
        controller = member.plane._member.controller
        assert controller is not None
        controller.changes.mark(None)
        sequence = controller.sequence
        await eventually(lambda: controller.sequence > sequence)
        assert not member.cache.is_whole, "nobody deleted it"
        await member.plane.stop()

    async def test_unreadable_configs_harm_nothing_else(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/config/topics/bad", b'{"version":1,"config":["retention.ms"]}')
        server.write("/config/brokers/1", b'{"version":1,"config":"none"}')
        server.write("/brokers/topics/bad", b'{"version":1,"partitions":{"0":[1]}}')
        await eventually(lambda: "bad" in member.cache.topics)
        assert member.cache.topics["bad"].configs == {}
        # Nor does it keep the next controller from its term.
        second = Member(server, 2)
        await second.plane.start()
        await member.plane.stop()
        await eventually(lambda: second.plane.is_controller)
        await second.plane.stop()

    async def test_replicas_elsewhere_are_stored_and_placed(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[7,1],"1":[7]}}')
        await eventually(lambda: "a" in member.cache.topics)
        assert member.leader("a", 0) == (1, 0)
        assert member.leader("a", 1) == (-1, -1)

    async def test_configs_changed_by_an_outside_tool(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        server.write("/config/topics/a", b'{"version":1,"config":{"retention.ms":"5"}}')
        server.write(
            "/config/changes/config_change_0000000000", b'{"version":2,"entity_path":"topics/a"}'
        )
        await eventually(lambda: member.cache.topics["a"].configs == {"retention.ms": "5"})
        assert server.child_names(znode_paths.CONFIG_CHANGES) == ()

    async def test_broker_configs_changed_by_an_outside_tool(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        configs = b'{"version":1,"config":{"leader.replication.throttled.rate":"5"}}'
        server.write("/config/brokers/1", configs)
        server.write(
            "/config/changes/config_change_0000000000", b'{"version":2,"entity_path":"brokers/1"}'
        )
        await eventually(lambda: "1" in member.cache.broker_configs)
        assert member.cache.broker_configs["1"] == {"leader.replication.throttled.rate": "5"}
        # The next controller finds them.
        second = Member(server, 2)
        await second.plane.start()
        await member.plane.stop()
        await eventually(lambda: second.plane.is_controller)
        assert second.cache.broker_configs == member.cache.broker_configs
        await second.plane.stop()

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

    async def test_a_state_write_whose_answer_was_lost_is_found_again(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        def writes_state(ops: Any) -> bool:
            return any(op.path.endswith("/state") for op in ops)

        member.coordination.lose_answer_of = writes_state
        with pytest.raises(KafkaError):
            await member.create("a")
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))
        assert server.tree[znode_paths.state_path("a", 0)].version == 0, "written once"

    async def test_one_overtaken_state_holds_up_no_other(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        session = dead_broker(server, 2)
        await eventually(lambda: 2 in member.cache.brokers)
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[2,1],"1":[2,1]}}')
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (2, 0))

        def shrink_meanwhile(ops: list[ZkOp]) -> None:
            if not any(isinstance(op, SetPayload) for op in ops):
                return
            member.coordination.before_commit = lambda ops: None
            stored = partition(0, 2, 1, isr=(2, 1), epoch=3)
            payload = topic_znodes.encode_state(stored, controller_epoch=1)
            server.write(znode_paths.state_path("a", 0), payload)

        member.coordination.before_commit = shrink_meanwhile  # type: ignore[assignment]
        server.expire(session)
        await eventually(lambda: member.leader("a", 0) == (1, 4))
        assert member.leader("a", 1) == (1, 1)

    async def test_an_isr_that_a_leader_changed(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        dead_broker(server, 2)
        await eventually(lambda: 2 in member.cache.brokers)
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1,2]}}')
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))
        shrunk = partition(0, 1, 2, isr=(1,))
        path = znode_paths.state_path("a", 0)
        server.write(path, topic_znodes.encode_state(shrunk, controller_epoch=1))
        server.write(
            "/isr_change_notification/isr_change_0000000000",
            b'{"version":1,"partitions":[{"topic":"a","partition":0}]}',
        )
        await eventually(lambda: member.cache.topics["a"].partitions[0].isr == (1,))
        assert member.cache.topics["a"].partitions[0].zk_version == server.tree[path].version
        assert server.child_names(znode_paths.ISR_CHANGE_NOTIFICATION) == ()
