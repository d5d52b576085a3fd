"""One connection whose peer asks more than it reads, or more than can be answered at once."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.handlers.deferred import Deferred
from local_cluster.handlers.registry import Handler, Reply
from local_cluster.handlers.services import RequestContext
from local_cluster.server import connection
from local_cluster.server.cold_reads import ColdReads
from local_cluster.server.connection import ANSWER_BYTES_MAX, IN_FLIGHT_MAX, BrokerConnection
from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import encode_request_header
from tests.unit.local_cluster.server.test_outbox import FakePageCache

REQUESTS = 600
"""So short that they come in one read."""
ANSWER_BYTES = 256 * 1024
BUFFERS_BYTES_MAX = 2 * 1024 * 1024
"""More than the two systems keep on the way, which is memory of theirs."""


class Peer:
    """Asks everything at once, and is answered what the test says."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.waiting: list[Deferred] = []
        self.answer: bytes | None = None
        """None: later."""
        self.reader: asyncio.StreamReader

    def handle(self, broker: object, context: RequestContext, body: object) -> Reply:
        self.asked.append(context.correlation_id)
        if self.answer is not None:
            return self.answer
        deferred = Deferred()
        self.waiting.append(deferred)
        return deferred

    async def until_asked(self) -> None:
        async with asyncio.timeout(20):
            while not self.asked:
                await asyncio.sleep(0)

    async def read_ids(self) -> list[int]:
        """The correlation ids of all answers, in the order in which they come."""
        ids: list[int] = []
        async with asyncio.timeout(60):
            for _ in range(REQUESTS):
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                ids += struct.unpack_from(">i", await self.reader.readexactly(size))
        return ids


@asynccontextmanager
async def asking(peer: Peer) -> AsyncIterator[Peer]:
    """The peer, when its requests are on their way."""
    settings = SimpleNamespace(config_int=lambda name, default: default)
    broker = cast(Any, SimpleNamespace(settings=settings))
    cold_reads = ColdReads(FakePageCache(0))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: BrokerConnection(broker, "L", cold_reads, lambda _: None, lambda _: None),
        "127.0.0.1",
        0,
    )
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    sock.connect(server.sockets[0].getsockname())
    peer.reader, writer = await asyncio.open_connection(sock=sock)
    headers = [encode_request_header(ApiKey.METADATA, 0, n, None) for n in range(REQUESTS)]
    writer.write(b"".join(struct.pack(">i", len(each)) + each for each in headers))
    yield peer
    writer.close()
    server.close()
    cold_reads.stop()


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    peer = Peer()
    handler = Handler(ApiKey.METADATA, 0, 0, peer.handle, True, 0, True)
    monkeypatch.setattr(connection, "find_handler", lambda key: handler)
    yield peer


async def test_no_more_answers_are_made_than_a_peer_reads(peer: Peer) -> None:
    peer.answer = bytes(ANSWER_BYTES)
    async with asking(peer):
        await peer.until_asked()
        assert len(peer.asked) <= (ANSWER_BYTES_MAX + BUFFERS_BYTES_MAX) / ANSWER_BYTES
        assert await peer.read_ids() == list(range(REQUESTS))


async def test_no_more_requests_are_begun_than_may_be_in_flight(peer: Peer) -> None:
    async with asking(peer):
        await peer.until_asked()
        assert len(peer.asked) == IN_FLIGHT_MAX
        reading = asyncio.create_task(peer.read_ids())
        while not reading.done():
            # The last first: answers keep their order whatever is ready when.
            while peer.waiting:
                peer.waiting.pop().resolve(b"")
            await asyncio.sleep(0)
        assert await reading == list(range(REQUESTS))
