"""SASL over TLS and ACLs, against Apache Kafka: the client, and a mirror with few rights."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.constants import AclOperation, PatternType, ResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.real.mirror.test_mirror_kill import create
from tests.support.cluster import running_broker
from tests.support.mirror_process import mirror, read_records
from tests.support.producing import produce_to
from tests.support.secure_kafka import Mechanism, SecureKafka, running_secure_kafka

pytestmark = [pytest.mark.real, pytest.mark.oracle]

WAIT_SECONDS_MAX = 240.0
RECORDS = 500
SESSION_MS = 4_000
MECHANISMS: tuple[Mechanism, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


async def test_a_mirror_with_few_rights_from_and_to_a_cluster_with_sasl_and_tls(
    zookeeper: str, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        secure = await stack.enter_async_context(running_secure_kafka(tmp_path / "kafka"))
        own = await stack.enter_async_context(running_broker(zookeeper, tmp_path / "own"))
        admin = await stack.enter_async_context(KafkaClient(secure.plain_bootstrap))
        ours = await stack.enter_async_context(KafkaClient(own.bootstrap))
        for name in ("reader", "writer"):
            await secure.add_user(admin, name)
        await _check_logins(secure, tmp_path)
        await _allow_what_the_readme_says(secure, admin)
        await create(admin, "t", 1)
        await _produce(admin, "t")
        # From the secured cluster into ours.
        worker = await stack.enter_async_context(
            mirror(
                tmp_path / "in",
                secure.bootstrap,
                own.bootstrap,
                source_security=secure.security("reader"),
            )
        )
        await _until_copied(ours, "a.t", RECORDS, worker.log_text)
        # From ours into the secured cluster; the copy of the copy, whose partitions grow.
        back = await stack.enter_async_context(
            mirror(
                tmp_path / "back",
                own.bootstrap,
                secure.bootstrap,
                topics=("a.t",),
                link="back",
                target_security=secure.security("writer"),
            )
        )
        await _until_copied(admin, "a.a.t", RECORDS, back.log_text)
        assert (await ours.create_partitions({"a.t": 2}))["a.t"] is None
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len((await admin.metadata(["a.a.t"])).topics["a.a.t"].partitions) < 2:
                await asyncio.sleep(0.1)
        for process in (worker, back):
            text = process.log_text() + process.settings_text()
            assert "of-the-user" not in text  # the log never has the password
            assert await process.stop() == 0


async def test_sessions_are_renewed_while_requests_are_in_flight(tmp_path: Path) -> None:
    """KIP-368, as Apache Kafka has it."""
    async with (
        running_secure_kafka(tmp_path / "kafka", session_ms=SESSION_MS) as secure,
        KafkaClient(secure.plain_bootstrap) as admin,
    ):
        await secure.add_user(admin, "reader")
        host, port = secure.bootstrap.split(":")
        ends = asyncio.get_running_loop().time() + 3 * SESSION_MS / 1000
        calls = 0

        async def call(connection: Connection) -> None:
            nonlocal calls
            while asyncio.get_running_loop().time() < ends:
                await connection.negotiate()
                calls += 1

        async with asyncio.TaskGroup() as tasks:
            for mechanism in MECHANISMS:
                name = "plain-user" if mechanism == "PLAIN" else "reader"
                connection = await connect(
                    host,
                    int(port),
                    client_id="test",
                    timeout_ms=20_000,
                    security=secure.security(name, mechanism),
                )
                # A closed connection fails these, and the test.
                for _ in range(5):
                    tasks.create_task(call(connection))
        assert calls > 100


async def _check_logins(secure: SecureKafka, directory: Path) -> None:
    """Check that each mechanism works, and that a wrong name, password or CA is refused."""
    for mechanism in MECHANISMS:
        user = "plain-user" if mechanism == "PLAIN" else "reader"
        security = secure.security(user, mechanism)
        async with KafkaClient(secure.bootstrap, security=security) as client:
            assert (await client.metadata([])).brokers
    wrong = directory / "wrong"
    wrong.write_text("something else")
    right = secure.security("reader")
    refused = {
        ErrorCode.sasl_authentication_failed: [
            replace(right, password=Secret(file=str(wrong))),
            replace(right, username="nobody"),
            replace(secure.security("plain-user", "PLAIN"), password=Secret(file=str(wrong))),
            replace(right, password=Secret(file=str(directory / "no such file"))),
        ],
        ErrorCode.network_exception: [
            replace(right, ca_file=None),  # no CA of the system signed it
            ClientSecurity(protocol="SSL", ca_file=right.ca_file),  # closed at the first request
        ],
    }
    for code, securities in refused.items():
        for security in securities:
            async with KafkaClient(secure.bootstrap, security=security) as client:
                with pytest.raises(KafkaError) as caught:
                    await client.metadata([])
                assert caught.value.code == code, (security, caught.value)


async def _allow_what_the_readme_says(secure: SecureKafka, admin: KafkaClient) -> None:
    """The table of docs/operations/rights.md, for a link without syncs."""
    topic, prefixed = ResourceType.TOPIC, PatternType.PREFIXED
    await secure.allow(
        admin, "reader", topic, "t", [AclOperation.READ, AclOperation.DESCRIBE_CONFIGS]
    )
    await secure.allow(
        admin, "writer", ResourceType.GROUP, "heliograph-mirror-b", [AclOperation.READ]
    )
    state = [AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE]
    await secure.allow(admin, "writer", topic, "heliograph-", state, prefixed)
    await secure.allow(admin, "writer", topic, "a.", [*state, AclOperation.ALTER], prefixed)


async def _produce(client: KafkaClient, topic: str) -> None:
    for start in range(0, RECORDS, 100):
        records = [NewRecord(1_000 + n, b"k%d" % n, b"v%d" % n) for n in range(start, start + 100)]
        await produce_to(client, TopicPartition(topic, 0), encode_batch(records, codec=3))


async def _until_copied(client: KafkaClient, topic: str, count: int, log_text: object) -> None:
    at = TopicPartition(topic, 0)
    found: list[object] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(found) < count:
                found = list(await read_records(client, at))
                await asyncio.sleep(0.1)
    assert len(found) == count, callable(log_text) and log_text()[-4000:]
