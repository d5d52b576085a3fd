"""A listener that fails over a change: the change is not acknowledged, and is repeated."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.active import publisher
from local_cluster.controller.member import cluster_member
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.cluster_image import ClusterImage, difference
from local_cluster.controller.model.delta_json import decode_reply, encode_delta
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import Member, eventually
from tests.unit.local_cluster.controller.samples import partition, topic
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


def fail_once(member: Member, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    """Make a listener fail once, over a topic; return the changes that it gets from then on."""
    seen: list[Changes] = []

    def refuse(changes: Changes) -> None:
        if seen or name in changes.topics:
            seen.append(changes)
            if len(seen) == 1:
                raise KafkaError(ErrorCode.unknown_server_error, "the listener failed")

    monkeypatch.setattr(member.plane._member.updates, "_on_change", refuse)
    return seen


async def test_a_delta_over_which_a_listener_fails_is_refused_and_repeated(
    member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = Member(server, 2)
    await second.plane.start()
    seen = fail_once(second, "a", monkeypatch)
    waiting = asyncio.create_task(
        second.plane.wait_until(lambda: "a" in second.cache.topics, 10_000)
    )
    await asyncio.sleep(0)
    image = ClusterImage(
        1, 1, 5, dict(member.cache.brokers), {"a": topic("a", partition(0, 2))}, {}
    )
    delta = encode_delta(difference(None, image, second.cache.broker_epoch))
    reply = decode_reply(second.plane.take_delta(delta))
    assert (reply.error_code, reply.message) == (
        ErrorCode.unknown_server_error,
        "the listener failed",
    )
    assert len(seen) == 1
    assert await waiting, "waiters go by the cache"
    for _ in range(2):
        assert decode_reply(second.plane.take_delta(delta)).error_code is ErrorCode.none
        assert len(seen) == 2, "informed once more, though the cache did not change"
    await second.plane.stop()


class FailingListener:
    """A listener that fails over every change while `is_failing`."""

    def __init__(self, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_failing = True
        self.calls = 0
        monkeypatch.setattr(member.plane._member.updates, "_on_change", self.on_change)

    def on_change(self, changes: Changes) -> None:
        self.calls += 1
        if self.is_failing:
            raise KafkaError(ErrorCode.unknown_server_error, "the listener failed")


async def test_a_failing_listener_of_the_controller_is_informed_again(
    member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "LOCAL_RETRY_MS", 1)
    controller = member.plane._member.controller
    assert controller is not None
    listener = FailingListener(member, monkeypatch)
    await member.create("a")
    assert member.leader("a") == (1, 0), "created, without an error for the client"
    await eventually(lambda: listener.calls > 3)
    server.write(znode_paths.delete_topic_path("a"))
    await eventually(lambda: "a" in controller.state.deletions)
    calls = listener.calls
    await eventually(lambda: listener.calls > calls + 3)
    assert znode_paths.topic_path("a") in server.tree, "no broker confirmed the deletion"
    listener.is_failing = False
    await eventually(lambda: znode_paths.topic_path("a") not in server.tree)
    assert member.plane._member.controller is controller


async def test_a_broker_with_a_failing_listener_is_elected(
    member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_member, "LISTENER_RETRY_MS", 1)
    second = Member(server, 2)
    listener = FailingListener(second, monkeypatch)
    await second.plane.start()
    await eventually(lambda: listener.calls > 3)
    await member.plane.stop()
    await eventually(lambda: second.plane.is_controller)
    await second.create("a")
    assert second.leader("a") == (2, 0)
    assert second.cache.controller_epoch == 2
    await second.plane.stop()
