"""Metadata at each served version."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from local_cluster.controller.model.cluster_image import (
    ClusterImage,
    difference,
)
from local_cluster.controller.model.delta_json import encode_delta
from local_cluster.wire.constants import OPERATIONS_NOT_REQUESTED
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.samples import partition, topic, topic_id
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper
from tests.unit.local_cluster.handlers.admin_broker import Broker, ask_metadata, named, other


class TestMetadata:
    @pytest.mark.parametrize("version", range(14))
    async def test_every_version(self, broker: Broker, version: int) -> None:
        broker.show(topic("a", partition(0, 1, epoch=4)))
        answer = await ask_metadata(broker, version, topics=named("a"))
        (one,) = answer.brokers
        assert (one.node_id, one.host, one.port) == (1, "127.0.0.1", 1)
        (a,) = answer.topics
        (p,) = a.partitions
        assert (a.name, a.error_code) == ("a", ErrorCode.none)
        assert (p.partition_index, p.leader_id, p.error_code) == (0, 1, ErrorCode.none)
        assert (tuple(p.replica_nodes), tuple(p.isr_nodes)) == ((1,), (1,))
        if version >= 1:
            assert (answer.controller_id, one.rack, a.is_internal) == (1, "r1", False)
        if version >= 2:
            assert answer.cluster_id == broker.metadata.cluster_id
        if version >= 7:
            assert p.leader_epoch == 4
        if version >= 8:
            assert a.topic_authorized_operations == OPERATIONS_NOT_REQUESTED
        if 8 <= version <= 10:
            assert answer.cluster_authorized_operations == OPERATIONS_NOT_REQUESTED
        if version >= 10:
            assert a.topic_id == topic_id("a")

    @pytest.mark.parametrize("version", range(14))
    async def test_all_topics(self, broker: Broker, version: int) -> None:
        broker.show(topic("b", partition(0, 1)), topic("a", partition(0, 1)))
        everything = () if version == 0 else None
        answer = await ask_metadata(broker, version, topics=everything)
        assert [each.name for each in answer.topics] == ["a", "b"]

    @pytest.mark.parametrize("version", range(1, 14))
    async def test_no_topics(self, broker: Broker, version: int) -> None:
        broker.show(topic("a", partition(0, 1)))
        assert (await ask_metadata(broker, version, topics=())).topics == ()

    @pytest.mark.parametrize("version", range(4, 14))
    async def test_unknown_without_auto_creation(self, broker: Broker, version: int) -> None:
        fields: dict[str, Any] = {"topics": named("x"), "allow_auto_topic_creation": False}
        (x,) = (await ask_metadata(broker, version, **fields)).topics
        assert x.error_code is ErrorCode.unknown_topic_or_partition
        assert "x" not in broker.metadata.topics

    @pytest.mark.parametrize("version", range(14))
    async def test_created_on_first_use(self, version: int) -> None:
        broker = Broker(FakeZooKeeper(), num_partitions="2")
        await broker.control_plane.start()
        fields: dict[str, Any] = {"topics": named("x", "x", "y"), "allow_auto_topic_creation": True}
        answer = await ask_metadata(broker, version, **fields)
        assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
            ("x", ErrorCode.none, 2),
            ("y", ErrorCode.none, 2),
        ]
        assert all(p.leader_id == 1 for t in answer.topics for p in t.partitions)
        await broker.control_plane.stop()

    async def test_the_broker_may_forbid_creation(self) -> None:
        broker = Broker(FakeZooKeeper(), auto_create_topics_enable="false")
        await broker.control_plane.start()
        (x,) = (await ask_metadata(broker, topics=named("x"))).topics
        assert x.error_code is ErrorCode.unknown_topic_or_partition
        await broker.control_plane.stop()

    async def test_a_topic_is_not_created_without_the_right(self, broker: Broker) -> None:
        broker.denied = {("CREATE", "kafka-cluster"), ("CREATE", "x")}
        (x,) = (await ask_metadata(broker, topics=named("x"))).topics
        assert x.error_code is ErrorCode.unknown_topic_or_partition

    async def test_invalid_names(self, broker: Broker) -> None:
        answer = await ask_metadata(broker, topics=named("a b", "..", "x" * 250))
        assert {t.error_code for t in answer.topics} == {ErrorCode.invalid_topic_exception}

    async def test_a_refused_creation_says_why(self, broker: Broker) -> None:
        broker.member.plane._settings.config["num.partitions"] = "0"
        (x,) = (await ask_metadata(broker, topics=named("x"))).topics
        assert x.error_code is ErrorCode.invalid_partitions

    async def test_by_topic_id(self, broker: Broker) -> None:
        broker.show(topic("a", partition(0, 1)))
        unknown = uuid.UUID(int=77)
        asked = [{"name": None, "topic_id": topic_id("a")}, {"name": None, "topic_id": unknown}]
        known, missing = (await ask_metadata(broker, topics=asked)).topics
        assert (known.name, known.error_code) == ("a", ErrorCode.none)
        assert (missing.name, missing.topic_id) == (None, unknown)
        assert missing.error_code is ErrorCode.unknown_topic_id

    @pytest.mark.parametrize("version", [10, 11])
    async def test_ids_before_version_12_are_refused(self, broker: Broker, version: int) -> None:
        broker.show(topic("a", partition(0, 1)))
        asked = [{"name": None, "topic_id": topic_id("a")}]
        (answer,) = (await ask_metadata(broker, version, topics=asked)).topics
        assert answer.error_code is ErrorCode.invalid_request

    async def test_endpoints_are_those_of_the_listener(self, broker: Broker) -> None:
        live = {
            1: other(1, P=("in", 1), OUT=("out", 11)),
            2: other(2, P=("in", 2)),
        }
        broker.show(topic("a", partition(0, 1), partition(1, 2)), brokers=live)
        answer = await ask_metadata(broker, listener="OUT", topics=named("a"))
        assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "out", 11)]
        first, second = answer.topics[0].partitions
        assert (first.leader_id, first.error_code) == (1, ErrorCode.none)
        assert (second.leader_id, second.error_code) == (-1, ErrorCode.listener_not_found)
        old = (await ask_metadata(broker, 5, "OUT", topics=named("a"))).topics[0].partitions[1]
        assert old.error_code is ErrorCode.leader_not_available

    async def test_a_partition_without_leader(self, broker: Broker) -> None:
        away = partition(0, 7, 1, leader=-1, epoch=3, isr=(7,))
        broker.show(topic("a", away))
        (p,) = (await ask_metadata(broker, topics=named("a"))).topics[0].partitions
        assert (p.error_code, p.leader_id) == (ErrorCode.leader_not_available, -1)
        assert (p.leader_epoch, p.replica_nodes, p.isr_nodes) == (3, (7, 1), (7,))
        assert p.offline_replicas == (7,)

    async def test_a_dead_leader_is_not_returned(self, broker: Broker) -> None:
        broker.show(topic("a", partition(0, 7)))
        (p,) = (await ask_metadata(broker, topics=named("a"))).topics[0].partitions
        assert (p.error_code, p.leader_id) == (ErrorCode.leader_not_available, -1)

    async def test_version_0_names_live_replicas_only(self, broker: Broker) -> None:
        broker.show(topic("a", partition(0, 1, 7)))
        (p,) = (await ask_metadata(broker, 0, topics=named("a"))).topics[0].partitions
        assert (p.error_code, p.replica_nodes) == (ErrorCode.replica_not_available, (1,))

    async def test_internal_topics(self, broker: Broker) -> None:
        broker.show(topic("__consumer_offsets", partition(0, 1)))
        (t,) = (await ask_metadata(broker, topics=None)).topics
        assert t.is_internal

    async def test_the_offsets_topic_is_created_compacted(self, broker: Broker) -> None:
        (t,) = (await ask_metadata(broker, topics=named("__consumer_offsets"))).topics
        assert (t.is_internal, len(t.partitions)) == (True, 50)
        configs = broker.metadata.topics["__consumer_offsets"].configs
        assert configs["cleanup.policy"] == "compact"

    async def test_authorized_operations(self, broker: Broker) -> None:
        broker.show(topic("a", partition(0, 1)))
        broker.denied = {("WRITE", "a"), ("ALTER", "kafka-cluster")}
        fields: dict[str, Any] = {
            "topics": named("a"),
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        }
        answer = await ask_metadata(broker, 8, **fields)
        assert answer.topics[0].topic_authorized_operations == 0b1101_1110_1000
        assert answer.cluster_authorized_operations == 0b1_1111_0010_0000

    async def test_hidden_topics(self, broker: Broker) -> None:
        broker.show(topic("a", partition(0, 1)), topic("b", partition(0, 1)))
        broker.denied = {("DESCRIBE", "a")}
        assert [t.name for t in (await ask_metadata(broker, topics=None)).topics] == ["b"]
        (a,) = (await ask_metadata(broker, topics=named("a"))).topics
        assert a.error_code is ErrorCode.topic_authorization_failed
        by_id = [{"name": None, "topic_id": topic_id("a")}]
        (hidden,) = (await ask_metadata(broker, topics=by_id)).topics
        assert hidden.error_code is ErrorCode.topic_authorization_failed

    async def test_a_new_broker_waits_for_its_first_image(self, broker: Broker) -> None:
        server = broker.member.coordination.server
        second = Broker(server, 2)
        await second.control_plane.start()
        waiting = asyncio.create_task(ask_metadata(second, topics=None))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        live = {2: other(2, P=("two", 2))}
        image = ClusterImage(1, 1, 5, live, {"a": topic("a", partition(0, 2))}, {})
        delta = difference(None, image, second.metadata.broker_epoch)
        second.control_plane.take_delta(encode_delta(delta))
        answer = await waiting
        assert [b.host for b in answer.brokers] == ["two"]
        assert [t.name for t in answer.topics] == ["a"]
        assert answer.controller_id == -1, "the controller is not among the brokers yet"
        await second.control_plane.stop()
