"""One broker's control plane against a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from local_cluster.clock import SystemClock
from local_cluster.controller import active_controller, cluster_member, znodes
from local_cluster.controller.control_plane import ControlPlane
from local_cluster.controller.coordination import (
    CheckVersion,
    Create,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.delta_json import decode_reply, encode_delta
from local_cluster.controller.metadata_cache import Changes, MetadataCache
from local_cluster.controller.model import (
    ALL_WELL,
    NO_LEADER,
    ClusterImage,
    ReplicaReport,
    difference,
)
from local_cluster.controller.topic_requests import PartitionsSpec, TopicSpec
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire.errors import ErrorCode, KafkaError

from .fake_zookeeper import FakeCoordination, FakeZooKeeper
from .samples import partition, topic

EVENTUALLY_SECONDS = 5.0


class Member:
    """A control plane with what it changed."""

    def __init__(self, server: FakeZooKeeper, broker_id: int = 1, **config: str) -> None:
        self.report = ALL_WELL
        self.coordination = FakeCoordination(server)
        self.cache = MetadataCache()
        self.changes: list[Changes] = []
        ids = itertools.count(1)
        self.plane = ControlPlane(
            BrokerSettings(
                cluster="c",
                broker_id=broker_id,
                rack=f"r{broker_id}",
                listeners=(Listener(name="P", host="127.0.0.1", port=0),),
                inter_broker_listener="P",
                zookeeper_connect="unused",
                zookeeper_session_timeout_ms=100,
                log_dirs=("unused",),
                ready_file="unused",
                config={key.replace("_", "."): value for key, value in config.items()},
            ),
            SystemClock(),
            self.cache,
            self.changes.append,
            bound_ports={"P": 1},
            coordination=self.coordination,
            new_uuid=lambda: uuid.UUID(int=next(ids)),
            report=lambda: self.report,
        )

    async def create(self, name: str, partitions: int = 1) -> None:
        (created,) = await self.plane.create_topics([TopicSpec(name=name, partitions=partitions)])
        assert created.error is None

    def leader(self, name: str, index: int = 0) -> tuple[int, int]:
        state = self.cache.topics[name].partitions[index]
        return state.leader, state.leader_epoch


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture
def server() -> FakeZooKeeper:
    return FakeZooKeeper()


@pytest.fixture
async def member(server: FakeZooKeeper) -> AsyncIterator[Member]:
    member = Member(server)
    await member.plane.start()
    yield member
    await member.plane.stop()


def dead_broker(server: FakeZooKeeper, broker_id: int) -> int:
    """Register a broker of a session of its own, which is returned."""
    payload = znodes.encode_broker(
        [("P", "127.0.0.1", 1)], {"P": "PLAINTEXT"}, rack=None, timestamp_ms=0
    )
    server.sessions += 1
    server.commit(
        [Create(znodes.broker_id_path(broker_id), payload, ephemeral=True)], server.sessions
    )
    return server.sessions


def fail_at_states(member: Member) -> list[ZkOp]:
    """Its next write of a partition's state raises what nobody foresaw; what it was."""
    failures: list[ZkOp] = []

    def fail(ops: Sequence[ZkOp]) -> None:
        if not failures and any(op.path.endswith("/state") for op in ops):
            failures.extend(ops)
            raise RuntimeError("a defect")

    member.coordination.before_commit = fail
    return failures


