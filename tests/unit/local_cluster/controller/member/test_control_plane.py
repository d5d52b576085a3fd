"""The requests that one control plane serves, and the deltas that it accepts."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.cluster_image import ClusterImage, ReplicaReport, difference
from local_cluster.controller.model.delta_json import decode_reply, encode_delta
from local_cluster.controller.model.topic_requests import PartitionsSpec, TopicSpec
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import Member, eventually
from tests.unit.local_cluster.controller.samples import partition, topic
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


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

    @pytest.mark.parametrize("payload", [b"x", b'{"block_end":"9223372036854775807"}'])
    async def test_a_block_of_no_use_gives_no_producer_ids(
        self, member: Member, server: FakeZooKeeper, payload: bytes
    ) -> None:
        server.write("/latest_producer_id_block", payload)
        with pytest.raises(KafkaError) as refused:
            await member.plane.allocate_producer_ids()
        assert refused.value.code is ErrorCode.unknown_server_error

    async def test_concurrent_auto_creations_create_once(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        answers = await asyncio.gather(*(member.plane.auto_create_topic("a") for _ in range(3)))
        assert answers == [None, None, None]
        topics = [op for ops in server.commits for op in ops if op.path == "/brokers/topics/a"]
        assert len(topics) == 1
        assert await member.plane.auto_create_topic("a") is None, "it exists already"

    async def test_auto_creation_refuses_bad_names(self, member: Member) -> None:
        refusal = await member.plane.auto_create_topic("no/good")
        assert refusal is not None
        assert refusal.code is ErrorCode.invalid_topic_exception

    async def test_a_request_continues_when_its_client_left(
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

    async def test_a_joining_broker_refuses_a_controller_deposed_before(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        """A deposed controller that has not noticed may send replicas that have moved since."""
        second = Member(server, 2)
        await second.plane.start()
        server.remove(znode_paths.CONTROLLER)
        await eventually(lambda: member.plane.is_controller or second.plane.is_controller)
        third = Member(server, 3)
        await third.plane.start()
        image = ClusterImage(1, 1, 9, dict(member.cache.brokers), {"a": topic("a")}, {})
        deposed = encode_delta(difference(None, image, third.cache.broker_epoch))
        assert decode_reply(third.plane.take_delta(deposed))[0] is ErrorCode.stale_controller_epoch
        assert not third.cache.topics
        for each in (second, third):
            await each.plane.stop()

    async def test_a_broker_reports_its_offline_replicas(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        second = Member(server, 2)
        await second.plane.start()
        image = ClusterImage(1, 1, 5, dict(member.cache.brokers), {}, {})
        second.report = ReplicaReport(frozenset({("a", 0)}), frozenset({topic("b").topic_id}))
        delta = encode_delta(difference(None, image, second.cache.broker_epoch))
        assert decode_reply(second.plane.take_delta(delta)).report == second.report
        await second.plane.stop()

    async def test_waiting_for_a_change(self, member: Member) -> None:
        assert await member.plane.wait_informed(10)
        assert not await member.plane.wait_until(lambda: "a" in member.cache.topics, 5)
        waiting = asyncio.create_task(
            member.plane.wait_until(lambda: "a" in member.cache.topics, 5_000)
        )
        await asyncio.sleep(0)
        await member.create("a")
        assert await waiting
