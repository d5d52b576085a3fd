"""Java's clients 4.4 on secured listeners: refusals, a right that is revoked, a session that ends.

The broker is that of secured_broker.py. The table of clients and cases is in README.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
import pytest_asyncio

from local_cluster.client.admin.acls import create_acls, delete_acls
from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import AclOperation
from tests.compat.secured_broker import (
    SESSION_MS,
    Secured,
    committed,
    new_topic,
    rights,
    running_secured,
)
from tests.support.java_process import JavaProcess, run_java
from tests.support.kafka_from_maven import broker_jars
from tests.support.python_clients import librdkafka_options

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.asyncio(loop_scope="module")]

PROGRAM: Final = str(Path(__file__).parent / "java" / "MeetRefusals.java")
WAIT_SECONDS: Final = 60.0
FLAWS: Final = {
    "wrong password": ("SASL_SSL", "SaslAuthenticationException", "invalid credentials"),
    "expired certificate": ("SSL", "SslAuthenticationException", "certificate has expired"),
    "foreign certificate": ("SSL", "SslAuthenticationException", "certificate verify failed"),
}
"""The listener, what the client is told, and what the broker's log has."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Secured]:
    broker_jars()
    async with running_secured(zookeeper, tmp_path_factory.mktemp("secured")) as started:
        yield started


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_java_produces(secured: Secured, protocol: str) -> None:
    topic = f"orders-java-{protocol.lower()}"
    await new_topic(secured, topic)
    security = secured.alice(protocol)
    told = await run_java(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", secured.address(security), "--topic", topic),
        *("--max-messages", "3", "--command-config", secured.write_java(security, topic)),
    )
    assert told.count("producer_send_success") == 3


async def test_nobody_gets_in_without_a_proof(secured: Secured) -> None:
    arguments = ["alice", secured.write_java(secured.alice("SSL"), "alice")]
    for flaw, (protocol, _, _) in FLAWS.items():
        arguments += [flaw, secured.write_java(secured.alice(protocol, flaw), flaw)]
    since = len(secured.broker.log_text())
    told = await run_java(PROGRAM, "refused", *arguments)
    found = {name: error for name, error, _ in (line.split("|") for line in told.splitlines())}
    assert found == {"alice": "welcome"} | {flaw: error for flaw, (_, error, _) in FLAWS.items()}
    async with asyncio.timeout(WAIT_SECONDS):
        # The peer may read the alert before the broker has logged it.
        while not all(each in secured.broker.log_text()[since:] for _, _, each in FLAWS.values()):
            await asyncio.sleep(0.05)


async def test_a_right_is_revoked_and_granted_in_mid_stream(secured: Secured) -> None:
    topic = "orders-revoked-java"
    await new_topic(secured, topic)
    security = secured.alice("SASL_SSL")
    writer = confluent_kafka.Producer(librdkafka_options(secured.address(security), security))
    reader = JavaProcess(
        PROGRAM,
        ("read", topic, secured.write_java(security, topic)),
        secured.directory / f"{topic}.log",
        broker_jars(),
    )

    def write(value: bytes) -> None:
        writer.produce(topic, value)
        assert writer.flush(WAIT_SECONDS) == 0

    async def reads(line: str) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while line not in reader.text().splitlines():
                reader.check_running()
                await asyncio.sleep(0.05)

    readable = [each for each in rights(AclOperation.READ) if each.resource_name == "orders"]
    await asyncio.to_thread(write, b"before")
    reader.start()
    async with KafkaClient(secured.broker.bootstrap) as admin:
        try:
            await reads("value before")
            assert set((await delete_acls(admin, readable)).values()) == {None}
            await reads(f"denied [{topic}]")
            await asyncio.to_thread(write, b"meanwhile")
            assert "value meanwhile" not in reader.text()
            assert set((await create_acls(admin, readable)).values()) == {None}
            await reads("value meanwhile")
        finally:
            await create_acls(admin, readable)
            await reader.kill()


async def test_a_session_ends_in_mid_transaction(secured: Secured) -> None:
    topic = "orders-transaction-java"
    await new_topic(secured, topic)
    security = secured.alice("SASL_SSL")
    config = secured.write_java(security, topic)
    await run_java(PROGRAM, "transact", topic, str(SESSION_MS * 3 // 2), config)
    address = secured.address(security)
    assert await asyncio.to_thread(committed, address, security, topic) == [b"0", b"1"]
