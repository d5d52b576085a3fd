"""The effect of a suspended, lost or new session on a controller and on ISR proposals."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.isr_proposals import IsrProposal
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.controller.zk.coordination import SessionState, ZkOp
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    dead_broker,
    eventually,
)
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestSuspended:
    """The connection is lost; the session may survive."""

    async def test_a_controller_stays_and_sees_what_it_missed(self) -> None:
        server = FakeZooKeeper()
        member = Member(server)
        await member.plane.start()
        await member.create("a")
        member.coordination.cut_off = True
        member.coordination.on_session(SessionState.SUSPENDED)
        assert member.plane.is_controller, "no other broker can be before the session ends"
        with pytest.raises(KafkaError) as refused:
            await member.create("b")
        assert refused.value.code is ErrorCode.request_timed_out
        # Its watches are gone with the connection: none reports this.
        server.watches.clear()
        server.write("/brokers/topics/c", b'{"version":1,"partitions":{"0":[1]}}')
        await asyncio.sleep(0)
        assert "c" not in member.cache.topics
        member.coordination.cut_off = False
        member.coordination.on_session(SessionState.CONNECTED)
        await eventually(lambda: "c" in member.cache.topics and member.leader("c") == (1, 0))
        assert member.leader("a") == (1, 0)
        assert server.tree[znode_paths.CONTROLLER_EPOCH].payload == b"1", "the same term continues"
        await member.create("d")
        await member.plane.stop()

    async def test_a_member_learns_of_a_controller_elected_meanwhile(self) -> None:
        server = FakeZooKeeper()
        first, second = Member(server, 1), Member(server, 2)
        await first.plane.start()
        await second.plane.start()
        second.coordination.cut_off = True
        second.coordination.on_session(SessionState.SUSPENDED)
        server.watches.clear()
        third = Member(server, 3)
        await first.plane.stop()
        await third.plane.start()
        assert third.plane.is_controller
        assert second.cache.controller_id == 1
        second.coordination.cut_off = False
        second.coordination.on_session(SessionState.CONNECTED)
        await eventually(lambda: second.cache.controller_id == 3)
        assert not second.plane.is_controller
        await second.plane.stop()
        await third.plane.stop()


class TestLost:
    """The session is over, and with it the registration and the term."""

    async def test_the_term_ends_at_once(self) -> None:
        server = FakeZooKeeper()
        member = Member(server)
        await member.plane.start()
        await member.create("a")
        former, epoch = member.coordination.session_id, member.cache.broker_epoch
        server.expire(former)
        # Before there is a new session, and before any task has run.
        member.coordination.on_session(SessionState.LOST)
        assert not member.plane.is_controller
        with pytest.raises(KafkaError) as refused:
            await member.plane.create_topics([TopicSpec(name="b")])
        assert refused.value.code is ErrorCode.not_controller
        member.coordination.new_session()
        member.coordination.on_session(SessionState.CONNECTED)
        await eventually(lambda: member.plane.is_controller and member.leader("a") == (1, 1))
        assert member.cache.broker_epoch > epoch
        await member.plane.stop()

    async def test_a_write_in_flight_is_not_repeated_in_the_next_term(self) -> None:
        server = FakeZooKeeper()
        member = Member(server)
        await member.plane.start()

        def lose_it(ops: tuple[ZkOp, ...]) -> None:
            member.coordination.before_commit = lambda _: None
            server.expire(member.coordination.session_id)
            server.write(znode_paths.CONTROLLER_EPOCH, b"2")  # somebody else is elected

        member.coordination.before_commit = lose_it  # type: ignore[assignment]
        with pytest.raises(KafkaError) as refused:
            await member.create("a")
        assert refused.value.code is ErrorCode.not_controller
        assert server.child_names(znode_paths.TOPICS) == ()
        await member.plane.stop()


class TestLateProposals:
    """AlterPartition v3 names the broker epoch of each replica (KIP-903)."""

    async def test_a_replica_whose_broker_registered_since_does_not_join(self) -> None:
        server = FakeZooKeeper()
        member = Member(server)
        await member.plane.start()
        session = dead_broker(server, 2)
        await eventually(lambda: 2 in member.cache.brokers)
        await member.plane.create_topics([TopicSpec(name="a", assignments={0: (1, 2)})])
        fetched_as = member.cache.brokers[2].broker_epoch
        server.expire(session)
        await eventually(lambda: member.cache.topics["a"].partitions[0].isr == (1,))
        dead_broker(server, 2)
        await eventually(
            lambda: 2 in member.cache.brokers and member.cache.brokers[2].broker_epoch > fetched_as
        )
        before = server.tree[znode_paths.state_path("a", 0)]

        async def propose(epoch_of_2: int) -> ErrorCode:
            state = member.cache.topics["a"].partitions[0]
            members = ((1, member.cache.broker_epoch), (2, epoch_of_2))
            proposal = IsrProposal(
                member.cache.topics["a"].topic_id, 0, state.leader_epoch, members, state.zk_version
            )
            (result,) = await member.plane.alter_partitions(
                1, member.cache.broker_epoch, [proposal]
            )
            return result.error

        assert await propose(fetched_as) is ErrorCode.ineligible_replica
        assert server.tree[znode_paths.state_path("a", 0)] == before
        assert await propose(member.cache.brokers[2].broker_epoch) is ErrorCode.none
        assert member.cache.topics["a"].partitions[0].isr == (1, 2)
        await member.plane.stop()

    async def test_a_leader_with_an_old_broker_epoch_changes_nothing(self) -> None:
        server = FakeZooKeeper()
        member = Member(server)
        await member.plane.start()
        await member.create("a")
        with pytest.raises(KafkaError) as refused:
            await member.plane.alter_partitions(1, member.cache.broker_epoch - 1, [])
        assert refused.value.code is ErrorCode.stale_broker_epoch
        await member.plane.stop()
