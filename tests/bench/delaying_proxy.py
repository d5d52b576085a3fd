"""A TCP proxy that delays what it passes on, in a process of its own: a far datacenter.

    python -m tests.bench.delaying_proxy LISTEN_PORT PORT DELAY_MS

Every byte leaves DELAY_MS after it came, in both directions, so that a round trip takes twice as
long; the rate is not bounded. Prints a line when it listens.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import Final

QUEUED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of one direction of a connection: what may be on its way. A bandwidth-delay product of
10 GB/s at 25 ms, so that the delay alone is what is measured."""
HOST: Final = "127.0.0.1"


class Side(asyncio.Protocol):
    """One end of a proxied connection; what comes in leaves by `other`, later."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds
        self._queue: deque[tuple[float, bytes]] = deque()
        self._queued_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.is_writable = True
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._queue.append((asyncio.get_running_loop().time() + self._delay_seconds, data))
        self._queued_bytes += len(data)
        if self._queued_bytes >= QUEUED_BYTES_MAX:
            self._transport.pause_reading()
        self._schedule()

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        if self.other is not None:
            self.other.pass_on()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.other is not None:
            self.other.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pass_on(self) -> None:
        """Write what is due to the other end."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._may_write() and self._queue and self._queue[0][0] <= now:
            _, data = self._queue.popleft()
            self._queued_bytes -= len(data)
            assert self.other is not None
            self.other.write(data)
        if self._queued_bytes < QUEUED_BYTES_MAX and self._transport is not None:
            self._transport.resume_reading()
        self._schedule()

    def _may_write(self) -> bool:
        return self.other is not None and self.other.is_writable

    def _schedule(self) -> None:
        # If the other end is full, its `resume_writing` continues.
        if self._queue and self._timer is None and self._may_write():
            self._timer = asyncio.get_running_loop().call_at(self._queue[0][0], self.pass_on)


class Accepting(Side):
    """The end that clients connect to; it opens the other one."""

    def __init__(self, port: int, delay_seconds: float) -> None:
        super().__init__(delay_seconds)
        self._port = port
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, other = await loop.create_connection(
                lambda: Side(self._delay_seconds), HOST, self._port
            )
        except OSError:
            self.close()
            return
        self.other, other.other = other, self
        self.pass_on()
        other.pass_on()


async def serve(listen_port: int, port: int, delay_ms: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Accepting(port, delay_ms / 1000), HOST, listen_port)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
