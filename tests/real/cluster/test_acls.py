"""ACLs on real brokers: stored in ZooKeeper, followed by every broker, and revoked at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from local_cluster.client.admin.acls import create_acls, delete_acls, describe_acls
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.compat.same_answers.asking import Ask, Side
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once
from tests.support.replicas import until_known

pytestmark = [pytest.mark.real]

ADMIN_HOST = "127.0.0.1"
GUEST_HOST = "127.0.0.9"
"""Without authentication everybody is User:ANONYMOUS: addresses tell the two apart."""
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
}


def rule(
    kind: ResourceType,
    name: str,
    host: str,
    operation: AclOperation = AclOperation.ALL,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(kind, name, pattern, "User:ANONYMOUS", host, operation, permission)


ADMINS = [
    rule(kind, "kafka-cluster" if kind == ResourceType.CLUSTER else "*", ADMIN_HOST)
    for kind in (
        ResourceType.CLUSTER,
        ResourceType.TOPIC,
        ResourceType.GROUP,
        ResourceType.TRANSACTIONAL_ID,
    )
]
READ_ORDERS = rule(ResourceType.TOPIC, "orders", GUEST_HOST, AclOperation.READ)


class Two:
    """Two brokers of one cluster, and a client of each from the admins' address."""

    def __init__(self, brokers: list[BrokerProcess], admins: list[KafkaClient]) -> None:
        self.brokers = brokers
        self.admins = admins
        self.chroot = brokers[0].settings.zookeeper_connect

    def guest(self, index: int) -> Side:
        broker = self.brokers[index]
        return Side("ours", "127.0.0.1", broker.port, from_host=GUEST_HOST)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Two]:
    directory = tmp_path_factory.mktemp("acls")
    async with AsyncExitStack() as stack:
        chroot = f"{zookeeper}/acls-of-two"
        brokers = [
            await stack.enter_async_context(
                running_broker(chroot, directory, broker_id=broker_id, config=CONFIG)
            )
            for broker_id in (1, 2)
        ]
        admins = [
            await stack.enter_async_context(KafkaClient(broker.bootstrap)) for broker in brokers
        ]
        # With the first ACLs of a resource nobody else has access to it any more.
        assert set((await create_acls(admins[0], ADMINS)).values()) == {None}
        created = await admins[0].create_topics(
            [NewTopic(name="orders", replication_factor=2, partitions=1)]
        )
        assert created == {"orders": None}
        await until_known(brokers, admins[0], "orders")
        yield Two(brokers, admins)


