"""Reassignments and elections that old tools request by writing a znode."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.model.isr_proposals import IsrProposal
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    dead_broker,
    eventually,
)
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper

REASSIGN, ELECT = znode_paths.REASSIGN_PARTITIONS, znode_paths.PREFERRED_ELECTION
MALFORMED = (
    b"",
    b"{",
    b"[]",
    b'{"version":1}',
    b'{"version":1,"partitions":["t"]}',
    b'{"version":1,"partitions":[{"topic":"a"}]}',
    b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":7}]}',
    b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[[]]}]}',
)


def asked(*partitions: tuple[str, int, list[int]]) -> bytes:
    entries = [{"topic": t, "partition": p, "replicas": ids} for t, p, ids in partitions]
    return json.dumps({"version": 1, "partitions": entries}).encode()


@pytest.fixture
async def member(server: FakeZooKeeper) -> AsyncIterator[Member]:
    """Broker 1 leads topic a with two partitions; broker 2 has reported, and is idle."""
    member = Member(server)
    await member.plane.start()
    await member.create("a", 2)
    dead_broker(server, 2)
    await eventually(lambda: 2 in member.cache.brokers)
    controller = member.plane._member.controller
    assert controller is not None
    controller.changes.note_offline_replicas(2, member.cache.brokers[2].broker_epoch, frozenset())
    yield member
    await member.plane.stop()


def replicas(member: Member, index: int) -> tuple[int, ...]:
    return member.cache.topics["a"].partitions[index].replicas


async def catch_up(member: Member, index: int, *isr: int) -> None:
    """Broker 1 proposes this ISR, and the controller writes it."""
    topic = member.cache.topics["a"]
    state = topic.partitions[index]
    epochs = {each: member.cache.brokers[each].broker_epoch for each in isr}
    proposal = IsrProposal(
        topic.topic_id, index, state.leader_epoch, tuple(epochs.items()), state.zk_version
    )
    (result,) = await member.plane.alter_partitions(1, member.cache.broker_epoch, [proposal])
    assert result.state is not None


async def test_entries_are_removed_as_their_reassignments_complete(
    member: Member, server: FakeZooKeeper
) -> None:
    server.write(REASSIGN, asked(("a", 0, [1, 2]), ("a", 1, [2, 1])))
    await eventually(lambda: (replicas(member, 0), replicas(member, 1)) == ((1, 2), (2, 1)))
    assert REASSIGN in server.tree
    await catch_up(member, 0, 1, 2)
    await eventually(lambda: server.tree[REASSIGN].payload == asked_again(("a", 1, [2, 1])))
    await catch_up(member, 1, 1, 2)
    await eventually(lambda: REASSIGN not in server.tree)
    assert member.plane.reassignments() == {}


def asked_again(*partitions: tuple[str, int, list[int]]) -> bytes:
    return topic_znodes.encode_reassignments({(t, p): ids for t, p, ids in partitions})


async def test_entries_that_cannot_start_are_removed(member: Member, server: FakeZooKeeper) -> None:
    server.write(REASSIGN, asked(("a", 0, [1, 2]), ("a", 9, [1]), ("b", 0, [1]), ("a", 1, [7])))
    await eventually(lambda: server.tree[REASSIGN].payload == asked_again(("a", 0, [1, 2])))
    assert member.plane.reassignments().keys() == {("a", 0)}


async def test_an_entry_without_a_change_is_removed(member: Member, server: FakeZooKeeper) -> None:
    server.write(REASSIGN, asked(("a", 0, [1])))
    await eventually(lambda: REASSIGN not in server.tree)


async def test_a_cancelled_reassignment_is_not_started_again(
    member: Member, server: FakeZooKeeper
) -> None:
    server.write(REASSIGN, asked(("a", 0, [1, 2])))
    await eventually(lambda: replicas(member, 0) == (1, 2))
    cancel = ReassignmentRequest("a", 0, None)
    await member.plane.alter_reassignments([cancel], may_change_factor=True, timeout_ms=10_000)
    await eventually(lambda: REASSIGN not in server.tree)
    assert replicas(member, 0) == (1,)


@pytest.mark.parametrize("how", ["deleted", "removed by hand"])
async def test_entries_of_a_deleted_topic_are_removed(
    member: Member, server: FakeZooKeeper, how: str
) -> None:
    await member.create("b")
    server.write(REASSIGN, asked(("a", 0, [1, 2]), ("a", 1, [1, 2]), ("b", 0, [1, 2])))
    await eventually(lambda: len(member.plane.reassignments()) == 3)
    if how == "deleted":
        server.write(znode_paths.delete_topic_path("a"))
    else:
        server.remove(znode_paths.topic_path("a"))
    await eventually(lambda: server.tree[REASSIGN].payload == asked_again(("b", 0, [1, 2])))
    if how == "deleted":
        server.write(znode_paths.delete_topic_path("b"))
    else:
        server.remove(znode_paths.topic_path("b"))
    await eventually(lambda: REASSIGN not in server.tree)
    assert member.plane.is_controller
    # The next request is noticed.
    await member.create("c")
    server.write(REASSIGN, asked(("c", 0, [1, 2])))
    await eventually(lambda: member.cache.topics["c"].partitions[0].replicas == (1, 2))


async def test_the_next_controller_continues(member: Member, server: FakeZooKeeper) -> None:
    server.write(REASSIGN, asked(("a", 0, [1, 2]), ("b", 0, [1])))
    await eventually(lambda: server.tree[REASSIGN].payload == asked_again(("a", 0, [1, 2])))
    third = Member(server, 3)
    await third.plane.start()
    await member.plane.stop()
    await eventually(lambda: third.plane.is_controller)
    assert REASSIGN in server.tree
    assert third.plane.reassignments().keys() == {("a", 0)}
    await third.plane.stop()


@pytest.mark.parametrize("payload", MALFORMED)
@pytest.mark.parametrize("path", [REASSIGN, ELECT])
async def test_an_unreadable_request_is_deleted(
    member: Member, server: FakeZooKeeper, path: str, payload: bytes
) -> None:
    server.write(path, payload)
    await eventually(lambda: path not in server.tree)
    assert member.plane.is_controller
    # The next request is noticed.
    server.write(REASSIGN, asked(("a", 0, [1, 2])))
    await eventually(lambda: replicas(member, 0) == (1, 2))


async def test_preferred_leaders_are_elected(member: Member, server: FakeZooKeeper) -> None:
    server.write(REASSIGN, asked(("a", 0, [2, 1])))
    await eventually(lambda: replicas(member, 0) == (2, 1))
    await catch_up(member, 0, 1, 2)
    await eventually(lambda: REASSIGN not in server.tree)
    assert member.leader("a")[0] == 1
    server.write(ELECT, b'{"version":1,"partitions":[{"topic":"a","partition":0}]}')
    await eventually(lambda: ELECT not in server.tree)
    assert member.leader("a")[0] == 2
