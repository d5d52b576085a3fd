"""An acceptor on a real socket: who is served, who waits, who is closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from local_cluster.counters.listener import ListenerCounters
from local_cluster.quotas.quota_keys import CONNECTION_CREATION_RATE
from local_cluster.server.accept import acceptor
from local_cluster.server.accept.acceptor import Acceptor
from local_cluster.server.accept.admission import Admission
from local_cluster.server.accept.limits import ConnectionLimits

HOST = "127.0.0.1"


class Greeting(asyncio.BufferedProtocol):
    """Sends a letter at the begin, and ends with its peer."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"a")

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1)

    def buffer_updated(self, nbytes: int) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class Served:
    """A listener with these limits."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.admission = Admission(limits)
        self.counters = ListenerCounters()
        self._writers: list[asyncio.StreamWriter] = []
        self._bound = socket.socket()
        self._bound.setblocking(False)
        self._bound.bind((HOST, 0))
        self.acceptor = Acceptor(
            "CLIENTS", self._bound, self.admission, self._admitted, lambda _: None, self.counters
        )
        self.address = self._bound.getsockname()

    def _admitted(self, address: str) -> Greeting:
        def ended() -> None:
            self.admission.release("CLIENTS", address)
            self.acceptor.resume()

        return Greeting(ended)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # A writer that nobody holds closes its connection.
        reader, writer = await asyncio.open_connection(*self.address)
        self._writers.append(writer)
        return reader, writer


@asynccontextmanager
async def serving(limits: ConnectionLimits) -> AsyncIterator[Served]:
    served = Served(limits)
    served.acceptor.start()
    try:
        async with asyncio.timeout(30):
            yield served
    finally:
        served.acceptor.close()


async def test_above_max_connections_a_client_waits_until_another_one_ends() -> None:
    async with serving(ConnectionLimits(connections_max=2)) as served:
        (one, first), (two, _) = await served.connect(), await served.connect()
        assert [await each.read(1) for each in (one, two)] == [b"a", b"a"]
        three, _ = await served.connect()
        greeting = asyncio.ensure_future(three.read(1))
        await asyncio.sleep(0.1)
        assert not greeting.done() and served.admission.open_connections == 2
        first.close()
        assert await greeting == b"a"
        served.admission.limits = ConnectionLimits(connections_max=3)
        served.acceptor.resume()
        four, _ = await served.connect()
        assert await four.read(1) == b"a"


async def test_above_the_limit_of_its_address_a_client_is_closed_and_counted() -> None:
    async with serving(ConnectionLimits(per_address_max=1)) as served:
        one, first = await served.connect()
        assert await one.read(1) == b"a"
        two, _ = await served.connect()
        assert await two.read(1) == b""
        assert served.counters.limited == {"per_ip": 1}
        first.close()
        while served.admission.open_connections:
            await asyncio.sleep(0.001)
        three, _ = await served.connect()
        assert await three.read(1) == b"a"


async def test_above_its_quota_a_client_is_closed_later() -> None:
    async with serving(ConnectionLimits(windows=2, window_ms=50)) as served:
        served.admission.set_quotas({(("ip", HOST),): {CONNECTION_CREATION_RATE: 20.0}})
        found = [await (await served.connect())[0].read(1) for _ in range(3)]
        assert b"a" in found
        while b"" not in found:
            found.append(await (await served.connect())[0].read(1))
        assert served.counters.limited["ip_rate"] >= 1


async def test_refused_connections_that_wait_to_be_closed_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptor, "DELAYED_MAX", 2)
    async with serving(ConnectionLimits(window_ms=600_000)) as served:
        served.admission.set_quotas({(("ip", HOST),): {CONNECTION_CREATION_RATE: 0.0001}})
        waiting = [(await served.connect())[0] for _ in range(2)]
        one_more, _ = await served.connect()
        assert await one_more.read(1) == b"", "it is closed at once"
        assert not any(each.at_eof() for each in waiting)


async def test_above_the_rate_of_the_broker_clients_wait_and_all_are_served() -> None:
    limits = ConnectionLimits(creations_per_second_max=100, windows=2, window_ms=50)
    async with serving(limits) as served:
        for _ in range(30):
            reader, _ = await served.connect()
            assert await reader.read(1) == b"a"


async def test_a_closed_acceptor_closes_what_it_refused() -> None:
    async with serving(ConnectionLimits(window_ms=600_000)) as served:
        served.admission.set_quotas({(("ip", HOST),): {CONNECTION_CREATION_RATE: 0.0001}})
        reader, _ = await served.connect()
        refused = asyncio.ensure_future(reader.read(1))
        while not served.counters.limited:
            await asyncio.sleep(0.001)
        assert not refused.done()
        served.acceptor.close()
        assert await refused == b""