async def ask_metadata(two: Two, index: int) -> int:
    """Return the error code of topic `orders` for the guest."""
    peer = await two.guest(index).connect()
    fields = {
        "topics": [{"topic_id": None, "name": "orders"}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    answer = await peer.ask(Ask(ApiKey.METADATA, 12, fields))
    await peer.close()
    return int(ErrorCode[answer["topics"][0]["error_code"]])


async def until_metadata(two: Two, index: int, code: ErrorCode) -> float:
    """Wait until the guest gets this code from a broker; return the seconds that it took."""
    started = time.monotonic()
    async with asyncio.timeout(30):
        while await ask_metadata(two, index) != code:
            await asyncio.sleep(0.005)
    return time.monotonic() - started


@pytest.mark.asyncio(loop_scope="module")
async def test_acls_hold_on_every_broker(two: Two) -> None:
    denied, none = ErrorCode.topic_authorization_failed, ErrorCode.none
    await until_metadata(two, 1, denied)
    for _ in range(5):
        assert (await create_acls(two.admins[0], [READ_ORDERS])) == {READ_ORDERS: None}
        assert await ask_metadata(two, 0) == none, "it holds where it was acknowledged"
        await until_metadata(two, 1, none)
        assert READ_ORDERS in await describe_acls(two.admins[1])
        assert (await delete_acls(two.admins[0], [READ_ORDERS])) == {READ_ORDERS: None}
        assert await ask_metadata(two, 0) == denied
        took = await until_metadata(two, 1, denied)
        print(f"revoked on the other broker after {took * 1000:.0f} ms")
    assert await describe_acls(two.admins[1]) == set(ADMINS)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_guest_may_not_touch_acls(two: Two) -> None:
    before = await describe_acls(two.admins[0])
    peer = await two.guest(0).connect()
    everything = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    answer = await peer.ask(Ask(ApiKey.DELETE_ACLS, 3, {"filters": [everything]}))
    await peer.close()
    refused = ErrorCode.cluster_authorization_failed.name
    assert [each["error_code"] for each in answer["filter_results"]] == [refused]
    assert await describe_acls(two.admins[0]) == before
    text = two.brokers[0].log_text()
    assert f"Denied: principal 'User:ANONYMOUS' from host {GUEST_HOST}" in text
    assert "ALTER on CLUSTER 'kafka-cluster' for DELETE_ACLS, by no ACL that matched" in text


@pytest.mark.asyncio(loop_scope="module")
async def test_a_parked_fetch_gives_no_records_after_a_revocation(two: Two) -> None:
    admin = two.admins[0]
    await create_acls(admin, [READ_ORDERS])
    index = await leader(admin) - 1
    await until_metadata(two, index, ErrorCode.none)
    await produce(admin, b"before")
    peer = await two.guest(index).connect()
    waiting = asyncio.create_task(peer.ask(Ask(ApiKey.FETCH, 12, fetch_fields(wait_ms=4_000))))
    await delete_acls(admin, [READ_ORDERS])
    await until_metadata(two, index, ErrorCode.topic_authorization_failed)
    answer = await waiting
    await peer.close()
    (partition,) = answer["responses"][0]["partitions"]
    assert partition["error_code"] == ErrorCode.topic_authorization_failed.name
    assert not partition["records"]


@pytest.mark.asyncio(loop_scope="module")
async def test_records_behind_a_parked_fetch_do_not_leave_after_a_revocation(two: Two) -> None:
    """Responses leave in order, so records that are read already can wait for a parked fetch."""
    admin = two.admins[0]
    await create_acls(admin, [READ_ORDERS])
    index = await leader(admin) - 1
    await until_metadata(two, index, ErrorCode.none)
    await produce(admin, b"not for the revoked")
    peer = await two.guest(index).connect()
    for wait_ms in (4_000, 0):
        ask = Ask(ApiKey.FETCH, 12, fetch_fields(wait_ms=wait_ms))
        peer.send_frame(ask.frame(peer.side, wait_ms))
    await delete_acls(admin, [READ_ORDERS])
    await until_metadata(two, index, ErrorCode.topic_authorization_failed)
    async with asyncio.timeout(30):
        frames = [bytes(await peer.receive() or b"") for _ in range(2)]
    await peer.close()
    assert frames[0], "the parked fetch is answered"
    assert b"not for the revoked" not in b"".join(frames)
    line = f"from {GUEST_HOST} closed: the right to read records that waited was revoked"
    assert line in two.brokers[index].log_text()


@pytest.mark.asyncio(loop_scope="module")
async def test_acls_that_an_outside_tool_writes(two: Two) -> None:
    """A tool writes the znode and a notification, as Kafka's AclAuthorizer does."""
    zookeeper = KazooClient(two.chroot)
    await asyncio.to_thread(zookeeper.start)
    try:
        entry = (
            f'{"{"}"principal":"User:ANONYMOUS","permissionType":"Allow","operation":"Read",'
            f'"host":"{GUEST_HOST}"{"}"}'
        )
        payload = f'{"{"}"version":1,"acls":[{entry}]{"}"}'.encode()
        await asyncio.to_thread(zookeeper.create, "/kafka-acl-extended/prefixed/Topic/ord", payload)
        notice = b'{"version":1,"resourceType":"TOPIC","name":"ord","patternType":"PREFIXED"}'
        await asyncio.to_thread(
            zookeeper.create, "/kafka-acl-extended-changes/acl_changes_", notice, sequence=True
        )
        for index in (0, 1):
            await until_metadata(two, index, ErrorCode.none)
        await asyncio.to_thread(
            zookeeper.set, "/kafka-acl-extended/prefixed/Topic/ord", b"not ACLs"
        )
        await asyncio.to_thread(
            zookeeper.create, "/kafka-acl-extended-changes/acl_changes_", b"?", sequence=True
        )
        for index in (0, 1):
            await until_metadata(two, index, ErrorCode.topic_authorization_failed)
        to_the_admin = (await two.admins[0].metadata(["orders"])).topics["orders"]
        assert not to_the_admin.partitions, "what cannot be read denies all"
        await asyncio.to_thread(zookeeper.delete, "/kafka-acl-extended/prefixed/Topic/ord")
        await asyncio.to_thread(
            zookeeper.create, "/kafka-acl-extended-changes/acl_changes_", notice, sequence=True
        )
        async with asyncio.timeout(30):
            while (await describe_acls(two.admins[1])) != set(ADMINS):
                await asyncio.sleep(0.01)
    finally:
        await asyncio.to_thread(zookeeper.stop)


def fetch_fields(*, wait_ms: int) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1_000_000,
    }
    return {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": 1_000_000,
        "max_bytes": 50_000_000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": "orders", "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


async def produce(client: KafkaClient, value: bytes) -> None:
    batch = encode_batch([NewRecord(1_000, b"k", value)])
    done = await produce_once(client, await leader(client), TopicPartition("orders", 0), batch)
    if done.error != ErrorCode.none:
        raise KafkaError(done.error, "produce")


async def leader(client: KafkaClient) -> int:
    async with asyncio.timeout(30):
        while True:
            topic = (await client.metadata(["orders"])).topics["orders"]
            if topic.partitions[0].leader > 0:
                return topic.partitions[0].leader
            await asyncio.sleep(0.05)
