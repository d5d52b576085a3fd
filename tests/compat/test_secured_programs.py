"""Clients in Go and JavaScript on secured listeners, and a new password for clients of all kinds.

The broker is that of secured_broker.py. The table of clients and cases is in README.md.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import kafka
import kafka.errors
import pytest
import pytest_asyncio

from local_cluster.client.admin.acls import create_acls
from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import AclOperation
from tests.compat.client_programs import (
    DENIED,
    GO_CLIENTS,
    KAFKAJS,
    LIST_TOPICS,
    READ,
    TRANSACTION,
    client_command,
    run_client,
)
from tests.compat.secured_broker import (
    SESSION_MS,
    WAIT_SECONDS,
    Secured,
    committed,
    create_topic,
    new_topic,
    read_while_revoked,
    rights,
    running_secured,
)
from tests.support.secure_kafka import running_secure_kafka

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

PROGRAMS: Final = (KAFKAJS, *GO_CLIENTS)
SAID_BY_PROGRAMS: Final = {
    "wrong password": "(?i)authentication failed",
    "expired certificate": "(?i)expired",
    "foreign certificate": "(?i)unknown (ca|certificate authority)",
}
"""What a program ends with."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Secured]:
    async with running_secured(zookeeper, tmp_path_factory.mktemp("secured")) as started:
        yield started


def environment_of(security: ClientSecurity) -> dict[str, str]:
    """How a program in another language connects."""
    found = {} if security.ca_file is None else {"KAFKA_CA": security.ca_file}
    if security.certificate_file is not None:
        assert security.key_file is not None
        return found | {
            "KAFKA_CERTIFICATE": security.certificate_file,
            "KAFKA_KEY": security.key_file,
        }
    assert security.username is not None
    assert security.password is not None
    return found | {
        "KAFKA_USER": security.username,
        "KAFKA_PASSWORD": read_secret(security.password),
    }


async def play(secured: Secured, client: str, security: ClientSecurity, *arguments: str) -> str:
    first, *more = arguments
    return await run_client(
        client, secured.address(security), first, environment_of(security), *more
    )


# -- who gets in, and who does not --------------------------------------------------------------


