"""A network between simulated brokers: delays, cut links, connections that break.

The bytes of one connection keep their order in each direction. While a link is cut they wait (TCP
sends them again), or the connection breaks; so an old request can still arrive. Every other
response leaves late, as from a server whose socket is full: its log slices are read then. The death
of a process breaks its connections. A stopped process (SIGSTOP) reads its input when it continues.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from random import Random

from local_cluster.client.connection import RefusedError
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_process import OUTSIDE
from tests.sim.broker.sim_serving import Body, rendered

POLL_SECONDS = 0.1
"""How often bytes try again to pass a cut link."""
BREAK_CHANCE = 0.15
"""Probability that the connection breaks, at each such try."""

Response = asyncio.Future[tuple[memoryview, int]]
Serve = Callable[[str, int, int, bytes], "asyncio.Future[Body]"]
"""Serves (connection id, api, version, body); starts at once, in order."""


class SimNetwork:
    """All links between named hosts."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.slow_hosts: set[str] = set()
        self.stopped_hosts: set[str] = set()
        """Hosts whose processes read nothing."""
        self._servers: dict[str, Serve] = {}
        self._cut: set[tuple[str, str]] = set()
        self._connections: list[SimConnection] = []
        self._opened = 0

    def listen(self, host: str, serve: Serve) -> None:
        self._servers[host] = serve

    def close(self, host: str) -> None:
        """Break the connections of a host whose process died."""
        self._servers.pop(host, None)
        for each in [each for each in self._connections if host in (each.source, each.target)]:
            each.abort("a process died")

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to the other."""
        self._cut.add((source, target))

    def heal(self) -> None:
        self._cut.clear()
        self.slow_hosts.clear()

    @property
    def is_healed(self) -> bool:
        return not self._cut and not self.slow_hosts

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def delay_seconds(self, source: str, target: str) -> float:
        slow = source in self.slow_hosts or target in self.slow_hosts
        return self.random.uniform(0.05, 0.4) if slow else self.random.uniform(0.0002, 0.005)

    async def connect(self, source: str, target: str) -> SimConnection:
        await asyncio.sleep(2 * self.delay_seconds(source, target))
        if self.is_cut(source, target) or self.is_cut(target, source):
            await asyncio.sleep(1.0)
            raise KafkaError(ErrorCode.network_exception, f"{target} is unreachable from {source}")
        if target not in self._servers:
            raise RefusedError(ErrorCode.network_exception, f"{target} refuses connections")
        self._opened += 1
        connection = SimConnection(self, source, target, self._servers[target], self._opened)
        self._connections.append(connection)
        return connection

    def forget(self, connection: SimConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)


class SimConnection:
    """One connection, as `local_cluster.network.PeerConnection`."""

    def __init__(
        self, network: SimNetwork, source: str, target: str, serve: Serve, connection_id: int
    ) -> None:
        self.source = source
        self.target = target
        self.is_closed = False
        self._network = network
        self._serve = serve
        self._name = f"{source}#{connection_id}"
        loop = asyncio.get_running_loop()
        self._requests: asyncio.Queue[
            tuple[int, int, bytes, asyncio.Future[tuple[memoryview, int]]]
        ] = asyncio.Queue()
        self._responses: asyncio.Queue[
            tuple[asyncio.Future[Body], asyncio.Future[tuple[memoryview, int]]]
        ] = asyncio.Queue()
        self._waiting: dict[asyncio.Future[tuple[memoryview, int]], None] = {}
        self._on_closed: Callable[[], None] = _nothing
        # Bytes on the wire belong to no process.
        self._tasks = [
            loop.create_task(carry, context=OUTSIDE.copy())
            for carry in (self._carry_there(), self._carry_back())
        ]

    def send(
        self, api: ApiKey, version: int, body: tuple[bytes, ...]
    ) -> Awaitable[tuple[memoryview, int]]:
        future: Response = asyncio.get_running_loop().create_future()
        if self.is_closed:
            future.set_exception(
                KafkaError(ErrorCode.network_exception, "the connection is closed")
            )
            return future
        self._waiting[future] = None
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        self._requests.put_nowait((api, version, b"".join(body), future))
        return future

    def abort(self, reason: str) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._network.forget(self)
        for task in self._tasks:
            task.cancel()
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.network_exception, reason))
                future.exception()  # the caller may be gone
        self._on_closed()

    def when_closed(self, callback: Callable[[], None]) -> None:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()

        def notify() -> None:
            # Runs in the process that asked, not in the world that may have caused the end.
            loop.call_soon(callback, context=context)

        self._on_closed = notify
        if self.is_closed:
            self._on_closed()

    async def _carry_there(self) -> None:
        while True:
            api, version, body, future = await self._requests.get()
            await self._pass(self.source, self.target)
            while self.target in self._network.stopped_hosts:
                await asyncio.sleep(POLL_SECONDS)
            self._responses.put_nowait((self._serve(self._name, api, version, body), future))

    async def _carry_back(self) -> None:
        is_late = False
        while True:
            serving, future = await self._responses.get()
            try:
                body = await serving
            except KafkaError as error:
                self.abort(f"the peer closed: {error}")
                return
            is_late = not is_late
            answer = None if is_late else rendered(body)
            await self._pass(self.target, self.source)
            if is_late:
                answer = rendered(body)
            if answer is None:
                self.abort("the peer closed: a file is shorter than its slice")
                return
            if not future.done():
                future.set_result((memoryview(bytearray(answer)), 0))

    async def _pass(self, source: str, target: str) -> None:
        network = self._network
        await asyncio.sleep(network.delay_seconds(source, target))
        while network.is_cut(source, target):
            await asyncio.sleep(POLL_SECONDS)
            if network.random.random() < BREAK_CHANCE:
                # Cancels this task too, at its next await.
                self.abort("timed out")
                await asyncio.sleep(0)


def _nothing() -> None:
    return
