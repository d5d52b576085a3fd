"""Metadata, DescribeCluster, DescribeConfigs and the topic APIs, at every version they serve.

A real control plane on a ZooKeeper in memory stands behind them; each answer is encoded and read
back, as a client would see it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import pytest

from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    TopicState,
    difference,
)
from local_cluster.controller.model.delta_json import decode_reply, encode_delta
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.handlers.cluster.cluster_delta import cluster_delta
from local_cluster.handlers.cluster.p03_metadata import metadata
from local_cluster.handlers.cluster.p60_describe_cluster import describe_cluster
from local_cluster.handlers.configs.p32_describe_configs import describe_configs
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.topics.p19_create_topics import create_topics
from local_cluster.handlers.topics.p20_delete_topics import delete_topics
from local_cluster.handlers.topics.p37_create_partitions import create_partitions
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.member.control_plane_member import Member
from tests.unit.local_cluster.controller.samples import partition, topic, topic_id
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper

NOT_ASKED = -(2**31)


class Broker:
    """What the handlers use, with a control plane behind it."""

    def __init__(self, server: FakeZooKeeper, broker_id: int = 1, **config: str) -> None:
        self.member = Member(server, broker_id, **config)
        self.settings = self.member.plane._settings
        self.control_plane = self.member.plane
        self.metadata: MetadataCache = self.member.cache
        self.denied: set[tuple[str, str]] = set()

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, name: str
    ) -> bool:
        return (operation, name) not in self.denied

    def show(
        self, *topics: TopicState, brokers: Mapping[int, BrokerEndpoints] | None = None
    ) -> None:
        """Put this into the cache, as if a later controller had said it."""
        live = brokers if brokers is not None else dict(self.metadata.brokers)
        image = ClusterImage(1, 99, 1, live, {t.name: t for t in topics}, {})
        self.metadata.apply(difference(None, image, self.metadata.broker_epoch))


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(FakeZooKeeper())
    await broker.control_plane.start()
    yield broker
    await broker.control_plane.stop()


async def ask(
    function: Callable[..., Any],
    api: ApiKey,
    version: int,
    broker: Broker,
    fields: Mapping[str, Any],
    listener: str = "P",
) -> Any:
    """Send a request through its codec and the handler; the answer as a client reads it."""
    body = messages.encode_request(api, version, fields)
    request = messages.decode_request(api, version, memoryview(body), 0)
    context = RequestContext(api, version, 1, "test", "User:ANONYMOUS", listener, "h", 1)
    reply = function(cast(BrokerServices, broker), context, request)
    if asyncio.iscoroutine(reply):
        reply = await reply
    answer = messages.encode_response(api, version, reply)
    return messages.decode_response(api, version, memoryview(answer), 0)


async def ask_metadata(broker: Broker, version: int = 12, listener: str = "P", **given: Any) -> Any:
    fields = {
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
        **given,
    }
    return await ask(metadata, ApiKey.METADATA, version, broker, fields, listener)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "topic_id": None} for name in names]


def other(broker_id: int, **listeners: tuple[str, int]) -> BrokerEndpoints:
    return BrokerEndpoints(broker_id, "r9", listeners, broker_id)


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
            assert a.topic_authorized_operations == NOT_ASKED
        if 8 <= version <= 10:
            assert answer.cluster_authorized_operations == NOT_ASKED
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

    async def test_nobody_creates_what_he_may_not(self, broker: Broker) -> None:
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

    async def test_addresses_are_those_of_the_listener(self, broker: Broker) -> None:
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

    async def test_a_leader_that_just_died_is_not_named(self, broker: Broker) -> None:
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

    async def test_operations_that_were_asked_for(self, broker: Broker) -> None:
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
        assert hidden.error_code is ErrorCode.unknown_topic_id

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


class TestDescribeCluster:
    @pytest.mark.parametrize("version", [0, 1, 2])
    async def test_every_version(self, broker: Broker, version: int) -> None:
        fields = {"include_cluster_authorized_operations": False, "include_fenced_brokers": True}
        answer = await ask(describe_cluster, ApiKey.DESCRIBE_CLUSTER, version, broker, fields)
        assert (answer.error_code, answer.controller_id) == (ErrorCode.none, 1)
        assert answer.cluster_id == broker.metadata.cluster_id
        assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
            (1, "127.0.0.1", 1, "r1")
        ]
        assert answer.cluster_authorized_operations == NOT_ASKED

    async def test_controllers_are_no_endpoints(self, broker: Broker) -> None:
        fields = {"include_cluster_authorized_operations": False, "endpoint_type": 2}
        answer = await ask(describe_cluster, ApiKey.DESCRIBE_CLUSTER, 1, broker, fields)
        assert answer.error_code is ErrorCode.mismatched_endpoint_type

    async def test_operations(self, broker: Broker) -> None:
        fields = {"include_cluster_authorized_operations": True}
        answer = await ask(describe_cluster, ApiKey.DESCRIBE_CLUSTER, 0, broker, fields)
        assert answer.cluster_authorized_operations == 0b1_1111_1010_0000


class TestDescribeConfigs:
    async def describe(
        self, broker: Broker, version: int, kind: int, name: str, **fields: Any
    ) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        resource |= {k: fields.pop(k) for k in list(fields) if k == "configuration_keys"}
        request = {"resources": [resource], **fields}
        answer = await ask(describe_configs, ApiKey.DESCRIBE_CONFIGS, version, broker, request)
        return answer.results[0]

    @pytest.mark.parametrize("version", range(1, 5))
    async def test_a_topic(self, broker: Broker, version: int) -> None:
        broker.show(topic("a", partition(0, 1), cleanup_policy="compact"))
        result = await self.describe(broker, version, 2, "a", include_synonyms=True)
        assert result.error_code is ErrorCode.none
        configs = {config.name: config for config in result.configs}
        policy = configs["cleanup.policy"]
        assert (policy.value, policy.config_source) == ("compact", 1)
        assert [s.value for s in policy.synonyms] == ["compact", "delete"]
        assert configs["retention.ms"].config_source == 5
        if version >= 3:
            assert policy.config_type == 7

    async def test_only_what_was_asked(self, broker: Broker) -> None:
        broker.show(topic("a", partition(0, 1)))
        keys = {"configuration_keys": ["retention.ms"]}
        result = await self.describe(broker, 4, 2, "a", **keys, include_documentation=True)
        (config,) = result.configs
        assert config.name == "retention.ms"
        assert config.documentation
        assert config.synonyms == ()

    @pytest.mark.parametrize("version", range(1, 5))
    async def test_this_broker(self, version: int) -> None:
        broker = Broker(FakeZooKeeper(), num_partitions="3", sasl_jaas_config="hush")
        await broker.control_plane.start()
        result = await self.describe(broker, version, 4, "1")
        configs = {config.name: config for config in result.configs}
        assert configs["num.partitions"].value == "3"
        assert (configs["num.partitions"].config_source, configs["num.partitions"].read_only) == (
            4,
            True,
        )
        assert configs["sasl.jaas.config"].value is None
        assert configs["sasl.jaas.config"].is_sensitive
        assert configs["log.retention.ms"].config_source == 5
        assert len(result.configs) == len(configs), "every name once"
        await broker.control_plane.stop()

    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (2, "missing", ErrorCode.unknown_topic_or_partition),
            (2, "no good", ErrorCode.invalid_topic_exception),
            (4, "9", ErrorCode.invalid_request),
            (8, "9", ErrorCode.invalid_request),
            (16, "1", ErrorCode.invalid_request),
        ],
    )
    async def test_refusals(self, broker: Broker, kind: int, name: str, code: ErrorCode) -> None:
        result = await self.describe(broker, 4, kind, name)
        assert (result.error_code, result.configs) == (code, ())


class TestTopicApis:
    @pytest.mark.parametrize("version", range(2, 8))
    async def test_create(self, broker: Broker, version: int) -> None:
        configs = [{"name": "retention.ms", "value": "5"}]
        asked = [
            {"name": "a", "num_partitions": 2, "replication_factor": 1, "configs": configs},
            {"name": "b", "num_partitions": 1, "replication_factor": 3},
        ]
        fields = {"topics": asked, "timeout": 1_000}
        answer = await ask(create_topics, ApiKey.CREATE_TOPICS, version, broker, fields)
        results = {each.name: each for each in answer.topics}
        assert results["a"].error_code is ErrorCode.none
        assert results["b"].error_code is ErrorCode.invalid_replication_factor
        assert results["b"].error_message
        if version >= 5:
            assert (results["a"].num_partitions, results["a"].replication_factor) == (2, 1)
            values = {config.name: config.value for config in results["a"].configs}
            assert values["retention.ms"] == "5"
        if version >= 7:
            assert results["a"].topic_id == broker.metadata.topics["a"].topic_id

    async def test_a_name_given_twice(self, broker: Broker) -> None:
        one = {"name": "a", "num_partitions": 1, "replication_factor": 1}
        fields = {"topics": [one, one], "timeout": 1_000}
        (result,) = (await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, fields)).topics
        assert result.error_code is ErrorCode.invalid_request
        assert "a" not in broker.metadata.topics

    @pytest.mark.parametrize("version", range(1, 7))
    async def test_delete(self, broker: Broker, version: int) -> None:
        made = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
        await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, made | {"timeout": 1_000})
        fields = {
            "topic_names": ["a", "missing"],
            "topics": named("a", "missing"),
            "timeout": 1_000,
        }
        answer = await ask(delete_topics, ApiKey.DELETE_TOPICS, version, broker, fields)
        assert {each.name: each.error_code for each in answer.responses} == {
            "a": ErrorCode.none,
            "missing": ErrorCode.unknown_topic_or_partition,
        }
        assert broker.metadata.topics == {}

    async def test_delete_by_id(self, broker: Broker) -> None:
        made = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
        await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, made | {"timeout": 1_000})
        known, unknown = broker.metadata.topics["a"].topic_id, uuid.UUID(int=9)
        asked: list[dict[str, Any]] = [
            {"name": None, "topic_id": known},
            {"name": None, "topic_id": unknown},
        ]
        asked.append({"name": "a", "topic_id": known})
        fields = {"topics": asked, "timeout": 1_000}
        answer = await ask(delete_topics, ApiKey.DELETE_TOPICS, 6, broker, fields)
        codes = [(each.name, each.topic_id, each.error_code) for each in answer.responses]
        assert sorted(codes, key=str) == sorted(
            [
                ("a", known, ErrorCode.none),
                (None, unknown, ErrorCode.unknown_topic_id),
                ("a", known, ErrorCode.invalid_request),
            ],
            key=str,
        )

    async def test_deletion_may_be_disabled(self) -> None:
        broker = Broker(FakeZooKeeper(), delete_topic_enable="false")
        await broker.control_plane.start()
        fields = {"topic_names": ["a"], "timeout": 1_000}
        answer = await ask(delete_topics, ApiKey.DELETE_TOPICS, 3, broker, fields)
        assert answer.responses[0].error_code is ErrorCode.topic_deletion_disabled
        await broker.control_plane.stop()

    @pytest.mark.parametrize("version", range(4))
    async def test_create_partitions(self, broker: Broker, version: int) -> None:
        made = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
        await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, made | {"timeout": 1_000})
        asked = [
            {"name": "a", "count": 3, "assignments": None},
            {"name": "missing", "count": 3, "assignments": None},
        ]
        fields = {"topics": asked, "timeout": 1_000, "validate_only": False}
        answer = await ask(create_partitions, ApiKey.CREATE_PARTITIONS, version, broker, fields)
        assert {each.name: each.error_code for each in answer.results} == {
            "a": ErrorCode.none,
            "missing": ErrorCode.unknown_topic_or_partition,
        }
        assert len(broker.metadata.topics["a"].partitions) == 3

    async def test_elsewhere_than_at_the_controller(self, broker: Broker) -> None:
        second = Broker(broker.member.coordination.server, 2)
        await second.control_plane.start()
        asked = [{"name": "a", "num_partitions": 1, "replication_factor": 1}]
        fields = {"topics": asked, "timeout": 1_000}
        (made,) = (await ask(create_topics, ApiKey.CREATE_TOPICS, 7, second, fields)).topics
        assert made.error_code is ErrorCode.not_controller
        fields = {"topics": named("a"), "timeout": 1_000}
        gone = (await ask(delete_topics, ApiKey.DELETE_TOPICS, 6, second, fields)).responses
        assert gone[0].error_code is ErrorCode.not_controller
        asked = [{"name": "a", "count": 3, "assignments": None}]
        fields = {"topics": asked, "timeout": 1_000, "validate_only": False}
        (grown,) = (
            await ask(create_partitions, ApiKey.CREATE_PARTITIONS, 3, second, fields)
        ).results
        assert grown.error_code is ErrorCode.not_controller
        await second.control_plane.stop()


class TestClusterDelta:
    def push(self, broker: Broker, listener: str) -> ErrorCode:
        image = ClusterImage(2, 99, 1, {}, {"a": topic("a", partition(0, 2))}, {})
        payload = encode_delta(difference(None, image, broker.metadata.broker_epoch))
        context = RequestContext(ApiKey.CLUSTER_DELTA, 0, 1, None, "p", listener, "h", 1)
        reply = cluster_delta(cast(BrokerServices, broker), context, memoryview(payload))
        assert isinstance(reply, bytes)
        return decode_reply(reply)[0]

    async def test_only_the_inter_broker_listener_takes_it(self, broker: Broker) -> None:
        assert self.push(broker, "OUT") is ErrorCode.cluster_authorization_failed
        assert "a" not in broker.metadata.topics
        assert self.push(broker, "P") is ErrorCode.none
        assert "a" in broker.metadata.topics

    async def test_only_who_may(self, broker: Broker) -> None:
        broker.denied = {("CLUSTER_ACTION", "kafka-cluster")}
        assert self.push(broker, "P") is ErrorCode.cluster_authorization_failed
