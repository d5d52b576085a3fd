"""A real Apache Kafka that asks who comes: SASL over TLS on one port, ACLs on what may be done.

Its second port is plain text, where everybody is `User:ANONYMOUS`, a super user: for the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from local_cluster.client.admin.acls import create_acls, describe_acls
from local_cluster.client.auth.scram import HASHES, salted_password
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.kafka_from_maven import KafkaProcess
from tests.support.keystore import make_keystore
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import eventually

PASSWORD: Final = "of-the-user, with=signs"
ITERATIONS: Final = 4096
_LOGIN: Final = "org.apache.kafka.common.security"

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_SCRAM_NUMBERS: Final[Mapping[Mechanism, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


@dataclass
class SecureKafka:
    """The broker, its certificate, and where its users' password lies."""

    kafka: KafkaProcess
    secure_port: int
    ca_file: Path
    password_file: Path

    @property
    def plain_bootstrap(self) -> str:
        return self.kafka.bootstrap

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.secure_port}"

    def security(self, username: str, mechanism: Mechanism = "SCRAM-SHA-512") -> ClientSecurity:
        return ClientSecurity(
            protocol="SASL_SSL",
            mechanism=mechanism,
            username=username,
            password=Secret(file=str(self.password_file)),
            ca_file=str(self.ca_file),
        )

    async def add_user(self, admin: KafkaClient, name: str) -> None:
        """A user of both SCRAM mechanisms; PLAIN knows only `plain-user`."""
        for mechanism, number in _SCRAM_NUMBERS.items():
            salt = os.urandom(16)
            credential = {
                "name": name,
                "mechanism": number,
                "iterations": ITERATIONS,
                "salt": salt,
                "salted_password": salted_password(HASHES[mechanism], PASSWORD, salt, ITERATIONS),
            }
            answer = await admin.call_controller(
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
                {"deletions": [], "upsertions": [credential]},
            )
            assert not any(result.error_code for result in answer.results), answer
            # Kafka's broker hears of them a moment after its controller has acknowledged them.
            await eventually(partial(self._knows, name, mechanism))

    async def _knows(self, name: str, mechanism: Mechanism) -> bool:
        async with KafkaClient(self.bootstrap, security=self.security(name, mechanism)) as client:
            try:
                await client.metadata([])
            except KafkaError as error:
                if error.code != ErrorCode.sasl_authentication_failed:
                    raise
                return False
        return True

    async def allow(
        self,
        admin: KafkaClient,
        user: str,
        resource: ResourceType,
        name: str,
        operations: Sequence[AclOperation],
        pattern: PatternType = PatternType.LITERAL,
    ) -> None:
        acls = [
            Acl(resource, name, pattern, f"User:{user}", "*", operation, Permission.ALLOW)
            for operation in operations
        ]
        refused = {acl: error for acl, error in (await create_acls(admin, acls)).items() if error}
        assert not refused, refused

        async def are_known() -> bool:
            return await describe_acls(admin) >= set(acls)

        await eventually(are_known)


@contextlib.asynccontextmanager
async def running_secure_kafka(
    directory: Path, *, session_ms: int = 0
) -> AsyncIterator[SecureKafka]:
    """A Kafka on free ports, killed at the end; skips the test where it cannot be had.

    `session_ms` is its `connections.max.reauth.ms`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    keystore = await asyncio.to_thread(make_keystore, directory)
    password_file = directory / "password"
    password_file.write_text(PASSWORD + "\n")
    port, controller_port, secure_port = quiet_ports(3)
    plain = f'{_LOGIN}.plain.PlainLoginModule required user_plain-user="{PASSWORD}";'
    scram = f"{_LOGIN}.scram.ScramLoginModule required;"
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure_port},"
        f"CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SECURE:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.secure.plain.sasl.jaas.config": plain,
        "listener.name.secure.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.secure.scram-sha-512.sasl.jaas.config": scram,
        **keystore.broker_config,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "connections.max.reauth.ms": str(session_ms),
    }
    kafka = KafkaProcess(directory, port, controller_port, config)
    try:
        await kafka.start()
        yield SecureKafka(kafka, secure_port, keystore.ca_file, password_file)
    finally:
        await kafka.kill()
