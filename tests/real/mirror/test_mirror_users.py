"""SCRAM users follow along a link between two secured clusters of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from local_cluster.client.admin.acls import create_acls
from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.admin.stored_credentials import read_keys
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.settings import Listener
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import KafkaError
from mirror_maker.settings import Limits
from tests.real.mirror.test_mirror_kill import create
from tests.support.authority import Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.mirror_process import MirrorProcess, mirror
from tests.support.quiet_ports import quiet_port

pytestmark = pytest.mark.real

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",  # ANONYMOUS: the broker on its own listener
    "heliograph.scram.credential.readers": "User:mirror",
    "connection.failed.authentication.delay.ms": "0",
}
LOOK_SECONDS = 0.2
OWN = ("admin", "mirror")
RIGHTS_TOPIC = TopicPartition("heliograph-rights.a-b.internal", 0)


def everything(kind: ResourceType, name: str, operation: AclOperation) -> Acl:
    literal, allow = PatternType.LITERAL, Permission.ALLOW
    return Acl(kind, name, literal, "User:mirror", "*", operation, allow)


OF_MIRROR = [
    everything(ResourceType.TOPIC, "*", AclOperation.ALL),
    everything(ResourceType.GROUP, "*", AclOperation.ALL),
    # As rights.md lists it: DESCRIBE at the source, ALTER on the target.
    everything(ResourceType.CLUSTER, "kafka-cluster", AclOperation.DESCRIBE),
    everything(ResourceType.CLUSTER, "kafka-cluster", AclOperation.ALTER),
]


class Side:
    """A cluster of one broker with SCRAM over TLS."""

    def __init__(self, broker: BrokerProcess, port: int, ca: Path, secret: Path) -> None:
        self.broker = broker
        self.address = f"127.0.0.1:{port}"
        self._ca, self._secret = ca, secret

    def security(self, user: str) -> ClientSecurity:
        """Return how a user of the settings connects."""
        return ClientSecurity(
            protocol="SASL_SSL",
            mechanism="SCRAM-SHA-512",
            username=user,
            password=Secret(file=str(self._secret)),
            ca_file=str(self._ca),
        )

    def _log_in(self, user: str, password: str) -> bool:
        admin = AdminClient(
            {
                "bootstrap.servers": self.address,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": password,
                "ssl.ca.location": str(self._ca),
            }
        )
        try:
            admin.list_topics(timeout=2)
        except KafkaException:
            return False
        return True

    async def lets_in(self, user: str, password: str) -> bool:
        """Return whether librdkafka gets in."""
        return await asyncio.to_thread(self._log_in, user, password)


@asynccontextmanager
async def running(
    zookeeper: str, directory: Path, name: str, authority: Authority
) -> AsyncIterator[tuple[Side, KafkaClient]]:
    directory.mkdir()
    secret = directory / "password"
    secret.write_text(f"of the settings of {name}")
    users = dict.fromkeys(OWN, Secret(file=str(secret)))
    listener = Listener(
        name="SECURE",
        host="127.0.0.1",
        port=quiet_port(),
        security_protocol="SASL_SSL",
        tls=TlsSettings(keystore_file=str(authority.issue(name).pem)),
        sasl=SaslSettings(mechanisms=("SCRAM-SHA-512",), users=users),
    )
    async with running_broker(
        zookeeper, directory, cluster=name, config=CONFIG, listeners=[listener]
    ) as broker:
        side = Side(broker, listener.port, authority.ca_file, secret)
        async with KafkaClient(side.address, security=side.security("admin")) as admin:
            assert not any((await create_acls(admin, OF_MIRROR)).values())
            yield side, admin


async def set_password(admin: KafkaClient, user: str, password: str | None) -> None:
    change = ScramChange(user, "SCRAM-SHA-512", password)
    assert await alter_scram_users(admin, [change]) == [None]


async def until_let_in(worker: MirrorProcess, side: Side, user: str, password: str) -> None:
    async def is_let_in() -> bool:
        return await side.lets_in(user, password)

    await worker.until(is_let_in)


async def keys_at(side: Side, user: str) -> set[str]:
    """Return the texts that must show nowhere."""
    async with KafkaClient(side.address, security=side.security("mirror")) as reader:
        found = await read_keys(reader, [user])
    texts = {each.keys.text for each in found.values() if each.keys is not None}
    return {
        field.partition("=")[2] for text in texts for field in text.split(",") if "key=" in field
    }


async def test_users_follow_with_their_passwords(zookeeper: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    secrets: set[str] = set()
    async with AsyncExitStack() as stack:
        here, source = await stack.enter_async_context(
            running(zookeeper, tmp_path / "a", "a", authority)
        )
        there, target = await stack.enter_async_context(
            running(zookeeper, tmp_path / "b", "b", authority)
        )
        await create(source, "t", 1)
        await set_password(source, "alice", "first")
        await set_password(source, "bob", "of the source")
        await set_password(source, "zoe", "of the source")
        await set_password(target, "bob", "of the target")
        secrets |= await keys_at(here, "alice")
        options: dict[str, Any] = {
            "sync_users": True,
            "users": ("alice", "bob"),
            "deletions": "mirror",
            "source_security": here.security("mirror"),
        }
        worker = await stack.enter_async_context(
            mirror(
                tmp_path,
                here.address,
                there.address,
                target_security=there.security("mirror"),
                limits=Limits(topic_sync_ms=200),
                **options,
            )
        )
        await until_let_in(worker, there, "alice", "first")
        # A password that is changed at the source follows, and the old one is refused.
        await set_password(source, "alice", "second")
        await until_let_in(worker, there, "alice", "second")
        secrets |= await keys_at(here, "alice")
        assert not await there.lets_in("alice", "first")
        # The target's own user stays, and nobody comes who is not selected.
        assert await there.lets_in("bob", "of the target")
        assert not await there.lets_in("bob", "of the source")
        assert not await there.lets_in("zoe", "of the source")
        status = (await worker.link())["rights_sync"]
        assert (status["failure"], status["refused"], status["users"]) == (None, [], True)
        assert [(each["kind"], each["resource"]) for each in status["withheld"]] == [
            ("set_user", "user 'bob'")
        ]
        await set_password(source, "alice", None)

        async def is_gone() -> bool:
            return not await there.lets_in("alice", "second")

        await worker.until(is_gone)
        # A super user of the target is no reader there.
        with pytest.raises(KafkaError, match=r"heliograph\.scram\.credential\.readers"):
            await read_keys(target, ["bob"])

        assert len(secrets) == 4, "two keys of two passwords"
        shown = [
            json.dumps(await worker.status()),
            worker.log_text(),
            here.broker.log_text(),
            there.broker.log_text(),
            await records_of(target),
        ]
        for secret in secrets:
            assert not [text for text in shown if secret in text]
        used = "Allowed: principal 'User:mirror'"
        assert f"{used} from host 127.0.0.1 on listener SECURE" in here.broker.log_text()
        assert "READ_KEYS on SCRAM_CREDENTIAL 'alice'" in here.broker.log_text()
        assert "WRITE_KEYS on SCRAM_CREDENTIAL 'alice'" in there.broker.log_text()


async def records_of(target: KafkaClient) -> str:
    """Return the bytes of the link's topic of rights, as text."""
    leader = (await target.metadata([RIGHTS_TOPIC.topic])).topics[RIGHTS_TOPIC.topic]
    (answer,) = (
        await target.fetch(
            leader.partitions[0].leader, {RIGHTS_TOPIC: FetchPosition(0)}, wait_ms_max=100
        )
    ).values()
    text = bytes(answer.records).decode(errors="replace")
    assert '"kind":"user","user":"alice"' in text
    return text
