"""The controller and its epoch when a controller stops or loses its session."""

from __future__ import annotations

import pytest

from local_cluster.clock import SystemClock
from local_cluster.controller.active import active_controller
from local_cluster.controller.member.controller_election import elect
from local_cluster.controller.member.registration import ensure_layout
from local_cluster.controller.model import broker_znodes, znode_paths
from local_cluster.controller.model.cluster_image import ClusterImage
from local_cluster.controller.model.topic_requests import PartitionsSpec, TopicSpec
from local_cluster.controller.zk.coordination import CheckVersion, SetPayload, Znode
from local_cluster.controller.zk.term import Term
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    MemberNetwork,
    dead_broker,
    eventually,
    fail_at_states,
)
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper


async def raise_epoch_to(epoch: int, member: Member, server: FakeZooKeeper) -> None:
    """Have the only member elected again until the controller epoch is `epoch`."""
    while member.cache.controller_epoch < epoch:
        following = member.cache.controller_epoch + 1
        server.remove(znode_paths.CONTROLLER)
        await eventually(
            lambda: member.plane.is_controller and member.cache.controller_epoch == following  # noqa: B023
        )


def epochs_written(server: FakeZooKeeper) -> list[int]:
    """Return the controller epochs in the order of their writes."""
    return [
        int(op.payload)
        for ops in server.commits
        for op in ops
        if isinstance(op, SetPayload) and op.path == znode_paths.CONTROLLER_EPOCH
    ]


