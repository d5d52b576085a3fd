"""Topics, configs and ISRs that outside tools or leaders write into ZooKeeper."""

from __future__ import annotations

from local_cluster.controller.model import topic_znodes, znode_paths
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    dead_broker,
    eventually,
)
from tests.unit.local_cluster.controller.samples import partition
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestChangeProcessor:
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

    async def test_an_unreadable_topic_is_adopted_when_it_is_repaired(
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
        assert again.leader("a") == (1, 1), "its leader restarted"
        await again.plane.stop()

    async def test_a_topic_removed_while_unreadable_counts_as_lost(
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
        assert not member.cache.is_whole, "it was not deleted"
        await member.plane.stop()

    async def test_unreadable_configs_harm_nothing_else(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/config/topics/bad", b'{"version":1,"config":["retention.ms"]}')
        server.write("/config/brokers/1", b'{"version":1,"config":"none"}')
        server.write("/brokers/topics/bad", b'{"version":1,"partitions":{"0":[1]}}')
        await eventually(lambda: "bad" in member.cache.topics)
        assert member.cache.topics["bad"].configs == {}
        # The next controller can begin its term as well.
        second = Member(server, 2)
        await second.plane.start()
        await member.plane.stop()
        await eventually(lambda: second.plane.is_controller)
        await second.plane.stop()

    async def test_replicas_on_unknown_brokers_are_kept(
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
        # The next controller reads them.
        second = Member(server, 2)
        await second.plane.start()
        await member.plane.stop()
        await eventually(lambda: second.plane.is_controller)
        assert second.cache.broker_configs == member.cache.broker_configs
        await second.plane.stop()

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
