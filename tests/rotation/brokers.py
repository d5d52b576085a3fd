"""Three brokers without a plain listener: for brokers, for users, and for certificates.

The authorizer enforces, and sessions end unless they are renewed. The brokers have two users of
their own, of which they use one: the other's password can change while nobody needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from cryptography import x509

from local_cluster.client.admin.acls import create_acls, delete_acls
from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.auth.credentials import tls_context
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import KafkaError
from tests.rotation.secrets import MECHANISMS, Mechanism, SecretFiles
from tests.support.cluster import SESSION_TIMEOUT_MS, BrokerProcess
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import THREE_BROKERS

BROKER_IDS: Final = (1, 2, 3)
BROKER_USERS: Final = ("blue", "green")
ADMIN: Final = "admin"
TOPIC: Final = "orders"
GROUP: Final = "readers"
PARTITIONS: Final = 3
CONNECT_TIMEOUT_MS: Final = 20_000
IN_SYNC_SECONDS_MAX: Final = 120.0
METADATA_AGE_MS: Final = 1_000
"""After which clients ask for metadata again."""
MOVED_SECONDS: Final = 4.0
"""Between two brokers whose listeners move: several times as long, so that clients know where each
is now before the next one goes. A client all of whose addresses are gone never comes back."""
NAMES: Final = ("INTERNAL", "USERS", "CERTIFICATES")
RULES: Final = "RULE:^CN=(.*)$/$1/"


class SecuredBrokers:
    """The brokers, and what an administrator does with them."""

    def __init__(self, chroot: str, directory: Path, session_ms: int) -> None:
        self.secrets = SecretFiles(directory / "secrets")
        self._session_ms = session_ms
        self._chroot = chroot
        self._broker_user = BROKER_USERS[0]
        for name in (*BROKER_USERS, ADMIN):
            self.secrets.change_password(name)
        for broker_id in BROKER_IDS:
            self.secrets.issue(f"broker-{broker_id}")
        self.brokers = {each: self._broker(directory, each) for each in BROKER_IDS}

    async def start(self) -> None:
        await asyncio.gather(*(each.start() for each in self.brokers.values()))
        async with self.admin() as admin:
            topic = NewTopic(
                name=TOPIC,
                partitions=PARTITIONS,
                replication_factor=len(BROKER_IDS),
                configs={"min.insync.replicas": "2"},
            )
            assert await admin.create_topics([topic]) == {TOPIC: None}
        await self.in_sync()

    def kill(self) -> None:
        for each in self.brokers.values():
            if each.process is not None and each.process.poll() is None:
                each.process.kill()
                each.process.wait()

    # -- addresses --------------------------------------------------------------------------

    def port(self, broker_id: int, listener: str) -> int:
        listeners = self.brokers[broker_id].settings.listeners
        return next(each.port for each in listeners if each.name == listener)

    def bootstrap(self, listener: str) -> str:
        return ",".join(f"127.0.0.1:{self.port(each, listener)}" for each in BROKER_IDS)

    def admin(self) -> KafkaClient:
        return KafkaClient(self.bootstrap("USERS"), security=self.secrets.user(ADMIN))

    async def connect(
        self, broker_id: int, security: ClientSecurity, port: int | None = None
    ) -> Connection:
        """Connect to the listener for users or for certificates, or to a port."""
        listener = "USERS" if security.uses_sasl else "CERTIFICATES"
        return await connect(
            "127.0.0.1",
            port or self.port(broker_id, listener),
            client_id="stranger",
            timeout_ms=CONNECT_TIMEOUT_MS,
            security=security,
        )

    def serial(self, broker_id: int, listener: str) -> int:
        """Return the number of the certificate that a broker shows to a new connection."""
        context = tls_context(self.secrets.by_certificate(self.secrets.certificate_of("carol")))
        assert context is not None
        address = ("127.0.0.1", self.port(broker_id, listener))
        with (
            socket.create_connection(address, timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            certificate = secure.getpeercert(binary_form=True)
        assert certificate is not None
        return x509.load_der_x509_certificate(certificate).serial_number

    # -- users and their rights -------------------------------------------------------------

    async def set_passwords(self, *changes: ScramChange) -> None:
        async with self.admin() as admin:
            assert set(await alter_scram_users(admin, changes)) == {None}

    async def allow(self, user: str) -> None:
        async with self.admin() as admin:
            assert set((await create_acls(admin, rights_of(user))).values()) == {None}

    async def forget(self, user: str, mechanism: Mechanism) -> None:
        """Delete a user, who has one credential, and its rights."""
        async with self.admin() as admin:
            gone = [ScramChange(user, mechanism, None)]
            assert set(await alter_scram_users(admin, gone)) == {None}
            assert set((await delete_acls(admin, rights_of(user))).values()) == {None}

    # -- restarts ---------------------------------------------------------------------------

    async def restart_all(self, *, moves: bool, switches_user: bool, extra: bool) -> None:
        """Restart the brokers one after the other with other settings.

        With `moves` every listener gets another port. With `switches_user` the brokers use the
        other of their users. With `extra` there is one more listener.
        """
        if switches_user:
            first, second = BROKER_USERS
            self._broker_user = second if self._broker_user == first else first
        for broker in self.brokers.values():
            ports = {each.name: each.port for each in broker.settings.listeners}
            if moves:
                ports = dict(zip(NAMES, quiet_ports(len(NAMES)), strict=True))
            if extra and "EXTRA" not in ports:
                ports["EXTRA"] = quiet_ports(1)[0]
            elif not extra:
                ports.pop("EXTRA", None)
            await broker.stop()
            broker.settings = replace(
                broker.settings,
                listeners=self._listeners(broker.settings.broker_id, ports),
                inter_broker_security=self.secrets.user(self._broker_user),
            )
            broker.port = ports[NAMES[0]]
            await broker.start()
            await self.in_sync()
            if moves:
                await asyncio.sleep(MOVED_SECONDS)

    @property
    def idle_broker_user(self) -> str:
        """The user of brokers that no broker uses."""
        return next(each for each in BROKER_USERS if each != self._broker_user)

    @property
    def broker_user(self) -> str:
        return self._broker_user

    async def in_sync(self) -> None:
        """Wait until every replica of every partition is in sync."""
        async with asyncio.timeout(IN_SYNC_SECONDS_MAX):
            while not await self._is_in_sync():
                await asyncio.sleep(0.1)

    async def _is_in_sync(self) -> bool:
        with contextlib.suppress(KafkaError):
            async with self.admin() as admin:
                found = await admin.metadata(None)
                return len(found.brokers) == len(BROKER_IDS) and all(
                    set(partition.isr) == set(BROKER_IDS) and partition.leader >= 0
                    for topic in found.topics.values()
                    for partition in topic.partitions.values()
                )
        return False

    # -- settings ---------------------------------------------------------------------------

    def _broker(self, directory: Path, broker_id: int) -> BrokerProcess:
        place = directory / f"broker-{broker_id}"
        place.mkdir()
        ports = dict(zip(NAMES, quiet_ports(len(NAMES)), strict=True))
        settings = BrokerSettings(
            cluster="rotation",
            broker_id=broker_id,
            listeners=self._listeners(broker_id, ports),
            inter_broker_listener="INTERNAL",
            inter_broker_security=self.secrets.user(self._broker_user),
            broker_principals=tuple(f"User:{each}" for each in BROKER_USERS),
            zookeeper_connect=self._chroot,
            zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
            log_dirs=(str(place / "log"),),
            ready_file=str(place / "ready.json"),
            config=self._config(),
        )
        return BrokerProcess(settings, place, port=ports[NAMES[0]])

    def _config(self) -> dict[str, str]:
        return {
            **THREE_BROKERS,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "connections.max.reauth.ms": str(self._session_ms),
        }

    def _listeners(self, broker_id: int, ports: Mapping[str, int]) -> tuple[Listener, ...]:
        tls = TlsSettings(keystore_file=str(self.secrets.certificate_of(f"broker-{broker_id}")))
        mutual = replace(
            tls,
            truststore_file=str(self.secrets.trusted),
            client_auth="required",
            principal_mapping_rules=RULES,
        )
        files = {
            name: Secret(file=str(self.secrets.password_file(name)))
            for name in (*BROKER_USERS, ADMIN)
        }
        internal = SaslSettings(users={each: files[each] for each in BROKER_USERS})
        users = SaslSettings(mechanisms=MECHANISMS, users={ADMIN: files[ADMIN]})
        kinds = {
            "INTERNAL": ("SASL_SSL", tls, internal),
            "USERS": ("SASL_SSL", tls, users),
            "EXTRA": ("SASL_SSL", tls, users),
            "CERTIFICATES": ("SSL", mutual, None),
        }
        return tuple(
            Listener(
                name=name,
                host="127.0.0.1",
                port=port,
                security_protocol=kinds[name][0],  # type: ignore[arg-type]
                tls=kinds[name][1],
                sasl=kinds[name][2],
            )
            for name, port in ports.items()
        )


def rights_of(user: str) -> list[Acl]:
    """Everything that the load does, as ACLs of one user."""
    everything = (
        (ResourceType.TOPIC, TOPIC, (AclOperation.READ, AclOperation.WRITE)),
        (ResourceType.GROUP, GROUP, (AclOperation.READ,)),
    )
    return [
        Acl(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)
        for kind, name, operations in everything
        for operation in operations
    ]


@contextlib.asynccontextmanager
async def secured_brokers(
    chroot: str, directory: Path, session_ms: int
) -> AsyncIterator[SecuredBrokers]:
    """The brokers, started and in sync. They are killed at the end."""
    made = SecuredBrokers(chroot, directory, session_ms)
    try:
        await made.start()
        yield made
    finally:
        made.kill()
