"""Topics that are deleted by request, marked by an outside tool, or vanish."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.member.control_plane_member import (
    EVENTUALLY_SECONDS,
    Member,
    eventually,
)
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestDeletion:
    async def test_a_topic_is_gone_with_all_its_znodes(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        before = set(server.tree)
        await member.create("a", 3)
        topic_id = member.cache.topics["a"].topic_id
        results = await member.plane.delete_topics(["a", "none"])
        assert results["a"] is None
        assert results["none"] is not None
        assert results["none"].code is ErrorCode.unknown_topic_or_partition
        assert set(server.tree) == before
        assert Changes(deleted={"a": topic_id}) in member.changes
        await member.create("a")
        assert member.cache.topics["a"].topic_id != topic_id

    async def test_an_outside_tool_deletes_by_its_mark(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        server.write(znode_paths.delete_topic_path("a"))
        await eventually(lambda: znode_paths.topic_path("a") not in server.tree)
        assert server.child_names(znode_paths.DELETE_TOPICS) == ()
        assert any("a" in changes.deleted for changes in member.changes)

    async def test_a_mark_without_topic_is_cleared(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write(znode_paths.delete_topic_path("nothing"))
        await eventually(lambda: server.child_names(znode_paths.DELETE_TOPICS) == ())

    async def test_znodes_that_vanish_delete_no_data(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        server.remove(znode_paths.topic_path("a"))
        await eventually(lambda: "a" not in member.cache.topics)
        assert Changes(removed=("a",)) in member.changes
        assert not any(changes.deleted for changes in member.changes)

    async def test_znodes_that_vanish_before_they_were_read_are_noticed(
        self, member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        late: list[str] = []
        with monkeypatch.context() as watches:
            watches.setattr(server, "fire", late.extend)
            await member.create("a")
            server.remove(znode_paths.topic_path("a"))
        server.fire(late)
        await eventually(lambda: "a" not in member.cache.topics)
        await member.create("a")

    async def test_a_vanished_topic_leaves_the_image_incomplete_for_the_term(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        await member.create("b")
        await member.plane.delete_topics(["b"])
        told = [member.cache.is_whole]
        server.remove(znode_paths.topic_path("a"))
        await eventually(lambda: "a" not in member.cache.topics)
        told.append(member.cache.is_whole)
        await member.create("c")
        assert [*told, member.cache.is_whole] == [True, False, False], "b was deleted, a vanished"

    async def test_a_topic_whose_watch_fires_before_that_of_the_list_counts_as_lost(
        self, member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await member.create("a")
        await eventually(lambda: server.watches.get(znode_paths.topic_path("a")))
        late: list[str] = []
        with monkeypatch.context() as watches:
            watches.setattr(server, "fire", late.extend)
            server.remove(znode_paths.topic_path("a"))
        server.fire([znode_paths.topic_path("a")])
        await eventually(lambda: "a" not in member.cache.topics)
        assert not member.cache.is_whole, "it was not deleted"
        server.fire(late)
        await member.create("c")
        assert not member.cache.is_whole

    async def test_an_unreadable_topic_is_not_a_deleted_one(self, server: FakeZooKeeper) -> None:
        server.write(znode_paths.topic_path("torn"), b"{")
        member = Member(server)
        await member.plane.start()
        await member.create("a")
        assert "a" in member.cache.topics
        assert not member.cache.is_whole
        await member.plane.stop()

    async def test_a_broker_that_is_away_delays_the_deletion(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1],"1":[7]}}')
        await eventually(lambda: "a" in member.cache.topics)
        results = await member.plane.delete_topics(["a"], timeout_ms=500)
        assert results["a"] is not None
        assert results["a"].code is ErrorCode.request_timed_out
        assert "a" not in member.cache.topics, "it is hidden"
        commits, changes = len(server.commits), len(member.changes)
        await asyncio.sleep(0.02)
        assert (len(server.commits), len(member.changes)) == (commits, changes), "it only waits"
        assert znode_paths.topic_path("a") in server.tree
        (again,) = await member.plane.create_topics([TopicSpec(name="a")])
        assert again.error is not None
        assert again.error.code is ErrorCode.topic_already_exists

    async def test_the_next_controller_continues_the_deletion(self, server: FakeZooKeeper) -> None:
        first = Member(server)
        await first.plane.start()
        await first.create("a")
        await first.plane.stop()
        server.write(znode_paths.delete_topic_path("a"))
        again = Member(server)
        await again.plane.start()
        await eventually(lambda: znode_paths.topic_path("a") not in server.tree)
        assert "a" not in again.cache.topics
        await again.plane.stop()

    async def test_a_purge_whose_response_was_lost_completes(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        member.coordination.lose_answer_of = lambda ops: ops[-1].path.startswith("/admin/")
        server.write(znode_paths.delete_topic_path("a"))
        await eventually(lambda: znode_paths.topic_path("a") not in server.tree)
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            # Until the controller has looked again, it believes that the erasure is under way.
            while (await member.plane.create_topics([TopicSpec(name="a")]))[0].error is not None:
                await asyncio.sleep(0.01)
        assert member.leader("a") == (1, 0)
