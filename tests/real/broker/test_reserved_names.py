"""An outside client with every right on `*` cannot change what mirrors own; its writers can."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import RESOURCE_TOPIC, NewPartitions, NewTopic

from local_cluster.client.admin.acls import create_acls
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic as NewTopicOfOurs
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.settings import Listener
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import ErrorCode
from mirror_maker.formats import map_topic_name
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once, produce_to
from tests.support.quiet_ports import quiet_port

pytestmark = pytest.mark.real

PASSWORD = "of-everybody"
USERS = ("admin", "mirror", "aggregator", "outsider", "other-mirror")
MAP, PROBE = map_topic_name("jfk-nyc"), "heliograph-probe.jfk-nyc.internal"
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",  # ANONYMOUS: the broker on its own listener
    "auto.create.topics.enable": "true",
}
WRITERS = {"heliograph-": ("User:mirror",), "heliograph-probe.": ("User:aggregator",)}
WAIT_S = 20


def acl(kind: ResourceType, name: str, principal: str, *, prefixed: bool = False) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(kind, name, pattern, principal, "*", AclOperation.ALL, Permission.ALLOW)


GENERAL = (
    acl(ResourceType.TOPIC, "*", "User:*"),
    acl(ResourceType.CLUSTER, "kafka-cluster", "User:*"),
    acl(ResourceType.TRANSACTIONAL_ID, "*", "User:*"),
    acl(ResourceType.GROUP, "*", "User:*"),
)
NAMED = acl(ResourceType.TOPIC, "heliograph-", "User:other-mirror", prefixed=True)


class Clients:
    """librdkafka as any of the users."""

    def __init__(self, port: int, secret: Secret) -> None:
        self._port = port
        self._secret = secret

    def _security(self, user: str) -> ClientSecurity:
        return ClientSecurity(
            protocol="SASL_PLAINTEXT", mechanism="PLAIN", username=user, password=self._secret
        )

    def conf(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self._port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }

    def ours(self, user: str) -> KafkaClient:
        """Return our own client as a user."""
        return KafkaClient(f"127.0.0.1:{self._port}", security=self._security(user))

    def admin(self, user: str) -> AdminClient:
        return AdminClient(self.conf(user))

    def produce(self, user: str, topic: str, **more: Any) -> int | None:
        """Return the error of one record, None if it was written."""
        errors: list[KafkaError | None] = []
        producer = Producer({**self.conf(user), "delivery.timeout.ms": WAIT_S * 1000, **more})
        try:
            if "transactional.id" in more:
                producer.init_transactions(WAIT_S)
                producer.begin_transaction()
            producer.produce(
                topic, value=b"forged", on_delivery=lambda error, _: errors.append(error)
            )
            producer.flush(WAIT_S)
        except KafkaException as error:
            errors.append(error.args[0])
        (found,) = errors
        return None if found is None else int(found.code())


@asynccontextmanager
async def running(
    zookeeper: str, directory: Path, *, broker_id: int = 1, **config: str
) -> AsyncIterator[tuple[BrokerProcess, Clients]]:
    secret = Secret(file=str(directory / "password"))
    (directory / "password").write_text(PASSWORD)
    listener = Listener(
        name="SASL",
        host="127.0.0.1",
        port=quiet_port(),
        security_protocol="SASL_PLAINTEXT",
        sasl=SaslSettings(mechanisms=("PLAIN",), users=dict.fromkeys(USERS, secret)),
    )
    clients = Clients(listener.port, secret)
    async with running_broker(
        zookeeper,
        directory,
        broker_id=broker_id,
        config={**CONFIG, **{name.replace("_", "."): value for name, value in config.items()}},
        listeners=[listener],
        settings={"internal_topic_writers": WRITERS},
    ) as broker:
        async with clients.ours("admin") as client:
            made = await create_acls(client, [*GENERAL, NAMED])
            assert set(made.values()) == {None}
        yield broker, clients


def outcome(future: Any) -> int | None:
    """Return the error code of an admin call, None if it was done."""
    try:
        future.result(WAIT_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return None


REFUSED = int(KafkaError.TOPIC_AUTHORIZATION_FAILED)


def changes(admin: AdminClient, topic: str) -> list[int | None]:
    """Try every change of a topic that exists; return the error of each."""
    (grown,) = admin.create_partitions([NewPartitions(topic, 2)]).values()
    resource = ConfigResource(RESOURCE_TOPIC, topic, set_config={"retention.ms": "1"})
    (configured,) = admin.alter_configs([resource]).values()
    (trimmed,) = admin.delete_records([Place(topic, 0, 1)]).values()
    outcomes = [outcome(each) for each in (grown, configured, trimmed)]
    (deleted,) = admin.delete_topics([topic]).values()
    return [*outcomes, outcome(deleted)]


def play(clients: Clients) -> None:
    outsider, mirror = clients.admin("outsider"), clients.admin("mirror")
    aggregator = clients.admin("aggregator")

    # Nobody but writers creates them, also not by Metadata.
    for topic in (MAP, PROBE):
        (created,) = outsider.create_topics([NewTopic(topic, 1, 1)]).values()
        assert outcome(created) == REFUSED
        Producer(clients.conf("outsider")).list_topics(topic, timeout=WAIT_S)
        assert topic not in mirror.list_topics(timeout=WAIT_S).topics
    (created,) = aggregator.create_topics([NewTopic(MAP, 1, 1)]).values()
    assert outcome(created) == REFUSED, "an aggregator writes probes"
    (created,) = mirror.create_topics([NewTopic(MAP, 1, 1)]).values()
    assert outcome(created) is None
    (created,) = aggregator.create_topics([NewTopic(PROBE, 1, 1)]).values()
    assert outcome(created) is None

    for user, topic in (("mirror", MAP), ("aggregator", PROBE), ("mirror", PROBE)):
        assert clients.produce(user, topic) is None, (user, topic)
    assert clients.produce("other-mirror", MAP) is None, "its ACL names such topics"
    assert clients.produce("admin", MAP) is None, "a super user"
    assert clients.produce("outsider", "orders") is None

    for topic in (MAP, PROBE):
        assert clients.produce("outsider", topic) == REFUSED
        in_transaction = {"transactional.id": f"forger-{topic}"}
        assert clients.produce("outsider", topic, **in_transaction) is not None
        assert changes(outsider, topic) == [REFUSED] * 4
    assert clients.produce("aggregator", MAP) == REFUSED
    assert changes(mirror, MAP) == [None] * 4


def group_requests(group: str, transactional_id: str) -> Iterator[tuple[ApiKey, dict[str, Any]]]:
    """Yield each request that changes a group, or writes by a transactional id."""
    member = {"group_id": group, "member_id": "m"}
    transaction = {"transactional_id": transactional_id, "producer_id": 1, "producer_epoch": 0}
    of_transaction = {"transactional_id": "free", "producer_id": 1, "producer_epoch": 0}
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [offset]}]
    protocols = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    timeouts = {"session_timeout": 10_000, "rebalance_timeout": 10_000}
    yield ApiKey.JOIN_GROUP, {"group_id": group, "member_id": "", **timeouts, **protocols}
    yield ApiKey.SYNC_GROUP, {**member, "generation_id": 1, "assignments": []}
    yield ApiKey.HEARTBEAT, {**member, "generation_id": 1}
    yield ApiKey.LEAVE_GROUP, {"group_id": group, "members": [{"member_id": "m"}]}
    consumer = {
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": ["orders"],
    }
    yield ApiKey.CONSUMER_GROUP_HEARTBEAT, {**member, **consumer, "topic_partitions": []}
    no_member = {"group_id": group, "member_id": "", "generation_id_or_member_epoch": -1}
    yield ApiKey.OFFSET_COMMIT, {**no_member, "topics": topics}
    partitions = [{"partition_index": 0}]
    deleted = [{"name": "orders", "partitions": partitions}]
    yield ApiKey.OFFSET_DELETE, {"group_id": group, "topics": deleted}
    yield ApiKey.DELETE_GROUPS, {"groups_names": [group]}
    yield ApiKey.ADD_OFFSETS_TO_TXN, {**of_transaction, "group_id": group}
    yield ApiKey.TXN_OFFSET_COMMIT, {**of_transaction, "group_id": group, "topics": topics}
    config = {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}
    resource = {"resource_type": 32, "resource_name": group, "configs": [config]}
    yield ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": True}
    begun = {"transactional_id": transactional_id, "transaction_timeout": 10_000}
    yield ApiKey.INIT_PRODUCER_ID, begun
    added = [{"name": "orders", "partitions": [0]}]
    of_client = {f"v3_and_below_{name}": value for name, value in transaction.items()}
    yield ApiKey.ADD_PARTITIONS_TO_TXN, {**of_client, "v3_and_below_topics": added}
    yield ApiKey.ADD_OFFSETS_TO_TXN, {**transaction, "group_id": "free"}
    yield ApiKey.END_TXN, {**transaction, "committed": False}


GROUP, TRANSACTION = "heliograph-mirror-nyc", "heliograph-serve-q-0"
OF_TRANSACTIONS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
)

VERSIONS_MAX = {ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}


async def group_errors(
    client: KafkaClient, group: str, transactional_id: str
) -> list[tuple[ApiKey, str]]:
    """Return each request with its response in words."""
    return [
        # Newer versions of AddPartitionsToTxn are those of brokers.
        (api, repr(await client.call(api, fields, version_max=VERSIONS_MAX.get(api))))
        for api, fields in group_requests(group, transactional_id)
    ]


async def play_groups(clients: Clients) -> None:
    of_group, of_transaction = (
        repr(ErrorCode.group_authorization_failed),
        repr(ErrorCode.transactional_id_authorization_failed),
    )
    async with clients.ours("outsider") as outsider, clients.ours("mirror") as mirror:
        for api, response in await group_errors(outsider, GROUP, TRANSACTION):
            refused = of_transaction if api in OF_TRANSACTIONS else of_group
            assert of_group in response or refused in response, (api, response)
        allowed = [
            *await group_errors(outsider, "orders", "orders"),
            *await group_errors(mirror, GROUP, TRANSACTION),
        ]
        for api, response in allowed:
            assert of_group not in response, (api, response)
            assert of_transaction not in response, (api, response)
        # Reading is decided by the ACLs alone.
        asked = {"groups": [GROUP], "include_authorized_operations": False}
        described = await outsider.call(ApiKey.DESCRIBE_GROUPS, asked)
        assert of_group not in repr(described)
        wanted = [{"group_id": GROUP, "topics": None}]
        read = await outsider.call(
            ApiKey.OFFSET_FETCH, {"groups": wanted, "require_stable": False}, version_max=9
        )
        assert of_group not in repr(read)


async def test_an_outside_client_with_every_right_is_refused(
    zookeeper: str, tmp_path: Path
) -> None:
    async with running(zookeeper, tmp_path) as (broker, clients):
        await asyncio.to_thread(play, clients)
        await play_groups(clients)
        log = broker.log_text()
    rule = "by the rule that only an ACL on heliograph-... allows changes of topics of mirrors"
    for operation, api in (
        ("CREATE", "CREATE_TOPICS"),
        ("WRITE", "PRODUCE"),
        ("WRITE", "ADD_PARTITIONS_TO_TXN"),
        ("ALTER", "CREATE_PARTITIONS"),
        ("DELETE", "DELETE_RECORDS"),
        ("DELETE", "DELETE_TOPICS"),
    ):
        assert f"{operation} on TOPIC '{MAP}' for {api}, {rule}" in log, (operation, api)
    assert f"ALTER_CONFIGS on TOPIC '{MAP}'" in log
    of_groups = "by the rule that only an ACL on heliograph-... allows changes of groups of mirrors"
    assert f"READ on GROUP '{GROUP}' for JOIN_GROUP, {of_groups}" in log
    of_ids = "by the rule that only an ACL on heliograph-... allows such transactions"
    assert f"WRITE on TRANSACTIONAL_ID '{TRANSACTION}' for INIT_PRODUCER_ID, {of_ids}" in log
    assert "Denied: principal 'User:mirror'" not in log


async def write(client: KafkaClient, partition: int, producer_id: int, sequence: int) -> ErrorCode:
    """Append one batch with a producer id; return the error."""
    at = TopicPartition("orders", partition)
    batch = encode_batch(
        [NewRecord(1_000, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    leader = (await client.metadata([at.topic])).topics[at.topic].partitions[partition].leader
    return (await produce_once(client, leader, at, batch)).error


async def test_only_mirrors_write_with_a_producer_id_that_a_mirror_got(
    zookeeper: str, tmp_path: Path
) -> None:
    zookeeper += "/producers"
    async with (
        running(zookeeper, tmp_path) as (broker, clients),
        running(zookeeper, tmp_path, broker_id=2) as (other, _),
        clients.ours("admin") as admin,
        clients.ours("mirror") as mirror,
        clients.ours("outsider") as outsider,
    ):
        topic = NewTopicOfOurs(name="orders", assignments={0: (1,), 1: (2,)})
        assert await admin.create_topics([topic]) == {"orders": None}
        for partition in (0, 1):
            await produce_to(
                admin, TopicPartition("orders", partition), encode_batch([NewRecord(1, b"", b"")])
            )
        of_mirror, _ = await mirror.init_producer_id()
        of_outsider, _ = await outsider.init_producer_id()
        older, _ = await admin.init_producer_id()
        refused = ErrorCode.topic_authorization_failed
        for partition in (0, 1):
            # It holds before the mirror has written, and without a word between the brokers.
            assert await write(outsider, partition, of_mirror, 0) == refused
            assert await write(outsider, partition, of_outsider, 0) == ErrorCode.none
            for client in (mirror, admin):
                assert await write(client, partition, of_mirror, 0) == ErrorCode.none
        # One that a mirror has from before is listed when the mirror names it at its start,
        named, _ = await admin.init_producer_id()
        kept = {"producer_id": named, "producer_epoch": 0}
        for client in (outsider, mirror):
            assert await write(outsider, 0, named, 0) == ErrorCode.none, "named by nobody yet"
            given = {"transactional_id": None, "transaction_timeout": 0, **kept}
            answer = await client.call(ApiKey.INIT_PRODUCER_ID, given)
            assert (answer.error_code, answer.producer_id) != (0, named), "as in Kafka: a new one"
        async with asyncio.timeout(WAIT_S):
            while await write(outsider, 1, named, 0) != refused:
                await asyncio.sleep(0.05)
        # or writes with it.
        assert await write(outsider, 0, older, 0) == ErrorCode.none
        assert await write(mirror, 0, older, 1) == ErrorCode.none
        for partition in (0, 1):
            async with asyncio.timeout(WAIT_S):
                # The other broker follows the list: it may know the id a moment later.
                while await write(outsider, partition, older, 0) != refused:
                    await asyncio.sleep(0.05)
            assert await write(mirror, partition, older, 0) == ErrorCode.none
        rule = "by the rule that only mirrors write with producer ids of mirrors"
        for each in (broker, other):
            for producer_id in (of_mirror, older):
                line = f"WRITE on PRODUCER_ID '{producer_id}' for PRODUCE, {rule}"
                assert line in each.log_text()
            assert "principal 'User:mirror'" not in each.log_text()
    async with (
        running(zookeeper, tmp_path) as (_, clients),
        clients.ours("outsider") as outsider,
    ):
        found = ErrorCode.not_leader_or_follower
        async with asyncio.timeout(WAIT_S):
            while found in (ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available):
                found = await write(outsider, 0, older, 1)
        assert found == refused, "known after a restart"


async def test_a_dry_run_only_notes_it(zookeeper: str, tmp_path: Path) -> None:
    async with running(zookeeper, tmp_path, heliograph_authorizer_dry_run="true") as (
        broker,
        clients,
    ):
        assert await asyncio.to_thread(clients.produce, "outsider", MAP) is None
        deadline_s = time.monotonic() + WAIT_S
        while "Would be denied: principal 'User:outsider'" not in broker.log_text():
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.05)
        assert f"WRITE on TOPIC '{MAP}' for PRODUCE" in broker.log_text()
