"""What is rotated: each certificate, password, user and listener, with the checks of each step.

Every step leaves the clients connected with what is new, and checks on every broker that what is
old gets nobody in. A connection that was open before a step goes on, as the documentation says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from local_cluster.client.admin.scram_users import ScramChange
from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.rotation.brokers import ADMIN, BROKER_IDS, NAMES, TOPIC, SecuredBrokers
from tests.rotation.clients import (
    AiokafkaProducer,
    JavaProducer,
    LibrdkafkaConsumer,
    LibrdkafkaProducer,
    Load,
    Told,
)
from tests.rotation.secrets import MECHANISMS, Mechanism

HOLDS_SECONDS_MAX: Final = 120.0
"""Until a change holds on every broker."""
OLD_MECHANISM: Final = MECHANISMS[1]


class Campaign:
    """The brokers, the clients under load, and who they are at the moment."""

    def __init__(self, world: SecuredBrokers, directory: Path, *, with_java: bool) -> None:
        self.world = world
        self.secrets = world.secrets
        self._directory = directory
        self._with_java = with_java
        self._users = {"alice": "alice-0", "bob": "bob", "reader": "reader"}
        if with_java:
            self._users["dave"] = "dave"
        self._mechanisms: dict[str, Mechanism] = dict.fromkeys(self._users, OLD_MECHANISM)
        self._renamed = 0
        self._has_extra = False
        self.stale: list[tuple[str, Connection]] = []
        """Sessions of secrets that are gone."""
        self.ended: list[str] = []
        """Those of them that the brokers ended."""
        self.steps: dict[str, list[float]] = {}
        """By name: how many seconds each took."""

    # -- the load ---------------------------------------------------------------------------

    async def start(self, stack: AsyncExitStack) -> None:
        """Create the users and start the clients."""
        self.secrets.issue("carol")
        await self.world.allow("carol")
        for user in self._users.values():
            password = self.secrets.change_password(user)
            await self.world.set_passwords(ScramChange(user, OLD_MECHANISM, password))
            await self.world.allow(user)
        for who in self._users:
            await self._holds_everywhere(self._security(who))
        self.reader = LibrdkafkaConsumer(self._bootstrap, self._security("reader"))
        self.alice = LibrdkafkaProducer("alice", self._bootstrap, self._security("alice"))
        carol = self.secrets.by_certificate(self.secrets.certificate_of("carol"))
        self.carol = LibrdkafkaProducer("carol", self.world.bootstrap("CERTIFICATES"), carol)
        self.bob = AiokafkaProducer("bob", self._bootstrap, self._security("bob"))
        await self.bob.start()
        self.dave: JavaProducer | None = None
        if self._with_java:
            self.dave = JavaProducer(
                "dave", self._bootstrap, self._security("dave"), self._directory
            )
            stack.push_async_callback(self.dave.kill)
            await self.dave.start()

    async def stop(self) -> list[Told]:
        """Stop the clients; return what each producer was told."""
        producers: list[Load] = [
            self.alice,
            self.carol,
            self.bob,
            *([self.dave] if self.dave else []),
        ]
        await asyncio.gather(*(each.stop() for each in producers))
        return [each.told for each in producers]

    @property
    def _bootstrap(self) -> str:
        return self.world.bootstrap("USERS")

    def _security(self, who: str) -> ClientSecurity:
        return self.secrets.user(self._users[who], self._mechanisms[who])

    async def _replace(self, *names: str) -> None:
        """Replace clients by new ones with what their files have."""
        for name in names:
            if name == "carol":
                carol = self.secrets.by_certificate(self.secrets.certificate_of("carol"))
                await self.carol.replace(self.world.bootstrap("CERTIFICATES"), carol)
            elif (client := getattr(self, name)) is not None:
                await client.replace(self._bootstrap, self._security(name))

    # -- the steps --------------------------------------------------------------------------

    async def round(self) -> None:
        """Change everything once."""
        steps: dict[str, Callable[[], Awaitable[None]]] = {
            "brokers' certificates": self.broker_certificates,
            "client certificate": self.client_certificate,
            "authority": self.authority,
            "password, by a second mechanism": self.passwords_by_mechanism,
            "password, told to the client": self.passwords_in_place,
            "user and its ACLs": self.rename_user,
            "passwords in files of brokers": self.passwords_in_files,
            "end of old sessions": self.old_sessions_end,
            "listeners, and the brokers' user": self.listeners,
        }
        for name, step in steps.items():
            began = time.monotonic()
            await step()
            self.steps.setdefault(name, []).append(time.monotonic() - began)

    async def broker_certificates(self) -> None:
        held = await self.world.connect(BROKER_IDS[0], self._security("reader"))
        for broker_id in BROKER_IDS:
            before = self.world.serial(broker_id, "USERS")
            self.secrets.issue(f"broker-{broker_id}")
            shown = {self.world.serial(broker_id, name) for name in NAMES}
            assert len(shown) == 1 and before not in shown
        await held.negotiate()
        await held.close()

    async def client_certificate(self) -> None:
        self.secrets.issue("carol")
        await self._replace("carol")

    async def authority(self) -> None:
        """Trust both, issue by the new one, and trust the old one no more."""
        kept = self._directory / "carol-of-the-old-authority.pem"
        kept.write_bytes(self.secrets.certificate_of("carol").read_bytes())
        by_old = self.secrets.by_certificate(kept)
        held = await self.world.connect(BROKER_IDS[0], by_old)
        self.secrets.change_authority()
        # These clients read the authorities when they start.
        await self._replace("alice", "bob", "dave", "carol", "reader")
        await self.broker_certificates()
        await self.client_certificate()
        await self._holds_everywhere(by_old)
        self.secrets.trust(self.secrets.authority)
        # Java's process ends at its next password, and until then it trusts the old one too.
        await self._replace("alice", "bob", "carol", "reader")
        await self._refused_everywhere(by_old)
        by_new = self.secrets.by_certificate(self.secrets.certificate_of("carol"))
        await self._holds_everywhere(by_new)
        await held.negotiate()
        await held.close()

    async def passwords_by_mechanism(self) -> None:
        """For clients that cannot change a password in service: each mechanism has its own."""
        for who in ("bob", *(["dave"] if self.dave else [])):
            user, before = self._users[who], self._mechanisms[who]
            after = next(each for each in MECHANISMS if each != before)
            old = self.secrets.with_password(user, self._password(who), before)
            password = self.secrets.change_password(user)
            await self.world.set_passwords(ScramChange(user, after, password))
            self._mechanisms[who] = after
            await self._holds_everywhere(self._security(who))
            await self._replace(who)
            await self._hold(f"the old password of {user}", old)
            await self.world.set_passwords(ScramChange(user, before, password))
            await self._refused_everywhere(old)

    async def passwords_in_place(self) -> None:
        """The client with the old password stays, and is told the new one."""
        for who, client in (("alice", self.alice), ("reader", self.reader)):
            user, mechanism = self._users[who], self._mechanisms[who]
            old = self.secrets.with_password(user, self._password(who), mechanism)
            await self._hold(f"the old password of {user}", old)
            password = self.secrets.change_password(user)
            await self.world.set_passwords(ScramChange(user, mechanism, password))
            await self._refused_everywhere(old)
            await self.stale[-1][1].negotiate()
            client.change_password(user, password)
            await self._holds_everywhere(self._security(who))

    async def rename_user(self) -> None:
        before = self._users["alice"]
        old = self._security("alice")
        self._renamed += 1
        self._users["alice"] = user = f"alice-{self._renamed}"
        password = self.secrets.change_password(user)
        await self.world.set_passwords(ScramChange(user, self._mechanisms["alice"], password))
        await self.world.allow(user)
        await self._holds_everywhere(self._security("alice"))
        port = self.world.port(BROKER_IDS[0], "USERS")
        async with KafkaClient(f"127.0.0.1:{port}", security=old) as held:
            assert (await held.metadata([TOPIC])).topics[TOPIC].error == ErrorCode.none
            await self._replace("alice")
            await self.world.forget(before, self._mechanisms["alice"])
            async with asyncio.timeout(HOLDS_SECONDS_MAX):
                while not (await held.metadata([TOPIC])).topics[TOPIC].error:
                    await asyncio.sleep(0.05)
            await self._hold(f"the deleted user {before}", None, await held.connection(None))
            await self._refused_everywhere(old)

    async def passwords_in_files(self) -> None:
        """Of the administrator, of the brokers' user in use, and of their other user."""
        for name, listener in (
            (ADMIN, "USERS"),
            (self.world.broker_user, "INTERNAL"),
            (self.world.idle_broker_user, "INTERNAL"),
        ):
            kept = read_secret_of(self.secrets.user(name))
            old = self.secrets.with_password(name, kept)
            self.secrets.change_password(name)
            for broker_id in BROKER_IDS:
                port = self.world.port(broker_id, listener)
                with_new = await self.world.connect(broker_id, self.secrets.user(name), port)
                await with_new.close()
                assert await self._is_refused(broker_id, old, port)

    async def old_sessions_end(self) -> None:
        """Sessions whose secret is gone end when they would have to be renewed."""
        async with asyncio.timeout(HOLDS_SECONDS_MAX):
            for what, connection in self.stale:
                while not await _has_ended(connection):
                    await asyncio.sleep(0.2)
                self.ended.append(what)
        self.stale.clear()

    async def listeners(self) -> None:
        """Every listener gets another port, one more comes or goes, brokers change their user."""
        ports = {(each, name): self.world.port(each, name) for each in BROKER_IDS for name in NAMES}
        self._has_extra = not self._has_extra
        await self.world.restart_all(moves=True, switches_user=True, extra=self._has_extra)
        for (broker_id, name), port in ports.items():
            assert await self._is_refused(broker_id, self._security("reader"), port), name
        for broker_id in BROKER_IDS if self._has_extra else ():
            port = self.world.port(broker_id, "EXTRA")
            await (await self.world.connect(broker_id, self._security("reader"), port)).close()
        await self._holds_everywhere(self._security("reader"))

    # -- checks -----------------------------------------------------------------------------

    def _password(self, who: str) -> str:
        return read_secret_of(self._security(who))

    async def _hold(
        self, what: str, security: ClientSecurity | None, open_one: Connection | None = None
    ) -> None:
        """Keep a session whose secret is about to go."""
        if security is not None:
            open_one = await self.world.connect(BROKER_IDS[0], security)
        assert open_one is not None
        self.stale.append((what, open_one))

    async def _holds_everywhere(self, security: ClientSecurity) -> None:
        """Wait until somebody gets in everywhere, and has rights there."""
        listener = "USERS" if security.uses_sasl else "CERTIFICATES"
        async with asyncio.timeout(HOLDS_SECONDS_MAX):
            for broker_id in BROKER_IDS:
                at = f"127.0.0.1:{self.world.port(broker_id, listener)}"
                while not await self._may_read(at, security):
                    await asyncio.sleep(0.05)

    async def _may_read(self, address: str, security: ClientSecurity) -> bool:
        try:
            async with KafkaClient(address, security=security) as client:
                return not (await client.metadata([TOPIC])).topics[TOPIC].error
        except KafkaError:
            return False

    async def _refused_everywhere(self, security: ClientSecurity) -> None:
        """Wait until a secret that is gone gets nobody in. Watches of ZooKeeper take their time."""
        async with asyncio.timeout(HOLDS_SECONDS_MAX):
            for broker_id in BROKER_IDS:
                while not await self._is_refused(broker_id, security):
                    await asyncio.sleep(0.05)

    async def _is_refused(
        self, broker_id: int, security: ClientSecurity, port: int | None = None
    ) -> bool:
        try:
            await (await self.world.connect(broker_id, security, port)).close()
        except KafkaError as error:
            expected = {ErrorCode.sasl_authentication_failed, ErrorCode.network_exception}
            assert error.code in expected, error
            return True
        return False


async def _has_ended(connection: Connection) -> bool:
    try:
        await connection.negotiate()
    except KafkaError:
        return True
    return False


def read_secret_of(security: ClientSecurity) -> str:
    assert security.password is not None
    return read_secret(security.password)
