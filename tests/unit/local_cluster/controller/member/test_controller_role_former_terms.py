"""A term that is over does not disturb a later one, also not in the same controller epoch."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.active.active_controller import ActiveController
from local_cluster.controller.active.admin_znodes import AdminZnodes
from local_cluster.controller.model import znode_paths
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    dead_broker,
    eventually,
)
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


def controller_of(member: Member) -> ActiveController:
    controller = member.plane._member.controller
    assert controller is not None
    return controller


async def test_a_request_of_a_former_term_does_not_end_the_next_one(
    member: Member, server: FakeZooKeeper
) -> None:
    await member.create("a")
    former = controller_of(member)
    async with former._lock:
        late = [asyncio.create_task(member.create(f"late{n}")) for n in range(3)]
        await asyncio.sleep(0)
        server.remove(znode_paths.CONTROLLER)
        await eventually(lambda: member.plane.is_controller and controller_of(member) != former)
    current = controller_of(member)
    for refused in await asyncio.gather(*late, return_exceptions=True):
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.not_controller
    assert controller_of(member) is current
    assert (current.term.controller_epoch, member.cache.controller_epoch) == (2, 2)
    await member.create("b")
    assert member.leader("b") == (1, 0)


async def test_a_restarted_term_continues_its_image_sequence(
    member: Member, server: FakeZooKeeper
) -> None:
    for name in "abcde":
        await member.create(name)
    former = controller_of(member)
    server.write(znode_paths.CONTROLLER_EPOCH, b"1")  # a tool's, which changes the version alone
    with pytest.raises(KafkaError):
        await member.create("f")
    await eventually(lambda: member.plane.is_controller)
    assert controller_of(member) is not former
    assert controller_of(member).sequence > former.sequence
    dead_broker(server, 2)
    await eventually(lambda: 2 in member.cache.brokers)


async def test_a_term_that_fails_late_in_loading_continues_its_image_sequence(
    server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Member(server, 1), Member(server, 2)
    await first.plane.start()
    await first.create("a")
    await second.plane.start()
    published: list[int] = []

    async def fail(znodes: AdminZnodes) -> None:
        monkeypatch.undo()
        published.append(znodes._applier.sequence)
        raise CoordinationUnavailable("cut off")

    monkeypatch.setattr(AdminZnodes, "process_reassignments", fail)
    await first.plane.stop()
    await eventually(lambda: second.plane.is_controller)
    assert second.cache.controller_epoch == 2
    assert published
    assert controller_of(second).sequence > published[0]
    await second.plane.stop()


async def test_an_image_that_its_own_broker_refuses_is_not_acknowledged(
    member: Member, server: FakeZooKeeper
) -> None:
    await member.create("a")
    member.cache.observe_controller_epoch(9)
    server.write(znode_paths.delete_topic_path("a"))
    controller = controller_of(member)
    await eventually(lambda: "a" in controller.state.deletions)
    await member.create("b")
    await asyncio.sleep(0.02)
    assert "a" in member.cache.topics
    assert "a" in controller.state.deletions
    assert znode_paths.topic_path("a") in server.tree, "no replica of it is deleted"
