"""The listeners of a broker in this process, without the broker: plain, TLS, SASL, and clients."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.client.auth.security import Secret
from local_cluster.clock import SystemClock
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.server.listeners import Listeners
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire.api import ApiKey
from local_cluster.wire.frame import frame_size_prefix
from tests.support.authority import Authority
from tests.unit.local_cluster.server.test_outbox import FakePageCache

HUNDRED_MIB: Final = 100 * 1024 * 1024
LIMIT_BYTES: Final = 2 * HUNDRED_MIB
"""Less than three requests of the largest size."""
SERVED_SECONDS_MAX: Final = 60.0


def request(size: int, number: int = 7) -> bytes:
    """Return ApiVersions v3 of `size` bytes, most of them an unknown tagged field."""
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, number, -1) + b"\x01\x64"
    body = b"\x05test\x02" + b"1\x00"
    filling = size - len(head) - len(body) - 3
    varint = bytes((filling & 0x7F | 0x80, filling >> 7 & 0x7F | 0x80, filling >> 14 & 0x7F))
    frame = head + varint + bytes(filling) + body
    return frame_size_prefix(len(frame)) + frame


class Client:
    """One connection to a listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def response(self) -> int:
        """Return the correlation id of the next response."""
        async with asyncio.timeout(SERVED_SECONDS_MAX):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return int(struct.unpack_from(">i", await self.reader.readexactly(size))[0])

    async def asks(self, size: int, number: int = 7) -> int:
        self.writer.write(request(size, number))
        return await self.response()

    async def has_ended(self) -> bool:
        """Wait for the end of the connection; what arrives before does not count."""
        async with asyncio.timeout(SERVED_SECONDS_MAX):
            with contextlib.suppress(ConnectionError):
                await self.reader.read()
            return True


class Broker:
    """The listeners of a broker without the broker."""

    def __init__(self, listeners: Listeners, authority: Authority) -> None:
        self.listeners = listeners
        self.memory = listeners.memory
        self._authority = authority
        self._clients: list[Client] = []

    async def connect(self, name: str, address: str = "127.0.0.1") -> Client:
        context = None
        if name == "SECURE":
            context = ssl.create_default_context(cafile=str(self._authority.ca_file))
        return await self._open(name, address, context)

    async def connect_plainly(self, name: str) -> Client:
        """Connect without a TLS handshake."""
        return await self._open(name, "127.0.0.1", None)

    async def _open(self, name: str, address: str, context: ssl.SSLContext | None) -> Client:
        client = Client(
            *await asyncio.open_connection(
                "127.0.0.1", self.listeners.ports[name], ssl=context, local_addr=(address, 0)
            )
        )
        self._clients.append(client)
        return client

    async def announcing(self, name: str, count: int, address: str = "127.0.0.1") -> list[Client]:
        """Connect clients that announce the largest request, and send one byte of it."""
        clients = [await self.connect(name, address) for _ in range(count)]
        for each in clients:
            each.writer.write(frame_size_prefix(HUNDRED_MIB) + b"\0")
        return clients

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(SERVED_SECONDS_MAX):
            while not is_so():
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        self.listeners.close()
        for each in self._clients:
            each.writer.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def serving(authority: Authority, limit_bytes: int = LIMIT_BYTES) -> AsyncIterator[Broker]:
    issued = authority.issue("broker")
    password = authority.ca_file.with_name("password")
    password.write_text("pencil")
    settings = BrokerSettings(
        cluster="c",
        broker_id=1,
        listeners=(
            Listener(name="INTERNAL", host="127.0.0.1", port=0),
            Listener(name="CLIENTS", host="127.0.0.1", port=0),
            Listener(
                name="SECURE",
                host="127.0.0.1",
                port=0,
                security_protocol="SSL",
                tls=TlsSettings(keystore_file=str(issued.pem)),
            ),
            Listener(
                name="PASSWORDS",
                host="127.0.0.1",
                port=0,
                security_protocol="SASL_PLAINTEXT",
                sasl=SaslSettings(
                    mechanisms=("PLAIN",),
                    users={name: Secret(file=str(password)) for name in ("alice", "broker")},
                ),
            ),
        ),
        inter_broker_listener="INTERNAL",
        broker_principals=("User:broker",),
        zookeeper_connect="unused",
        log_dirs=("unused",),
        ready_file="unused",
        config={"queued.max.request.bytes": str(limit_bytes)},
    )
    connections = SimpleNamespace(opened=lambda *_: None, name_software=lambda *_: None)
    services: Any = SimpleNamespace(
        quotas=ClientQuotas({}),
        clock=SystemClock(),
        scram_users=None,
        credential_access=None,
        client_metrics=SimpleNamespace(
            is_enabled=False, connections=connections, end_connection=lambda _: None
        ),
    )
    listeners = Listeners(settings)
    cold_reads = ColdReads(FakePageCache(0))
    listeners.open(services, cold_reads)
    broker = Broker(listeners, authority)
    try:
        yield broker
    finally:
        await broker.close()
        cold_reads.stop()


async def log_in(client: Client, name: str) -> None:
    handshake = struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 1, 1, -1) + b"\x00\x05PLAIN"
    message = f"\0{name}\0pencil".encode()
    login = struct.pack(">hhihi", ApiKey.SASL_AUTHENTICATE, 0, 2, -1, len(message)) + message
    for number, frame in enumerate((handshake, login), start=1):
        client.writer.write(frame_size_prefix(len(frame)) + frame)
        assert await client.response() == number
