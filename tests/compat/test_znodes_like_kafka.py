"""Our brokers and Apache Kafka 3.9.1 do the same things; ZooKeeper holds the same of both.

Compared are all paths, and all payloads: their keys in order, and their values but for those that
differ from run to run (ids, ports, times) and the leader epochs, which Kafka raises more often
(it writes a new leader and a smaller ISR one after the other). Registrations have one more key.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.controller.member.registered_access import KEY, access_of, decode_access
from local_cluster.controller.member.registration import registration_payload
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import ConfigResourceType
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.kafka_in_zookeeper_mode import (
    BROKER_VERSION,
    ZooKeeperModeBroker,
    running_zookeeper_mode_brokers,
    zookeeper_mode_command,
)
from tests.support.replicas import ask_controller, eventually
from tests.unit.local_cluster.controller.samples import SETTINGS

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

Tree = dict[str, Any]

VARYING = frozenset({"timestamp", "topic_id", "leader_epoch", "port", "id"})
ABOUT_TO_GO = ("/config/changes/", "/isr_change_notification/")
"""Notifications, which controllers delete after a while, Kafka's later than ours."""


Names = dict[str, str | None]

QUOTAS: tuple[tuple[Names, str, float], ...] = (
    ({"user": "alice"}, "producer_byte_rate", 1024),
    ({"user": "carol"}, "request_percentage", 12.5),
    ({"user": "alice", "client-id": "app 1/2"}, "controller_mutation_rate", 1e-4),
    ({"user": "bob", "client-id": None}, "request_percentage", 12_345_678.5),
    ({"user": "bob", "client-id": "x"}, "consumer_byte_rate", 2.0**40),
    ({"user": None}, "controller_mutation_rate", 3),
    ({"user": None, "client-id": None}, "consumer_byte_rate", 7),
    ({"client-id": "CN=a*b"}, "consumer_byte_rate", 8),
    ({"client-id": None}, "consumer_byte_rate", 9),
    ({"ip": "10.0.0.1"}, "connection_creation_rate", 10),
    ({"ip": None}, "connection_creation_rate", 12),
)
DELETED_QUOTAS: tuple[tuple[Names, str, float], ...] = (
    ({"user": "alice"}, "producer_byte_rate", 0),
    ({"user": "carol"}, "request_percentage", 0),
    ({"user": "bob", "client-id": None}, "request_percentage", 0),
    ({"user": None}, "controller_mutation_rate", 0),
    ({"user": None, "client-id": None}, "consumer_byte_rate", 0),
    ({"client-id": None}, "consumer_byte_rate", 0),
)


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...

    async def kill(self) -> None: ...


class Znodes:
    """The znodes of a cluster, under its chroot."""

    def __init__(self, connect: str) -> None:
        self._client = KazooClient(connect)
        self._client.start()

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def state(self, topic: str, partition: int = 0) -> Any:
        """Return a partition's state; None if it does not exist."""
        try:
            payload, _ = self._client.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        except NoNodeError:
            return None
        return json.loads(payload)

    def in_sync(self, topic: str, partition: int = 0) -> tuple[int, list[int]] | None:
        """Return (leader, in-sync replicas)."""
        state = self.state(topic, partition)
        return None if state is None else (state["leader"], sorted(state["isr"]))

    def has(self, path: str) -> bool:
        return self._client.exists(path) is not None

    def epoch(self) -> bytes:
        payload: bytes = self._client.get("/controller_epoch")[0]
        return payload

    def depose(self) -> None:
        """Have another controller elected, as operators do."""
        self._client.delete("/controller")

    def tree(self) -> Tree:
        """Return all payloads by path."""
        return dict(self._below(""))

    def _below(self, path: str) -> Iterator[tuple[str, Any]]:
        if path.startswith(ABOUT_TO_GO):
            return
        try:
            payload, stat = self._client.get(path or "/")
            names = sorted(self._client.get_children(path or "/"))
        except NoNodeError:
            return
        if path:
            yield path, (bool(stat.ephemeralOwner), comparable(payload))
        for name in names:
            yield from self._below(f"{path}/{name}")