class TestJoining:
    async def test_the_first_broker_registers_and_controls(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        assert set(znodes.PERSISTENT_PATHS) <= server.tree.keys()
        for path in (znodes.broker_id_path(1), znodes.CONTROLLER):
            assert server.tree[path].ephemeral_owner == member.coordination.session_id
        assert server.tree[znodes.CONTROLLER_EPOCH][:2] == (b"1", 1)
        assert znodes.FEATURE in server.tree
        assert member.plane.is_controller
        assert member.cache.controller_id == 1
        assert member.cache.brokers[1].listeners == {"P": ("127.0.0.1", 1)}
        assert member.cache.broker_epoch == server.tree[znodes.broker_id_path(1)].created_zxid
        payload = server.tree[znodes.CLUSTER_ID].payload
        assert member.cache.cluster_id == znodes.decode_cluster_id(payload)

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
            registered = server.tree[znodes.broker_id_path(1)]
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
        assert server.child_names(znodes.BROKER_IDS) == ()
        assert znodes.CONTROLLER not in server.tree

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

    async def test_the_same_id_twice_is_refused(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        again = Member(server, 1)
        with pytest.raises(KafkaError) as refused:
            await again.plane.start()
        assert refused.value.code is ErrorCode.duplicate_broker_registration

    async def test_a_former_registration_is_waited_for(self, server: FakeZooKeeper) -> None:
        server.write(znodes.BROKER_IDS)
        former = dead_broker(server, 1)
        member = Member(server, 1)
        starting = asyncio.create_task(member.plane.start())
        await asyncio.sleep(0.01)
        assert not starting.done()
        server.expire(former)
        await starting
        assert member.plane.is_controller
        await member.plane.stop()


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

    async def test_a_lost_session_resigns_and_registers_anew(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        former = member.cache.broker_epoch
        member.coordination.lose_session()
        assert not member.plane.is_controller
        await eventually(lambda: member.plane.is_controller and member.leader("a") == (1, 1))
        assert member.cache.broker_epoch > former
        assert server.tree[znodes.CONTROLLER_EPOCH].payload == b"2"

    async def test_a_deposed_controller_writes_nothing(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write(znodes.CONTROLLER_EPOCH, b"9")  # somebody else was elected meanwhile
        with pytest.raises(KafkaError) as refused:
            await member.create("a")
        assert refused.value.code is ErrorCode.not_controller
        assert server.child_names(znodes.TOPICS) == ()

    async def test_every_write_of_the_controller_is_fenced(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.commits.clear()
        await member.create("a", 3)
        await member.plane.create_partitions([PartitionsSpec(topic="a", count=4)])
        await member.plane.delete_topics(["a"])
        fence = CheckVersion(znodes.CONTROLLER_EPOCH, 1)
        assert len(server.commits) >= 5
        assert all(ops[0] == fence for ops in server.commits)

    async def test_an_election_whose_answer_was_lost_is_noticed(
        self, server: FakeZooKeeper
    ) -> None:
        first, member = Member(server, 1), Member(server, 2)
        await first.plane.start()
        await member.plane.start()
        member.coordination.lose_answer_of = lambda ops: ops[0].path == znodes.CONTROLLER
        await first.plane.stop()
        await eventually(lambda: member.plane.is_controller)
        assert server.tree[znodes.CONTROLLER_EPOCH].payload == b"2", "elected once, not twice"
        await member.create("a")
        await member.plane.stop()

    async def test_a_term_that_failed_to_begin_is_begun_again(self, server: FakeZooKeeper) -> None:
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

    async def test_an_error_that_nobody_foresaw_does_not_end_the_term(
        self, member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(active_controller, "DEFECT_DELAY_MS", 1)
        failures = fail_at_states(member)
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1]}}')
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))
        assert failures
        assert server.tree[znodes.CONTROLLER_EPOCH].payload == b"1", "the same term goes on"

    async def test_brokers_that_answer_again_are_not_forgotten_with_zookeeper_away(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        for broker_id in (2, 3):
            dead_broker(server, broker_id)
        await eventually(lambda: member.cache.brokers.keys() == {1, 2, 3})
        await member.plane.create_topics([TopicSpec(name="a", assignments={0: (2, 1)})])
        controller = member.plane._member.controller
        assert controller is not None
        epochs = {each.id: each.broker_epoch for each in member.cache.brokers.values()}
        controller.broker_answers(3, epochs[3], False)
        await eventually(lambda: controller.state.leaving == {3})
        member.coordination.cut_off = True
        controller.broker_answers(2, epochs[2], False)
        controller.broker_answers(3, epochs[3], True)
        await eventually(lambda: 2 in controller.state.leaving)
        member.coordination.cut_off = False
        await eventually(lambda: member.leader("a") == (1, 1))
        await eventually(lambda: controller.state.leaving == {2})

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


class TestTopics:
    async def test_creation_is_kafkas_znodes(self, member: Member, server: FakeZooKeeper) -> None:
        spec = TopicSpec(name="a", partitions=2, configs={"cleanup.policy": "compact"})
        (created,) = await member.plane.create_topics([spec])
        assert created.topic is not None
        assert created.topic == member.cache.topics["a"]
        stored = znodes.decode_topic(server.tree["/brokers/topics/a"].payload)
        assert stored.topic_id == created.topic.topic_id
        assert stored.replicas == {0: (1,), 1: (1,)}
        assert server.tree["/config/topics/a"].payload == (
            b'{"version":1,"config":{"cleanup.policy":"compact"}}'
        )
        for index in (0, 1):
            payload = server.tree[znodes.state_path("a", index)].payload
            assert znodes.decode_state(payload) == (1, 0, (1,), 1)
        assert member.changes[-1] == Changes(topics=("a",))

    async def test_validate_only_writes_nothing(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        specs = [TopicSpec(name="a", partitions=2), TopicSpec(name="a b")]
        good, bad = await member.plane.create_topics(specs, validate_only=True)
        assert good.topic is not None
        assert len(good.topic.partitions) == 2
        assert bad.error is not None
        assert server.child_names(znodes.TOPICS) == ()
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
        stored = znodes.decode_topic(server.tree["/brokers/topics/a"].payload)
        assert stored.topic_id == member.cache.topics["a"].topic_id

    async def test_partitions_added_by_an_outside_tool(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        stored = znodes.decode_topic(server.tree["/brokers/topics/a"].payload)
        grown = znodes.TopicAssignment(stored.topic_id, {0: (1,), 1: (1,)}, {}, {})
        server.write("/brokers/topics/a", znodes.encode_topic(grown))
        await eventually(lambda: len(member.cache.topics["a"].partitions) == 2)
        assert member.leader("a", 1) == (1, 0)

    async def test_an_unreadable_topic_harms_no_other(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/brokers/topics/bad", b"not json")
        await member.create("good")
        assert member.cache.topics.keys() == {"good"}

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
        assert server.child_names(znodes.CONFIG_CHANGES) == ()

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
        assert server.tree[znodes.state_path("a", 0)].version == 0, "written once"

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
            payload = znodes.encode_state(stored, controller_epoch=1)
            server.write(znodes.state_path("a", 0), payload)

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
        path = znodes.state_path("a", 0)
        server.write(path, znodes.encode_state(shrunk, controller_epoch=1))
        server.write(
            "/isr_change_notification/isr_change_0000000000",
            b'{"version":1,"partitions":[{"topic":"a","partition":0}]}',
        )
        await eventually(lambda: member.cache.topics["a"].partitions[0].isr == (1,))
        assert member.cache.topics["a"].partitions[0].zk_version == server.tree[path].version
        assert server.child_names(znodes.ISR_CHANGE_NOTIFICATION) == ()


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
        await eventually(lambda: server.child_names(znodes.LOG_DIR_EVENTS) == ())
        member.report = ALL_WELL
        await member.plane.announce_replicas()
        await eventually(lambda: member.leader("a", 1) == (1, 2))
        assert member.cache.offline == {}

    async def test_the_announcement_is_kafkas(self, member: Member, server: FakeZooKeeper) -> None:
        await member.plane.announce_replicas()
        (create,) = [
            op
            for ops in server.commits
            for op in ops
            if op.path.startswith(znodes.LOG_DIR_EVENTS + "/") and isinstance(op, Create)
        ]
        assert create.payload == b'{"version":1,"broker":1,"event":1}'
        assert create.sequential

    async def test_what_a_failed_directory_may_hold_is_not_erased(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        member.report = ReplicaReport(undeleted=frozenset({member.cache.topics["a"].topic_id}))
        results = await member.plane.delete_topics(["a"], timeout_ms=1_000)
        assert results["a"] is not None
        assert results["a"].code is ErrorCode.request_timed_out
        assert znodes.topic_path("a") in server.tree
        member.report = ALL_WELL
        await member.plane.announce_replicas()
        await eventually(lambda: znodes.topic_path("a") not in server.tree)


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
        server.write(znodes.delete_topic_path("a"))
        await eventually(lambda: znodes.topic_path("a") not in server.tree)
        assert server.child_names(znodes.DELETE_TOPICS) == ()
        assert any("a" in changes.deleted for changes in member.changes)

    async def test_a_mark_without_topic_is_cleared(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write(znodes.delete_topic_path("nothing"))
        await eventually(lambda: server.child_names(znodes.DELETE_TOPICS) == ())

    async def test_znodes_that_vanish_delete_no_data(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        server.remove(znodes.topic_path("a"))
        await eventually(lambda: "a" not in member.cache.topics)
        assert Changes(removed=("a",)) in member.changes
        assert not any(changes.deleted for changes in member.changes)

    async def test_znodes_that_vanish_before_they_were_seen_are_missed(
        self, member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        late: list[str] = []
        with monkeypatch.context() as watches:
            watches.setattr(server, "fire", late.extend)
            await member.create("a")
            server.remove(znodes.topic_path("a"))
        server.fire(late)
        await eventually(lambda: "a" not in member.cache.topics)
        await member.create("a")

    async def test_a_topic_that_vanished_is_doubted_for_the_rest_of_the_term(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        await member.create("b")
        await member.plane.delete_topics(["b"])
        told = [member.cache.is_whole]
        server.remove(znodes.topic_path("a"))
        await eventually(lambda: "a" not in member.cache.topics)
        told.append(member.cache.is_whole)
        await member.create("c")
        assert [*told, member.cache.is_whole] == [True, False, False], "b was deleted, a vanished"

    async def test_a_topic_that_cannot_be_read_is_not_taken_for_one_that_is_gone(
        self, server: FakeZooKeeper
    ) -> None:
        server.write(znodes.topic_path("torn"), b"{")
        member = Member(server)
        await member.plane.start()
        await member.create("a")
        assert "a" in member.cache.topics
        assert not member.cache.is_whole
        await member.plane.stop()

    async def test_a_broker_that_is_away_holds_the_deletion(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1],"1":[7]}}')
        await eventually(lambda: "a" in member.cache.topics)
        results = await member.plane.delete_topics(["a"], timeout_ms=20)
        assert results["a"] is not None
        assert results["a"].code is ErrorCode.request_timed_out
        assert "a" not in member.cache.topics, "nobody uses it any more"
        commits, changes = len(server.commits), len(member.changes)
        await asyncio.sleep(0.02)
        assert (len(server.commits), len(member.changes)) == (commits, changes), "it only waits"
        assert znodes.topic_path("a") in server.tree
        (again,) = await member.plane.create_topics([TopicSpec(name="a")])
        assert again.error is not None
        assert again.error.code is ErrorCode.topic_already_exists

    async def test_the_next_controller_goes_on_with_it(self, server: FakeZooKeeper) -> None:
        first = Member(server)
        await first.plane.start()
        await first.create("a")
        await first.plane.stop()
        server.write(znodes.delete_topic_path("a"))
        again = Member(server)
        await again.plane.start()
        await eventually(lambda: znodes.topic_path("a") not in server.tree)
        assert "a" not in again.cache.topics
        await again.plane.stop()

    async def test_an_erasure_whose_answer_was_lost_ends_well(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        await member.create("a")
        member.coordination.lose_answer_of = lambda ops: ops[-1].path.startswith("/admin/")
        server.write(znodes.delete_topic_path("a"))
        await eventually(lambda: znodes.topic_path("a") not in server.tree)
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            # Until the controller has looked again, it believes that the erasure is under way.
            while (await member.plane.create_topics([TopicSpec(name="a")]))[0].error is not None:
                await asyncio.sleep(0.01)
        assert member.leader("a") == (1, 0)


class TestOthers:
    async def test_only_the_controller_creates(self, member: Member, server: FakeZooKeeper) -> None:
        second = Member(server, 2)
        await second.plane.start()
        for call in (
            second.plane.create_topics([TopicSpec(name="a")]),
            second.plane.create_partitions([PartitionsSpec(topic="a", count=2)]),
            second.plane.delete_topics(["a"]),
        ):
            with pytest.raises(KafkaError) as refused:
                await call
            assert refused.value.code is ErrorCode.not_controller
        await second.plane.stop()

    async def test_producer_id_blocks_never_overlap(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        second = Member(server, 2)
        await second.plane.start()
        blocks = await asyncio.gather(
            *(each.plane.allocate_producer_ids() for each in (member, second) * 3)
        )
        assert sorted(block.start for block in blocks) == [n * 1000 for n in range(6)]
        assert all(len(block) == 1000 for block in blocks)
        await second.plane.stop()

    async def test_producer_ids_without_zookeeper(self, member: Member) -> None:
        member.coordination.cut_off = True
        with pytest.raises(KafkaError) as refused:
            await member.plane.allocate_producer_ids()
        assert refused.value.code is ErrorCode.coordinator_not_available
        member.coordination.cut_off = False

    async def test_auto_creation_asked_twice_creates_once(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        answers = await asyncio.gather(*(member.plane.auto_create_topic("a") for _ in range(3)))
        assert answers == [None, None, None]
        topics = [op for ops in server.commits for op in ops if op.path == "/brokers/topics/a"]
        assert len(topics) == 1
        assert await member.plane.auto_create_topic("a") is None, "it exists by now"

    async def test_auto_creation_refuses_bad_names(self, member: Member) -> None:
        refusal = await member.plane.auto_create_topic("no/good")
        assert refusal is not None
        assert refusal.code is ErrorCode.invalid_topic_exception

    async def test_a_request_goes_on_when_its_client_left(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        asking = asyncio.create_task(member.plane.create_topics([TopicSpec(name="a")]))
        await asyncio.sleep(0)
        asking.cancel()
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))

    async def test_deltas_from_another_controller(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        second = Member(server, 2)
        await second.plane.start()
        a = topic("a", partition(0, 2))
        image = ClusterImage(1, 1, 5, dict(member.cache.brokers), {"a": a}, {})
        good = encode_delta(difference(None, image, second.cache.broker_epoch))
        assert decode_reply(second.plane.take_delta(good))[0] is ErrorCode.none
        assert second.cache.topics == {"a": a}
        assert second.changes[-1].topics == ("a",)
        stale = encode_delta(difference(None, image, second.cache.broker_epoch - 1))
        assert decode_reply(second.plane.take_delta(stale))[0] is ErrorCode.stale_broker_epoch
        assert decode_reply(second.plane.take_delta(b"x"))[0] is ErrorCode.invalid_request
        await second.plane.stop()

    async def test_a_broker_that_joins_anew_refuses_whoever_was_deposed_before(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        """A controller that does not know it yet may tell of replicas that moved since."""
        second = Member(server, 2)
        await second.plane.start()
        server.remove(znodes.CONTROLLER)
        await eventually(lambda: member.plane.is_controller or second.plane.is_controller)
        third = Member(server, 3)
        await third.plane.start()
        image = ClusterImage(1, 1, 9, dict(member.cache.brokers), {"a": topic("a")}, {})
        deposed = encode_delta(difference(None, image, third.cache.broker_epoch))
        assert decode_reply(third.plane.take_delta(deposed))[0] is ErrorCode.stale_controller_epoch
        assert not third.cache.topics
        for each in (second, third):
            await each.plane.stop()

    async def test_a_broker_says_what_it_cannot_serve(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        second = Member(server, 2)
        await second.plane.start()
        image = ClusterImage(1, 1, 5, dict(member.cache.brokers), {}, {})
        second.report = ReplicaReport(frozenset({("a", 0)}), frozenset({topic("b").topic_id}))
        delta = encode_delta(difference(None, image, second.cache.broker_epoch))
        assert decode_reply(second.plane.take_delta(delta)).report == second.report
        await second.plane.stop()

    async def test_waiting_for_news(self, member: Member) -> None:
        assert await member.plane.wait_informed(10)
        assert not await member.plane.wait_until(lambda: "a" in member.cache.topics, 5)
        waiting = asyncio.create_task(
            member.plane.wait_until(lambda: "a" in member.cache.topics, 5_000)
        )
        await asyncio.sleep(0)
        await member.create("a")
        assert await waiting
