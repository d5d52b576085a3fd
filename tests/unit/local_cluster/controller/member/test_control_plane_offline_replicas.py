"""A failed log directory: its offline replicas are reported, and come back."""

from __future__ import annotations

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.cluster_image import ALL_WELL, NO_LEADER, ReplicaReport
from local_cluster.controller.zk.coordination import Create
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.member.control_plane_member import Member, eventually
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestOfflineReplicas:
    async def test_a_failed_directory_takes_the_leadership_and_gives_it_back(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a", 2)
        ill = frozenset({("a", 1)})
        member.report = ReplicaReport(ill)
        await member.plane.announce_replicas()
        await eventually(lambda: member.leader("a", 1) == (NO_LEADER, 1))
        assert member.leader("a", 0) == (1, 0)
        assert member.cache.is_offline(1, "a", 1)
        assert not member.cache.is_offline(1, "a", 0)
        await eventually(lambda: server.child_names(znode_paths.LOG_DIR_EVENTS) == ())
        member.report = ALL_WELL
        await member.plane.announce_replicas()
        await eventually(lambda: member.leader("a", 1) == (1, 2))
        assert member.cache.offline == {}

    async def test_the_notification_is_kafkas(self, member: Member, server: FakeZooKeeper) -> None:
        await member.plane.announce_replicas()
        (create,) = [
            op
            for ops in server.commits
            for op in ops
            if op.path.startswith(znode_paths.LOG_DIR_EVENTS + "/") and isinstance(op, Create)
        ]
        assert create.payload == b'{"version":1,"broker":1,"event":1}'
        assert create.sequential

    async def test_a_topic_that_a_failed_directory_may_hold_is_not_purged(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        member.report = ReplicaReport(undeleted=frozenset({member.cache.topics["a"].topic_id}))
        results = await member.plane.delete_topics(["a"], timeout_ms=1_000)
        assert results["a"] is not None
        assert results["a"].code is ErrorCode.request_timed_out
        assert znode_paths.topic_path("a") in server.tree
        member.report = ALL_WELL
        await member.plane.announce_replicas()
        await eventually(lambda: znode_paths.topic_path("a") not in server.tree)
