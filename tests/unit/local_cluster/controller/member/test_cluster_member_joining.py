"""A broker's control plane joins and leaves its cluster."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from local_cluster.controller.member import cluster_member
from local_cluster.controller.model import broker_znodes, format_level, znode_paths
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    dead_broker,
    eventually,
)
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestJoining:
    async def test_the_first_broker_registers_and_controls(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        assert set(znode_paths.PERSISTENT_PATHS) <= server.tree.keys()
        for path in (znode_paths.broker_id_path(1), znode_paths.CONTROLLER):
            assert server.tree[path].ephemeral_owner == member.coordination.session_id
        assert server.tree[znode_paths.CONTROLLER_EPOCH][:2] == (b"1", 1)
        assert znode_paths.FEATURE in server.tree
        assert member.plane.is_controller
        assert member.cache.controller_id == 1
        assert member.cache.brokers[1].listeners == {"P": ("127.0.0.1", 1)}
        assert member.cache.broker_epoch == server.tree[znode_paths.broker_id_path(1)].created_zxid
        payload = server.tree[znode_paths.CLUSTER_ID].payload
        assert member.cache.cluster_id == broker_znodes.decode_cluster_id(payload)

    async def test_a_connection_that_breaks_while_joining_is_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster_member, "RETRY_DELAY_MS", 1)
        for call in itertools.count(1):
            server = FakeZooKeeper()
            member = Member(server)
            member.coordination.break_at_call = call
            await member.plane.start()
            calls = member.coordination.calls
            registered = server.tree[znode_paths.broker_id_path(1)]
            assert member.cache.broker_epoch == registered.created_zxid
            await eventually(lambda: member.plane.is_controller)  # noqa: B023 - this turn's
            await eventually(lambda: 1 in member.cache.brokers)  # noqa: B023
            await member.plane.stop()
            if calls < call:
                assert call > 20, "joining takes many calls, and each was broken once"
                return

    async def test_stopping_leaves_nothing_behind(self, server: FakeZooKeeper) -> None:
        member = Member(server)
        await member.plane.start()
        await member.plane.stop()
        assert server.child_names(znode_paths.BROKER_IDS) == ()
        assert znode_paths.CONTROLLER not in server.tree

    async def test_the_second_broker_does_not_control(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        second = Member(server, 2)
        await second.plane.start()
        assert not second.plane.is_controller
        assert second.cache.controller_id == 1
        assert second.cache.cluster_id == member.cache.cluster_id
        await eventually(lambda: 2 in member.cache.brokers)
        await second.plane.stop()
        await eventually(lambda: 2 not in member.cache.brokers)

    @pytest.mark.parametrize(
        "payload", [format_level.encode_level(format_level.FORMAT_LEVEL + 1), b"from the future"]
    )
    async def test_formats_of_a_newer_version_are_refused(
        self, payload: bytes, server: FakeZooKeeper
    ) -> None:
        server.write(znode_paths.FORMAT_LEVEL, payload)
        with pytest.raises(KafkaError) as refused:
            await Member(server).plane.start()
        assert refused.value.code is ErrorCode.unsupported_version
        assert server.child_names(znode_paths.BROKER_IDS) == ()

    async def test_formats_of_its_own_level_are_read(self, server: FakeZooKeeper) -> None:
        payload = format_level.encode_level(format_level.FORMAT_LEVEL)
        server.write(znode_paths.FORMAT_LEVEL, payload)
        member = Member(server)
        await member.plane.start()
        await member.plane.stop()

    async def test_the_same_id_twice_is_refused(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        again = Member(server, 1)
        with pytest.raises(KafkaError) as refused:
            await again.plane.start()
        assert refused.value.code is ErrorCode.duplicate_broker_registration

    async def test_a_former_registration_is_waited_for(self, server: FakeZooKeeper) -> None:
        server.write(znode_paths.BROKER_IDS)
        former = dead_broker(server, 1)
        member = Member(server, 1)
        starting = asyncio.create_task(member.plane.start())
        await asyncio.sleep(0.01)
        assert not starting.done()
        server.expire(former)
        await starting
        assert member.plane.is_controller
        await member.plane.stop()