def comparable(payload: bytes | None) -> Any:
    """Return a payload without values that differ from run to run; keys keep their order."""
    try:
        body = json.loads(payload or b"")
    except ValueError:
        return payload or b""
    if not isinstance(body, dict):
        return body
    return [
        (
            key,
            type(value).__name__ if key in VARYING else re.sub(r":\d+", ":port", json.dumps(value)),
        )
        for key, value in body.items()
        if key != KEY
    ]


async def play(
    connect: str, brokers: Sequence[Broker], restart: Callable[[], Any]
) -> dict[str, Tree]:
    """Run the same operations on a cluster; return the content of ZooKeeper after each."""
    znodes = await asyncio.to_thread(Znodes, connect)
    try:
        async with KafkaClient(brokers[0].bootstrap) as client:
            return await _play(znodes, client, brokers, restart)
    finally:
        await asyncio.to_thread(znodes.close)


async def _play(
    znodes: Znodes, client: KafkaClient, brokers: Sequence[Broker], restart: Callable[[], Any]
) -> dict[str, Tree]:
    seen = {"registered": znodes.tree()}
    topics = [
        NewTopic(
            name="orders", assignments={0: (1, 2), 1: (2, 1)}, configs={"retention.ms": "100000"}
        ),
        NewTopic(name="moved", assignments={0: (1,)}),
        NewTopic(name="gone", assignments={0: (1, 2)}),
    ]
    created = await client.create_topics(topics)
    assert created == {"orders": None, "moved": None, "gone": None}
    await eventually(lambda: all(znodes.state(topic) for topic in created))
    await eventually(lambda: znodes.state("orders", 1))
    seen["created"] = znodes.tree()
    changes = {"cleanup.policy": "compact", "retention.ms": None}
    await alter(client, ConfigResourceType.TOPIC, "orders", changes)
    await alter(client, ConfigResourceType.BROKER, "1", {"message.max.bytes": "2000000"})
    await alter(client, ConfigResourceType.BROKER, "", {"log.retention.ms": "3600000"})
    seen["configured"] = znodes.tree()
    await alter(client, ConfigResourceType.BROKER, "", {"log.retention.ms": None})
    seen["broker config deleted"] = znodes.tree()
    answer = await add_partition(client)
    assert answer.results[0].error_code == ErrorCode.none
    await eventually(lambda: znodes.state("orders", 2))
    seen["grown"] = znodes.tree()
    fields = {
        "timeout": 30_000,
        "topics": [{"name": "moved", "partitions": [{"partition_index": 0, "replicas": [2]}]}],
    }
    answer = await ask_controller(client, ApiKey.ALTER_PARTITION_REASSIGNMENTS, fields)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.none
    await eventually(lambda: znodes.in_sync("moved") == (2, [2]))
    await eventually(lambda: '"0": [2]' in str(znodes.tree()["/brokers/topics/moved"]))
    seen["reassigned"] = znodes.tree()
    await set_quotas(client, QUOTAS)
    seen["quotas"] = znodes.tree()
    await set_quotas(client, DELETED_QUOTAS)
    seen["fewer quotas"] = znodes.tree()
    assert await client.delete_topics(["gone"]) == {"gone": None}
    await eventually(lambda: not znodes.has("/admin/delete_topics/gone"))
    seen["deleted"] = znodes.tree()
    await brokers[1].kill()
    await eventually(lambda: [znodes.in_sync("orders", i) for i in range(3)] == [(1, [1])] * 3)
    await eventually(lambda: znodes.in_sync("moved") == (-1, [2]))
    seen["a broker died"] = znodes.tree()
    await restart()
    await eventually(lambda: [znodes.in_sync("orders", i) for i in range(3)] == [(1, [1, 2])] * 3)
    await eventually(lambda: znodes.in_sync("moved") == (2, [2]))
    seen["it came back"] = znodes.tree()
    assert znodes.epoch() == b"1"
    await asyncio.to_thread(znodes.depose)
    await eventually(lambda: znodes.epoch() == b"2" and znodes.has("/controller"))
    seen["another controller"] = {
        path: payload
        for path, payload in znodes.tree().items()
        # Either broker may be elected; Kafka's controller rewrites some states.
        if not path.endswith(("/state", "/controller"))
    }
    return seen