class TestFailover:
    async def test_the_next_broker_controls_under_a_higher_epoch(
        self, server: FakeZooKeeper
    ) -> None:
        first, second = Member(server, 1), Member(server, 2)
        await first.plane.start()
        await first.create("a")
        await second.plane.start()
        await first.plane.stop()
        await eventually(lambda: second.plane.is_controller and "a" in second.cache.topics)
        assert second.cache.controller_epoch == 2
        assert second.cache.topics["a"].topic_id == first.cache.topics["a"].topic_id
        await eventually(lambda: second.leader("a") == (-1, 1))
        await second.plane.stop()

    async def test_a_lost_session_resigns_and_registers_again(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        former = member.cache.broker_epoch
        member.coordination.lose_session()
        assert not member.plane.is_controller
        await eventually(lambda: member.plane.is_controller and member.leader("a") == (1, 1))
        assert member.cache.broker_epoch > former
        assert server.tree[znode_paths.CONTROLLER_EPOCH].payload == b"2"

    async def test_a_deposed_controller_writes_nothing(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write(znode_paths.CONTROLLER_EPOCH, b"9")  # somebody else was elected meanwhile
        with pytest.raises(KafkaError) as refused:
            await member.create("a")
        assert refused.value.code is ErrorCode.not_controller
        assert server.child_names(znode_paths.TOPICS) == ()

    async def test_every_write_of_the_controller_is_fenced(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.commits.clear()
        await member.create("a", 3)
        await member.plane.create_partitions([PartitionsSpec(topic="a", count=4)])
        await member.plane.delete_topics(["a"])
        fence = CheckVersion(znode_paths.CONTROLLER_EPOCH, 1)
        assert len(server.commits) >= 5
        assert all(ops[0] == fence for ops in server.commits)

    async def test_a_broker_deposed_during_the_election_gets_no_fence_of_the_next_term(
        self, server: FakeZooKeeper
    ) -> None:
        first, second = FakeCoordination(server), FakeCoordination(server)
        for each in (first, second):
            await each.start()
        await ensure_layout(first)
        assert (await elect(first, 1, SystemClock()))[1] == Term(1, 1)
        read = first.read
        terms: list[Term | None] = []

        async def read_and_be_deposed(path: str, *, watch: bool = False) -> Znode | None:
            znode = await read(path, watch=watch)
            if not terms:
                server.remove(znode_paths.CONTROLLER)
                terms.append((await elect(second, 2, SystemClock()))[1])
            return znode

        first.read = read_and_be_deposed  # type: ignore[method-assign]
        assert await elect(first, 1, SystemClock()) == (2, None)
        assert terms == [Term(2, 2)]

    @pytest.mark.parametrize("epoch", [b"1", None], ids=["lowered", "deleted"])
    async def test_an_epoch_lowered_by_hand_is_raised_again(
        self, member: Member, server: FakeZooKeeper, epoch: bytes | None
    ) -> None:
        await raise_epoch_to(4, member, server)
        if epoch is None:
            server.remove(znode_paths.CONTROLLER_EPOCH)
        else:
            server.write(znode_paths.CONTROLLER_EPOCH, epoch)
        with pytest.raises(KafkaError) as refused:
            await member.create("a")
        assert refused.value.code is ErrorCode.not_controller
        await eventually(lambda: member.plane.is_controller)
        await member.create("a")
        assert member.leader("a") == (1, 0)
        assert server.tree[znode_paths.CONTROLLER_EPOCH].payload == b"5"

    async def test_the_next_election_works_without_an_epoch_znode(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        second = Member(server, 2)
        await second.plane.start()
        await eventually(lambda: second.cache.controller_epoch == 1)
        server.remove(znode_paths.CONTROLLER_EPOCH)
        await member.plane.stop()
        await eventually(lambda: second.plane.is_controller and second.cache.controller_epoch > 1)
        await second.create("a")
        await second.plane.stop()

    @pytest.mark.parametrize(("epoch", "raised"), [(1, 5), (3, 6)], ids=["lower", "same"])
    async def test_a_controller_elected_with_an_old_epoch_exceeds_the_newer_ones(
        self, server: FakeZooKeeper, epoch: int, raised: int
    ) -> None:
        network = MemberNetwork()
        former, fresh = Member(server, 1, network.open), Member(server, 2, network.open)
        network.members = {1: former, 2: fresh}
        await former.plane.start()
        await raise_epoch_to(4, former, server)
        for name in "abcdefgh":
            await former.create(name)
        former.coordination.cut_off = True
        # As from a backup.
        server.write(znode_paths.CONTROLLER_EPOCH, broker_znodes.encode_controller_epoch(epoch))
        server.remove(znode_paths.CONTROLLER)
        await fresh.plane.start()
        await eventually(lambda: former.cache.controller_id == 2)
        await eventually(lambda: fresh.plane.is_controller)
        await fresh.create("z")
        await eventually(lambda: "z" in former.cache.topics)
        assert former.cache.controller_epoch == fresh.cache.controller_epoch == raised
        former.coordination.cut_off = False
        await eventually(lambda: not former.plane.is_controller)
        await fresh.create("y")
        await eventually(lambda: "y" in former.cache.topics)
        assert epochs_written(server) == [1, 2, 3, 4, epoch, epoch + 1, raised]
        await former.plane.stop()
        await fresh.plane.stop()

    async def test_a_deposed_controller_that_is_refused_raises_no_epoch(
        self, server: FakeZooKeeper
    ) -> None:
        network = MemberNetwork()
        deposed, second = Member(server, 1, network.open), Member(server, 2, network.open)
        network.members = {2: second}
        await deposed.plane.start()
        await second.plane.start()
        await deposed.create("a")
        await eventually(lambda: "a" in second.cache.topics)
        deposed.coordination.cut_off = True
        server.remove(znode_paths.CONTROLLER)
        await eventually(lambda: second.plane.is_controller)
        publisher = deposed.plane._member.role.publisher
        assert publisher is not None
        publisher.publish(ClusterImage(1, 1, 99, dict(deposed.cache.brokers), {}, {}))
        await eventually(lambda: deposed.cache.controller_epoch == 2)
        assert deposed.plane.is_controller, "it cannot know better"
        deposed.coordination.cut_off = False
        await eventually(lambda: not deposed.plane.is_controller)
        network.members[1] = deposed
        await second.create("b")
        await eventually(lambda: "b" in deposed.cache.topics)
        assert second.plane.is_controller
        assert epochs_written(server) == [1, 2], "there was no other election"
        await deposed.plane.stop()
        await second.plane.stop()

    async def test_an_election_whose_answer_was_lost_is_noticed(
        self, server: FakeZooKeeper
    ) -> None:
        first, member = Member(server, 1), Member(server, 2)
        await first.plane.start()
        await member.plane.start()
        member.coordination.lose_answer_of = lambda ops: ops[0].path == znode_paths.CONTROLLER
        await first.plane.stop()
        await eventually(lambda: member.plane.is_controller)
        assert server.tree[znode_paths.CONTROLLER_EPOCH].payload == b"2", "elected once, not twice"
        await member.create("a")
        await member.plane.stop()

    async def test_a_term_that_fails_to_load_is_retried(self, server: FakeZooKeeper) -> None:
        first, second = Member(server, 1), Member(server, 2)
        await first.plane.start()
        await first.create("a")
        await second.plane.start()
        failures = fail_at_states(second)
        await first.plane.stop()
        await eventually(lambda: second.plane.is_controller)
        assert failures, "the term failed once"
        await second.create("b")
        assert second.leader("b") == (2, 0)
        await second.plane.stop()

    async def test_an_unexpected_error_does_not_end_the_term(
        self, member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(active_controller, "DEFECT_DELAY_MS", 1)
        failures = fail_at_states(member)
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1]}}')
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))
        assert failures
        assert server.tree[znode_paths.CONTROLLER_EPOCH].payload == b"1", "the same term continues"

    async def test_a_half_done_request_is_completed(
        self, member: Member, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failures = fail_at_states(member)
        with pytest.raises(RuntimeError):
            await member.create("a")
        assert failures
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))

    async def test_reachability_changes_survive_a_zookeeper_outage(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        for broker_id in (2, 3):
            dead_broker(server, broker_id)
        await eventually(lambda: member.cache.brokers.keys() == {1, 2, 3})
        await member.plane.create_topics([TopicSpec(name="a", assignments={0: (2, 1)})])
        controller = member.plane._member.controller
        assert controller is not None
        epochs = {each.id: each.broker_epoch for each in member.cache.brokers.values()}
        controller.changes.note_reachable(3, epochs[3], False)
        await eventually(lambda: controller.state.shutting_down == {3})
        member.coordination.cut_off = True
        controller.changes.note_reachable(2, epochs[2], False)
        controller.changes.note_reachable(3, epochs[3], True)
        await eventually(lambda: 2 in controller.state.shutting_down)
        member.coordination.cut_off = False
        await eventually(lambda: member.leader("a") == (1, 1))
        await eventually(lambda: controller.state.shutting_down == {2})

    async def test_a_broker_restarted_alone_leads_under_a_new_epoch(
        self, server: FakeZooKeeper
    ) -> None:
        first = Member(server)
        await first.plane.start()
        await first.create("a")
        assert first.leader("a") == (1, 0)
        await first.plane.stop()
        again = Member(server)
        await again.plane.start()
        assert again.leader("a") == (1, 1)
        await again.plane.stop()
