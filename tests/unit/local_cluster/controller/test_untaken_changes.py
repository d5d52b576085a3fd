"""A broker of which a part fails over what changed: it is not taken for one that took it up."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.delta_json import decode_reply, encode_delta
from local_cluster.controller.metadata_cache import Changes
from local_cluster.controller.model import ClusterImage, difference
from local_cluster.controller.topic_requests import TopicSpec
from local_cluster.wire.errors import ErrorCode, KafkaError

from .control_plane_member import Member, eventually
from .fake_zookeeper import FakeZooKeeper
from .samples import partition, topic


def fail_over(member: Member, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    """A part of it fails over the first change of a topic; what it was told from then on."""
    seen: list[Changes] = []

    def refuse(changes: Changes) -> None:
        if seen or name in changes.topics:
            seen.append(changes)
            if len(seen) == 1:
                raise KafkaError(ErrorCode.unknown_server_error, "not taken up")

    monkeypatch.setattr(member.plane._member, "_on_change", refuse)
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


async def test_where_it_is_the_controller_it_goes_on_and_publishes_again(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = member.plane._member.controller
    assert controller is not None
    seen = fail_over(member, "a", monkeypatch)
    with pytest.raises(KafkaError, match="not taken up"):
        await member.plane.create_topics([TopicSpec(name="a")])
    assert len(seen) == 1
    refused = controller.sequence
    await eventually(lambda: controller.sequence > refused)
    assert member.plane._member.controller is controller
    await member.create("b")
    assert member.leader("a") == (1, 0)
