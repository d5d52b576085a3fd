"""ACLs of users who log in by SASL: granted and revoked on an open connection, and a dry run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from local_cluster.client.admin.acls import create_acls, delete_acls
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.settings import Listener
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.quiet_ports import quiet_port
from tests.support.scraping import scrape

pytestmark = pytest.mark.real

PASSWORD = "of-everybody"
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The broker itself is anonymous on its own listener.
    "super.users": "User:ANONYMOUS;User:admin",
}
ALICE_CREATES = Acl(
    ResourceType.TOPIC,
    "of-alice-",
    PatternType.PREFIXED,
    "User:alice",
    "*",
    AclOperation.CREATE,
    Permission.ALLOW,
)


@asynccontextmanager
async def running(
    zookeeper: str, directory: Path, **config: str
) -> AsyncIterator[tuple[BrokerProcess, KafkaClient, KafkaClient]]:
    """A broker with a client of the super user and one of alice."""
    secret = Secret(file=str(directory / "password"))
    (directory / "password").write_text(PASSWORD)
    sasl = SaslSettings(mechanisms=("PLAIN",), users={"admin": secret, "alice": secret})
    listener = Listener(
        name="SASL",
        host="127.0.0.1",
        port=quiet_port(),
        security_protocol="SASL_PLAINTEXT",
        sasl=sasl,
    )

    def client(name: str) -> KafkaClient:
        security = ClientSecurity(
            protocol="SASL_PLAINTEXT", mechanism="PLAIN", username=name, password=secret
        )
        return KafkaClient(f"127.0.0.1:{listener.port}", security=security)

    async with (
        running_broker(
            zookeeper,
            directory,
            config={**CONFIG, **{k.replace("_", "."): v for k, v in config.items()}},
            listeners=[listener],
            http_port=0,
        ) as broker,
        client("admin") as admin,
        client("alice") as alice,
    ):
        yield broker, admin, alice


async def create(client: KafkaClient, name: str) -> ErrorCode:
    error = (await client.create_topics([NewTopic(name=name, partitions=1)]))[name]
    return ErrorCode.none if error is None else error.code


async def test_rights_change_on_an_open_connection(zookeeper: str, tmp_path: Path) -> None:
    async with running(zookeeper, tmp_path) as (broker, admin, alice):
        denied = ErrorCode.topic_authorization_failed
        assert await create(alice, "of-alice-1") == denied
        refused = (await create_acls(alice, [ALICE_CREATES]))[ALICE_CREATES]
        assert refused is not None
        assert refused.code == ErrorCode.cluster_authorization_failed
        assert await create_acls(admin, [ALICE_CREATES]) == {ALICE_CREATES: None}
        assert await create(alice, "of-alice-1") == ErrorCode.none
        assert await create(alice, "of-bob") == denied
        # Without DESCRIBE nobody creates a topic by asking for it, as in Kafka.
        topic = {"topic_id": None, "name": "of-alice-3"}
        asked = {
            "topics": [topic],
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": False,
        }
        answer = await alice.call(ApiKey.METADATA, asked)
        assert [each.error_code for each in answer.topics] == [denied]
        assert "of-alice-3" not in (await admin.metadata(None)).topics
        assert await delete_acls(admin, [ALICE_CREATES]) == {ALICE_CREATES: None}
        assert await create(alice, "of-alice-2") == denied
        assert await create(admin, "of-bob") == ErrorCode.none
        log = broker.log_text()
        found = await asyncio.to_thread(scrape, broker.http_url)
    of_alice = {"listener": "SASL", "principal": "User:alice"}
    assert found.one("heliograph_denials_total", api="CREATE_ACLS", **of_alice) == 1
    assert found.one("heliograph_denials_total", api="CREATE_TOPICS", **of_alice) >= 3
    assert found.one("kafka_server_authorizermetrics_acls_total_count") == 0
    assert found.one("heliograph_acls_age_seconds") == 0
    assert "Denied: principal 'User:alice' from host 127.0.0.1 on listener SASL" in log
    assert "CREATE on TOPIC 'of-bob' for CREATE_TOPICS, by no ACL that matched" in log
    assert PASSWORD not in log


async def test_a_dry_run_only_notes(zookeeper: str, tmp_path: Path) -> None:
    async with running(zookeeper, tmp_path, heliograph_authorizer_dry_run="true") as (
        broker,
        _,
        alice,
    ):
        assert await create(alice, "t") == ErrorCode.none
        async with asyncio.timeout(10):
            while "Would be denied: principal 'User:alice'" not in broker.log_text():
                await asyncio.sleep(0.01)
        assert "CREATE on TOPIC 't' for CREATE_TOPICS" in broker.log_text()