@pytest.mark.parametrize(
    "protocol",
    [
        "SASL_SSL",
        pytest.param("SASL_PLAINTEXT", marks=pytest.mark.long),
        pytest.param("SSL", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("client", PROGRAMS)
async def test_a_client_in_another_language(secured: Secured, client: str, protocol: str) -> None:
    """Everything of its program. Its user is a super user."""
    await play(secured, client, secured.admin(protocol), f"{protocol.lower()}-{client}")


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("client", PROGRAMS)
async def test_its_principal_is_alice(secured: Secured, client: str, protocol: str) -> None:
    """By certificate and by password: it sees what she may see."""
    name = f"{protocol.lower()}-{client}"
    await new_topic(secured, f"orders-{name}")
    await new_topic(secured, f"hidden-{name}")
    told = await play(secured, client, secured.alice(protocol), LIST_TOPICS)
    topics = told.split()
    assert f"orders-{name}" in topics
    assert all(each.startswith("orders") for each in topics)


@pytest.mark.parametrize(
    ("protocol", "flaw"),
    [
        ("SASL_SSL", "wrong password"),
        ("SSL", "expired certificate"),
        ("SSL", "foreign certificate"),
    ],
)
async def test_a_client_in_another_language_is_refused(
    secured: Secured, protocol: str, flaw: str
) -> None:
    since = len(secured.broker.log_text())
    for client in PROGRAMS:
        with pytest.raises(AssertionError, match=SAID_BY_PROGRAMS[flaw]):
            await play(secured, client, secured.alice(protocol, flaw), LIST_TOPICS)
    await secured.refusals_are_logged(since, flaw, len(PROGRAMS))


# -- what happens in between --------------------------------------------------------------------


class ProgramReader:
    """By a program that prints what it reads, a line for each record or refusal."""

    def __init__(self, client: str, address: str, security: ClientSecurity, topic: str) -> None:
        command, directory = client_command(client)
        self._process = subprocess.Popen(
            [*command, address, READ, topic],
            cwd=directory,
            env=os.environ | environment_of(security),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def next(self) -> bytes | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self._process.kill()
            raise AssertionError(self._process.communicate()[1])
        return None if line == DENIED else line.encode()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.parametrize("client", PROGRAMS)
async def test_a_right_is_revoked_and_granted_in_mid_stream(secured: Secured, client: str) -> None:
    security = secured.alice("SASL_SSL")
    async with asyncio.timeout(WAIT_SECONDS):
        await read_while_revoked(
            secured.broker.bootstrap,
            secured.address(security),
            security,
            f"orders-revoked-{client}",
            partial(ProgramReader, client),
        )


async def test_a_session_ends_in_mid_transaction(secured: Secured) -> None:
    """Each client authenticates again, or connects again, and its transaction is committed."""
    security = secured.alice("SASL_SSL")
    topics = {client: f"orders-transaction-{client}" for client in PROGRAMS}
    for topic in topics.values():
        await new_topic(secured, topic)
    pause_ms = str(SESSION_MS * 3 // 2)
    await asyncio.gather(
        *(play(secured, each, security, TRANSACTION, topics[each], pause_ms) for each in topics)
    )
    for topic in topics.values():
        found = await asyncio.to_thread(committed, secured.address(security), security, topic)
        assert found == [b"0", b"1"]


@pytest.mark.long
async def test_apache_kafka_does_the_same(tmp_path: Path) -> None:
    """Revoked in mid-stream, and a session that ends in a transaction; of PLAIN it has no alice."""
    async with running_secure_kafka(tmp_path, session_ms=SESSION_MS) as kafka_broker:
        bootstrap, address = kafka_broker.plain_bootstrap, kafka_broker.bootstrap
        security = kafka_broker.security("alice")
        allowed = rights(AclOperation.READ, AclOperation.WRITE)
        async with KafkaClient(bootstrap) as admin:
            await kafka_broker.add_user(admin, "alice")
            assert set((await create_acls(admin, allowed)).values()) == {None}
        for client in (KAFKAJS, "franz"):
            topic = f"orders-revoked-{client}"
            reader = partial(ProgramReader, client)
            await read_while_revoked(bootstrap, address, security, topic, reader)
            topic = f"orders-transaction-{client}"
            await create_topic(bootstrap, topic)
            environment = environment_of(security)
            pause_ms = str(SESSION_MS * 3 // 2)
            await run_client(client, address, TRANSACTION, environment, topic, pause_ms)
            assert await asyncio.to_thread(committed, address, security, topic) == [b"0", b"1"]


async def kafka_python_lists(secured: Secured, security: ClientSecurity) -> str:
    """The topics that kafka-python sees. Raises AssertionError if it is refused."""
    secret = security.password
    assert secret is not None

    def ask() -> str:
        try:
            consumer = kafka.KafkaConsumer(
                bootstrap_servers=secured.address(security),
                bootstrap_timeout_ms=int(WAIT_SECONDS * 100),
                security_protocol=security.protocol,
                ssl_cafile=security.ca_file,
                sasl_mechanism=security.mechanism,
                sasl_plain_username=security.username,
                sasl_plain_password=read_secret(secret),
            )
        except kafka.errors.KafkaError as error:
            raise AssertionError(repr(error)) from error
        found = " ".join(consumer.topics())
        consumer.close()
        return found

    return await asyncio.to_thread(ask)


LISTING: Final[dict[str, Callable[[Secured, ClientSecurity], object]]] = {
    "kafka-python": kafka_python_lists,
    **{
        client: partial(lambda name, secured, who: play(secured, name, who, LIST_TOPICS), client)
        for client in PROGRAMS
    },
}


async def test_a_password_changes(secured: Secured) -> None:
    """From then on the new password lets a client in, and the old one does not.

    These clients keep the password that they were made with, so a new one replaces them.
    """
    present = secured.alice("SASL_SSL")
    assert present.password is not None
    assert present.password.file is not None
    file = Path(present.password.file)
    before = file.read_text()
    (secured.directory / "before").write_text(before)
    former = replace(present, password=Secret(file=str(secured.directory / "before")))
    await new_topic(secured, "orders-password")
    try:
        file.write_text("another one")
        for client, lists in LISTING.items():
            assert "orders-password" in str(await lists(secured, present)), client  # type: ignore[misc]
            with pytest.raises(AssertionError):
                await lists(secured, former)  # type: ignore[misc]
    finally:
        file.write_text(before)
    for lists in LISTING.values():
        assert "orders-password" in str(await lists(secured, former))  # type: ignore[misc]