async def set_quotas(client: KafkaClient, quotas: Sequence[tuple[Names, str, float]]) -> None:
    """Set each quota by itself; 0 deletes it."""
    for names, key, value in quotas:
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
        operation = {"key": key, "value": value, "remove": not value}
        fields = {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": False}
        answer = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, fields, node_id=1)
        assert [each.error_code for each in answer.entries] == [ErrorCode.none]


async def add_partition(client: KafkaClient) -> Any:
    return await client.call_controller(
        ApiKey.CREATE_PARTITIONS,
        {
            "topics": [{"name": "orders", "count": 3, "assignments": [{"broker_ids": [1, 2]}]}],
            "timeout": 30_000,
            "validate_only": False,
        },
    )


async def of_kafka(connect: str, directory: Path) -> dict[str, Tree]:
    async with running_zookeeper_mode_brokers(connect, directory, 1, 2) as brokers:

        async def restart() -> None:
            second: ZooKeeperModeBroker = brokers[1]
            second.spawn()
            await second.wait_answering()

        return await play(connect, brokers, restart)


async def alter(
    client: KafkaClient, kind: ConfigResourceType, name: str, values: Mapping[str, str | None]
) -> None:
    """Set configs, or delete them (None), through broker 1."""
    configs = [
        {"name": config, "config_operation": int(value is None), "value": value}
        for config, value in values.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    fields = {"resources": [resource], "validate_only": False}
    answer = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields, node_id=1)
    assert answer.responses[0].error_code == ErrorCode.none


async def of_ours(connect: str, directory: Path) -> dict[str, Tree]:
    config = {"auto.leader.rebalance.enable": "false"}
    async with (
        running_broker(connect, directory, broker_id=1, rack="rack-1", config=config) as one,
        running_broker(connect, directory, broker_id=2, rack="rack-2", config=config) as two,
    ):
        brokers: list[BrokerProcess] = [one, two]
        return await play(connect, brokers, two.start)


async def test_znodes_are_those_of_kafka_3_9_1(zookeeper: str, tmp_path: Path) -> None:
    zookeeper_mode_command(BROKER_VERSION, "kafka.Kafka")  # skips the test if it is unavailable
    chroot = uuid.uuid4().hex[:8]
    ours, kafkas = await asyncio.gather(
        of_ours(f"{zookeeper}/ours-{chroot}", tmp_path),
        of_kafka(f"{zookeeper}/kafka-{chroot}", tmp_path),
    )
    assert kafkas["created"].keys() >= {
        "/brokers/ids/2",
        "/config/topics/orders",
        "/brokers/topics/orders/partitions/1/state",
        "/controller",
    }
    assert kafkas["configured"].keys() >= {"/config/brokers/1", "/config/brokers/<default>"}
    assert ours.keys() == kafkas.keys()
    for step, tree in kafkas.items():
        assert ours[step] == tree, step


def test_kafka_3_9_1_reads_a_registration_with_a_key_of_our_own(tmp_path: Path) -> None:
    payload = registration_payload(SETTINGS, {"P": 9092}, 1)
    assert decode_access(payload) == access_of(SETTINGS)
    file = tmp_path / "registration.json"
    file.write_bytes(payload)
    program = Path(__file__).parent / "zookeeper_mode" / "ReadRegistration.java"
    done = subprocess.run(
        [*zookeeper_mode_command(BROKER_VERSION, str(program)), str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "7 EndPoint(h,9092,ListenerName(P),PLAINTEXT) None\n", done.stderr
