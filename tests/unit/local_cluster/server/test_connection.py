"""A connection whose peer sends more requests than it reads responses, or than may be in flight."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from local_cluster.handlers.deferred import Deferred
from local_cluster.handlers.registry import Handler, Reply
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.server.connection import (
    IN_FLIGHT_MAX,
    RESPONSE_BYTES_MAX,
    ClientConnection,
    ConnectionSettings,
)
from local_cluster.server.request_dispatch import RequestDispatcher
from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import encode_request_header
from tests.unit.local_cluster.server.test_outbox import FakePageCache

REQUESTS = 600
"""So short that one read gets all of them."""
RESPONSE_BYTES = 256 * 1024
BUFFERS_BYTES_MAX = 2 * 1024 * 1024
"""More than the buffers of both kernels hold."""


class Peer:
    """Sends all requests at once, and gets the responses of the test."""

    def __init__(self) -> None:
        self.requested: list[int] = []
        self.waiting: list[Deferred] = []
        self.response: bytes | None = None
        """None: the test responds later."""
        self.reader: asyncio.StreamReader

    def handle(self, broker: object, context: RequestContext, body: object) -> Reply:
        self.requested.append(context.correlation_id)
        if self.response is not None:
            return self.response
        deferred = Deferred()
        self.waiting.append(deferred)
        return deferred

    async def until_requested(self) -> None:
        async with asyncio.timeout(20):
            while not self.requested:
                await asyncio.sleep(0)

    async def read_ids(self) -> list[int]:
        """Return the correlation ids of all responses, in the order of their arrival."""
        ids: list[int] = []
        async with asyncio.timeout(60):
            for _ in range(REQUESTS):
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                ids += struct.unpack_from(">i", await self.reader.readexactly(size))
        return ids


@asynccontextmanager
async def requesting(peer: Peer) -> AsyncIterator[None]:
    """Connect the peer to a server, and send its requests."""
    handler = Handler(ApiKey.METADATA, 0, 0, peer.handle, True, 0, True)
    services = cast(BrokerServices, object())
    dispatcher = RequestDispatcher(services, "L", find_handler=lambda key: handler)
    cold_reads = ColdReads(FakePageCache(0))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: ClientConnection(
            dispatcher,
            cold_reads,
            ConnectionSettings(),
            on_open=lambda _: None,
            on_close=lambda _: None,
        ),
        "127.0.0.1",
        0,
    )
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    sock.connect(server.sockets[0].getsockname())
    peer.reader, writer = await asyncio.open_connection(sock=sock)
    headers = [encode_request_header(ApiKey.METADATA, 0, n, None) for n in range(REQUESTS)]
    writer.write(b"".join(struct.pack(">i", len(each)) + each for each in headers))
    yield
    writer.close()
    server.close()
    cold_reads.stop()


@pytest.fixture
def peer() -> Peer:
    return Peer()


async def test_no_more_responses_are_created_than_a_peer_reads(peer: Peer) -> None:
    peer.response = bytes(RESPONSE_BYTES)
    async with requesting(peer):
        await peer.until_requested()
        assert len(peer.requested) <= (RESPONSE_BYTES_MAX + BUFFERS_BYTES_MAX) / RESPONSE_BYTES
        assert await peer.read_ids() == list(range(REQUESTS))


async def test_no_more_requests_are_dispatched_than_may_be_in_flight(peer: Peer) -> None:
    async with requesting(peer):
        await peer.until_requested()
        assert len(peer.requested) == IN_FLIGHT_MAX
        reading = asyncio.create_task(peer.read_ids())
        while not reading.done():
            # The last first: responses keep the order of their requests.
            while peer.waiting:
                peer.waiting.pop().resolve(b"")
            await asyncio.sleep(0)
        assert await reading == list(range(REQUESTS))
