"""A connection whose peer sends more requests than it reads responses, or than may be in flight."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from local_cluster.clock import SystemClock
from local_cluster.handlers.deferred import Deferred, RecordsBody, ThrottledBody
from local_cluster.handlers.registry import Handler, Reply
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.quotas.entity import USER, entity
from local_cluster.server.accept.limits import ConnectionSettings
from local_cluster.server.connection import (
    IN_FLIGHT_MAX,
    RESPONSE_BYTES_MAX,
    ClientConnection,
)
from local_cluster.server.request_dispatch import RequestDispatcher
from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import encode_request_header
from local_cluster.wire.request_memory import RequestMemory
from tests.unit.local_cluster.server.test_outbox import FakePageCache

REQUESTS = 600
"""So short that one read gets all of them."""
RESPONSE_BYTES = 256 * 1024
BUFFERS_BYTES_MAX = 2 * 1024 * 1024
"""More than the buffers of both kernels hold."""


FOREVER_MS = 1_000_000
SHORT_MS = 50
CLOCK_STEP_S = 0.01
"""A timer of the loop may fire a little early."""


class Peer:
    """Sends all requests at once, and gets the responses of the test."""

    def __init__(self) -> None:
        self.requested: list[int] = []
        self.waiting: list[Deferred] = []
        self.response: bytes | RecordsBody | ThrottledBody | None = None
        """None: the test responds later."""
        self.reader: asyncio.StreamReader
        self.quotas = ClientQuotas({})
        self.memory: RequestMemory | None = None
        self.large = b""
        """Sent behind the first request."""

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
    services = cast(BrokerServices, SimpleNamespace(quotas=peer.quotas, clock=SystemClock()))
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
            memory=peer.memory,
        ),
        "127.0.0.1",
        0,
    )
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    sock.connect(server.sockets[0].getsockname())
    peer.reader, writer = await asyncio.open_connection(sock=sock)
    headers = [encode_request_header(ApiKey.METADATA, 0, n, None) for n in range(REQUESTS)]
    if peer.large:
        headers.insert(1, encode_request_header(ApiKey.METADATA, 0, REQUESTS, None) + peer.large)
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


async def test_a_throttled_connection_is_answered_first_and_not_read_meanwhile(peer: Peer) -> None:
    peer.response = ThrottledBody(b"", FOREVER_MS)
    async with requesting(peer):
        await peer.until_requested()
        async with asyncio.timeout(20):
            assert await peer.reader.readexactly(8) == struct.pack(">ii", 4, 0)
        await turns(50)
        assert peer.requested == [0]


async def test_a_throttle_ends_and_later_ones_extend_it(peer: Peer) -> None:
    async with requesting(peer):
        await peer.until_requested()
        dispatched = len(peer.requested)
        assert dispatched == IN_FLIGHT_MAX, "these were read before anybody was throttled"
        waiting, peer.waiting = peer.waiting, []
        began = asyncio.get_running_loop().time()
        for number, each in enumerate(waiting):
            each.resolve(ThrottledBody(b"", SHORT_MS * (number % 2 + 1)))
        peer.response = b""
        assert await peer.read_ids() == list(range(REQUESTS))
        assert asyncio.get_running_loop().time() - began >= 2 * SHORT_MS / 1000 - CLOCK_STEP_S


async def test_a_throttled_connection_holds_no_memory_for_its_next_request(peer: Peer) -> None:
    memory = peer.memory = RequestMemory(10_000_000, lambda: 1)
    peer.large = bytes(5_000_000)
    peer.response = ThrottledBody(b"", SHORT_MS)
    async with requesting(peer):
        await peer.until_requested()
        assert peer.requested == [0]
        assert memory.used == 0
        peer.response = b""
        async with asyncio.timeout(60):
            while len(peer.requested) <= REQUESTS:
                await asyncio.sleep(0.001)
        assert peer.requested == [0, REQUESTS, *range(1, REQUESTS)]
        assert memory.used == 0


async def test_a_throttled_request_without_a_response_mutes_too(peer: Peer) -> None:
    peer.response = ThrottledBody(None, FOREVER_MS)
    async with requesting(peer):
        await peer.until_requested()
        await turns(50)
        assert peer.requested == [0]


async def test_records_that_waited_leave_only_with_the_right_to_read_them(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with requesting(peer):
        await peer.until_requested()
        first, *others = peer.waiting
        asked: list[int] = []

        def may_leave(number: int) -> bool:
            asked.append(number)
            return number < 3

        for number, each in enumerate(others, start=1):
            each.resolve(RecordsBody(b"", partial(may_leave, number)))
        await turns(5)
        assert not asked, "they wait for the first response"
        first.resolve(b"")
        async with asyncio.timeout(20):
            received = await peer.reader.read()
        ids = [struct.unpack_from(">i", received, at)[0] for at in range(4, len(received), 8)]
        assert ids == [0, 1, 2]
        assert asked == [1, 2, 3]
    assert "closed: the right to read records that waited was revoked" in caplog.text


@pytest.mark.parametrize("percentage", [None, 0.01])
async def test_records_leave_with_the_right_also_above_a_quota(
    peer: Peer, percentage: float | None
) -> None:
    if percentage is not None:
        peer.quotas.set_quotas({entity({USER: "ANONYMOUS"}): {"request_percentage": percentage}})
    asked = 0

    def may_leave() -> bool:
        nonlocal asked
        asked += 1
        return True

    peer.response = RecordsBody(b"", may_leave)
    async with requesting(peer):
        await peer.until_requested()
        async with asyncio.timeout(20):
            assert await peer.reader.readexactly(8) == struct.pack(">ii", 4, 0)
    assert asked


async def turns(count: int) -> None:
    """Let the loop do what it has to do, also with sockets."""
    for _ in range(count):
        await asyncio.sleep(0.001)
