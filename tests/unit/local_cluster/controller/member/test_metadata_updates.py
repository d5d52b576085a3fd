"""A broker of which a part fails over what changed: it is not taken for one that took it up."""

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


def fail_over(member: Member, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    """A part of it fails over the first change of a topic; what it was told from then on."""
    seen: list[Changes] = []

    def refuse(changes: Changes) -> None:
        if seen or name in changes.topics:
            seen.append(changes)
            if len(seen) == 1:
                raise KafkaError(ErrorCode.unknown_server_error, "not taken up")

    monkeypatch.setattr(member.plane._member.updates, "_on_change", refuse)
    return seen


async def test_the_controller_hears_of_it_and_may_say_all_of_it_again(
    member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = Member(server, 2)
    await second.plane.start()
    seen = fail_over(second, "a", monkeypatch)
    waiting = asyncio.create_task(
        second.plane.wait_until(lambda: "a" in second.cache.topics, 10_000)
    )
    await asyncio.sleep(0)
    image = ClusterImage(
        1, 1, 5, dict(member.cache.brokers), {"a": topic("a", partition(0, 2))}, {}
    )
    delta = encode_delta(difference(None, image, second.cache.broker_epoch))
    reply = decode_reply(second.plane.take_delta(delta))
    assert (reply.error_code, reply.message) == (ErrorCode.unknown_server_error, "not taken up")
    assert len(seen) == 1
    assert await waiting, "who waits for the cache has what is in it"
    for _ in range(2):
        assert decode_reply(second.plane.take_delta(delta)).error_code is ErrorCode.none
        assert len(seen) == 2, "once more, though nothing differs from what the cache has"
    await second.plane.stop()


class Ailing:
    """A part of a broker that fails over everything while it is ill."""

    def __init__(self, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_ill = True
        self.told = 0
        monkeypatch.setattr(member.plane._member.updates, "_on_change", self.take_up)

    def take_up(self, changes: Changes) -> None:
        self.told += 1
        if self.is_ill:
            raise KafkaError(ErrorCode.unknown_server_error, "not taken up")


async def test_where_it_is_the_controller_it_goes_on_and_is_told_again(
    member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "LOCAL_RETRY_MS", 1)
    controller = member.plane._member.controller
    assert controller is not None
    part = Ailing(member, monkeypatch)
    await member.create("a")
    assert member.leader("a") == (1, 0), "made, and no error of whoever asked"
    await eventually(lambda: part.told > 3)
    server.write(znode_paths.delete_topic_path("a"))
    await eventually(lambda: "a" in controller.state.deletions)
    told = part.told
    await eventually(lambda: part.told > told + 3)
    assert znode_paths.topic_path("a") in server.tree, "nobody said that the replica is gone"
    part.is_ill = False
    await eventually(lambda: znode_paths.topic_path("a") not in server.tree)
    assert member.plane._member.controller is controller


async def test_with_a_part_that_fails_over_everything_it_is_elected_and_controls(
    member: Member, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_member, "LISTENER_RETRY_MS", 1)
    second = Member(server, 2)
    part = Ailing(second, monkeypatch)
    await second.plane.start()
    await eventually(lambda: part.told > 3)
    await member.plane.stop()
    await eventually(lambda: second.plane.is_controller)
    await second.create("a")
    assert second.leader("a") == (2, 0)
    assert second.cache.controller_epoch == 2
    await second.plane.stop()
