"""ACLs in ZooKeeper are those of Kafka 3.9.1, and Kafka's own tool works on them."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from local_cluster.client.admin.acls import create_acls, delete_acls, describe_acls
from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from tests.support.cluster import running_broker
from tests.support.java_process import run_java
from tests.support.kafka_in_zookeeper_mode import ZooKeeperModeBroker
from tests.support.quiet_ports import quiet_port

pytestmark = [pytest.mark.real, pytest.mark.oracle]

OURS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
KAFKAS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ALICE, BOB = "User:alice", "User:CN=bob,OU=x"

ACLS: Final = [
    Acl(ResourceType.TOPIC, "orders", LITERAL, ALICE, "*", AclOperation.READ, ALLOW),
    Acl(ResourceType.TOPIC, "orders", LITERAL, BOB, "10.0.0.1", AclOperation.ALL, DENY),
    Acl(ResourceType.TOPIC, "*", LITERAL, "User:*", "*", AclOperation.DESCRIBE_CONFIGS, ALLOW),
    Acl(ResourceType.TOPIC, "or", PREFIXED, ALICE, "*", AclOperation.ALTER_CONFIGS, ALLOW),
    Acl(ResourceType.GROUP, "g with spaces", LITERAL, ALICE, "*", AclOperation.DELETE, ALLOW),
    Acl(ResourceType.GROUP, "g", PREFIXED, ALICE, "*", AclOperation.READ, ALLOW),
    Acl(
        ResourceType.CLUSTER, "kafka-cluster", LITERAL, BOB, "*", AclOperation.CLUSTER_ACTION, ALLOW
    ),
    Acl(ResourceType.TRANSACTIONAL_ID, "tx", PREFIXED, BOB, "*", AclOperation.WRITE, ALLOW),
    Acl(ResourceType.DELEGATION_TOKEN, "*", LITERAL, BOB, "*", AclOperation.DESCRIBE, ALLOW),
    Acl(ResourceType.USER, "u", LITERAL, BOB, "*", AclOperation.CREATE_TOKENS, ALLOW),
]
GONE: Final = [ACLS[1], ACLS[3]]


async def play(bootstrap: str) -> None:
    async with KafkaClient(bootstrap) as client:
        assert set((await create_acls(client, ACLS)).values()) == {None}
        assert set((await create_acls(client, ACLS[:1])).values()) == {None}, "once more"
        assert set((await delete_acls(client, GONE)).values()) == {None}
        assert await describe_acls(client) == set(ACLS) - set(GONE)


def tree(connect: str) -> dict[str, Any]:
    """Return the payloads below the paths of ACLs; ACLs of one resource have no order."""
    client = KazooClient(connect)
    client.start()
    found: dict[str, Any] = {}

    def walk(path: str) -> None:
        payload, _ = client.get(path)
        found[path] = comparable(payload)
        for name in client.get_children(path):
            walk(f"{path}/{name}")

    try:
        for name in client.get_children("/"):
            if name.startswith("kafka-acl"):
                walk(f"/{name}")
    finally:
        client.stop()
        client.close()
    notices = {
        root: sorted(repr(payload) for path, payload in found.items() if path.startswith(root))
        for root in ("/kafka-acl-changes/", "/kafka-acl-extended-changes/")
    }
    rest = {path: payload for path, payload in found.items() if "changes/" not in path}
    return rest | notices


def comparable(payload: bytes | None) -> Any:
    """Return a payload with its keys in order, and its ACLs sorted."""
    try:
        body = json.loads(payload or b"")
    except ValueError:
        return payload or b""
    if "acls" in body:
        body["acls"] = sorted(list(each.items()) for each in body["acls"])
    return list(body.items())


async def test_znodes_of_acls_are_those_of_kafka_3_9_1(zookeeper: str, tmp_path: Path) -> None:
    chroot = uuid.uuid4().hex[:8]
    kafkas_chroot, our_chroot = f"{zookeeper}/kafka-{chroot}", f"{zookeeper}/ours-{chroot}"
    kafka = ZooKeeperModeBroker(
        tmp_path / "kafka", quiet_port(), kafkas_chroot, broker_id=1, config=KAFKAS
    )
    kafka.spawn()
    try:
        async with running_broker(our_chroot, tmp_path, config=OURS) as broker:
            await play(broker.bootstrap)
            ours = await asyncio.to_thread(tree, our_chroot)
        await kafka.wait_answering()
        await play(kafka.bootstrap)
        kafkas = await asyncio.to_thread(tree, kafkas_chroot)
    finally:
        await kafka.kill()
    assert "/kafka-acl-extended/prefixed/Group/g" in kafkas
    assert ours == kafkas
    # One that has read what Kafka wrote decides by it.
    async with (
        running_broker(kafkas_chroot, tmp_path, broker_id=2, config=OURS) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        assert await describe_acls(client) == set(ACLS) - set(GONE)


async def test_the_tool_kafka_acls(zookeeper: str, tmp_path: Path) -> None:
    async with running_broker(zookeeper, tmp_path, config=OURS) as broker:

        async def tool(*arguments: str) -> str:
            return await run_java(
                "org.apache.kafka.tools.AclCommand",
                *("--bootstrap-server", broker.bootstrap),
                *arguments,
            )

        who = ("--allow-principal", ALICE, "--topic", "orders")
        await tool("--add", *who, "--producer", "--resource-pattern-type", "prefixed")
        added = await tool("--add", *who, "--group", "g", "--consumer")
        assert "ResourcePattern(resourceType=GROUP, name=g, patternType=LITERAL)" in added
        listed = await tool("--list", "--topic", "orders-1", "--resource-pattern-type", "match")
        for operation in ("WRITE", "DESCRIBE", "CREATE"):
            assert f"host=*, operation={operation}, permissionType=ALLOW" in listed
        assert "operation=READ" not in listed, "of the literal topic"
        await tool("--remove", "--force", "--group", "g")
        async with KafkaClient(broker.bootstrap) as client:
            left = await describe_acls(client)
        assert {(acl.resource_type, acl.pattern_type) for acl in left} == {
            (ResourceType.TOPIC, LITERAL),
            (ResourceType.TOPIC, PREFIXED),
        }
