"""Topics that the controller creates and deletes: in Kafka's znodes, and on real brokers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.controller.model import znode_json
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.real.cluster.control_plane_member import Member, running
from tests.support.cluster import running_broker
from tests.support.replicas import EVENTUALLY_SECONDS, eventually

pytestmark = pytest.mark.real


class TestTopics:
    async def test_created_and_deleted_topics_are_kafkas(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        async with running(Member(chroot, tmp_path)) as member:
            spec = TopicSpec(name="a", partitions=2, configs={"retention.ms": "1000"})
            (created,) = await member.plane.create_topics([spec])
            assert created.topic is not None
            assert json.loads(outside.get("/brokers/topics/a")[0]) == {
                "version": 3,
                "topic_id": znode_json.encode_uuid(created.topic.topic_id),
                "partitions": {"0": [1], "1": [1]},
                "adding_replicas": {},
                "removing_replicas": {},
            }
            assert json.loads(outside.get("/config/topics/a")[0]) == {
                "version": 1,
                "config": {"retention.ms": "1000"},
            }
            for index in range(2):
                path = f"/brokers/topics/a/partitions/{index}/state"
                assert json.loads(outside.get(path)[0]) == {
                    "controller_epoch": 1,
                    "leader": 1,
                    "version": 1,
                    "leader_epoch": 0,
                    "isr": [1],
                }
            assert (await member.plane.delete_topics(["a"])) == {"a": None}
            for path in ("/brokers/topics/a", "/config/topics/a", "/admin/delete_topics/a"):
                assert not outside.exists(path)
            assert Changes(deleted={"a": created.topic.topic_id}) in member.changes

    async def test_topics_of_an_outside_tool(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        async with running(Member(chroot, tmp_path)) as member:
            outside.create("/config/topics/a", b'{"version":1,"config":{"retention.ms":"7"}}')
            outside.create("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1]}}')
            await eventually(lambda: member.cache.partition("a", 0) is not None)
            assert member.cache.topics["a"].configs == {"retention.ms": "7"}
            assert json.loads(outside.get("/brokers/topics/a")[0])["version"] == 3
            outside.create("/admin/delete_topics/a")
            await eventually(lambda: not outside.exists("/brokers/topics/a"))
            assert "a" not in member.cache.topics

    async def test_a_thousand_partitions_are_led_and_deleted(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        async with running(Member(chroot, tmp_path)) as member:
            (created,) = await member.plane.create_topics([TopicSpec(name="a", partitions=1_200)])
            assert created.error is None
            led = [p.leader for p in member.cache.topics["a"].partitions.values()]
            assert led == [1] * 1_200
            assert len(outside.get_children("/brokers/topics/a/partitions")) == 1_200
            assert (await member.plane.delete_topics(["a"])) == {"a": None}
            assert not outside.exists("/brokers/topics/a")


class TestClusters:
    """Real broker processes: the decisions of the controller reach all of them."""

    async def test_topics_are_known_everywhere_when_created(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1) as one,
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(one.bootstrap) as client,
            KafkaClient(two.bootstrap) as other,
        ):
            assert await client.create_topics([NewTopic(name="a", partitions=4)]) == {"a": None}
            mine = (await client.metadata(["a"])).topics["a"]
            theirs = (await other.metadata(["a"])).topics["a"]
            assert theirs == mine
            assert {p.leader for p in mine.partitions.values()} == {1, 2}
            await client.delete_topics(["a"])
            for each in (client, other):
                topics = (await each.metadata(["a"])).topics
                assert topics["a"].error is ErrorCode.unknown_topic_or_partition
            assert not list(one.log_dir.glob("a-?"))
            assert not list(two.log_dir.glob("a-?"))

    async def test_a_broker_that_does_not_control_creates_topics_on_use(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1),
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(two.bootstrap) as client,
        ):
            cluster = await client.metadata(["used"], allow_auto_topic_creation=True)
            assert cluster.controller_id == 1
            assert cluster.topics["used"].error is ErrorCode.none
            assert len(cluster.topics["used"].partitions) == 4
            refused = await client.call(
                ApiKey.CREATE_TOPICS,
                {
                    "topics": [{"name": "b", "num_partitions": 1, "replication_factor": 1}],
                    "timeout": 1000,
                },
                node_id=2,
            )
            assert refused.topics[0].error_code is ErrorCode.not_controller

    async def test_a_killed_broker_comes_back_and_leads_again(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1) as one,
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(one.bootstrap) as client,
        ):
            assignments = {0: (1,), 1: (2,)}
            await client.create_topics([NewTopic(name="a", assignments=assignments)])
            await two.stop()
            partitions = (await client.metadata(["a"])).topics["a"].partitions
            async with asyncio.timeout(EVENTUALLY_SECONDS):
                while partitions[1].leader != -1:
                    partitions = (await client.metadata(["a"])).topics["a"].partitions
            assert partitions[1].error is ErrorCode.leader_not_available
            assert (partitions[0].leader, partitions[0].leader_epoch) == (1, 0)
            away = partitions[1].leader_epoch
            await two.start()
            await two.kill()
            await two.start()  # its former session has not expired
            async with asyncio.timeout(EVENTUALLY_SECONDS):
                while partitions[1].leader != 2 or partitions[1].leader_epoch < away + 2:
                    partitions = (await client.metadata(["a"])).topics["a"].partitions
            async with KafkaClient(two.bootstrap) as other:

                async def agrees() -> bool:
                    theirs = (await other.metadata(["a"])).topics["a"].partitions
                    return theirs == (await client.metadata(["a"])).topics["a"].partitions

                # A broker applies an image a moment after its controller.
                await eventually(agrees)

    async def test_the_controller_dies_and_the_other_takes_over(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1) as one,
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(two.bootstrap) as client,
        ):
            assert await client.create_topics([NewTopic(name="a", partitions=2)]) == {"a": None}
            await one.kill()
            async with asyncio.timeout(EVENTUALLY_SECONDS):
                while (await client.metadata()).controller_id != 2:
                    await asyncio.sleep(0.05)
            assert await client.create_topics([NewTopic(name="b", partitions=1)]) == {"b": None}
            await one.start()
            async with KafkaClient(one.bootstrap) as back:
                async with asyncio.timeout(EVENTUALLY_SECONDS):
                    while (await back.metadata(["a"])).topics["a"].partitions[0].leader == -1:
                        await asyncio.sleep(0.02)
                cluster = await back.metadata()
                assert cluster.controller_id == 2
                assert cluster.topics.keys() == {"a", "b"}
