"""A TCP proxy in a process of its own: cuts and slows links as it is told.

    python -m tests.nemesis.proxy ROUTES        # ROUTES: JSON, a list of `links.Route`

It says `ready` when it listens. Each line of standard input is a `links.Rules`, answered by `ok`;
at the end of input it ends. A cut link loses nothing that TCP would repeat: bytes wait until the
link is whole again, as after a network partition, and connections are neither made nor closed
over it. What a lossy link loses comes later, by what TCP takes to send it again. A process of its
own, because what the checkers compute must not slow the network down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import Callable, Sequence
from typing import Final

import psutil

from tests.nemesis.links import Link, Route, Rules, load_rules

CHUNK_BYTES: Final = 65_536
CHUNKS_ON_THE_WAY_MAX: Final = 64
"""Per direction of a connection; then the sender's own buffers fill, as with a slow network."""


class Proxy:
    """Routes connections by the rules of the moment."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        """`chance`: uniform in [0, 1), what decides whether a packet is lost."""
        self.rules = Rules()
        self._chance = chance
        self._changed = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    def apply(self, rules: Rules) -> None:
        self.rules = rules
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def listen(self, route: Route) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            with contextlib.suppress(OSError):
                await self._serve(route, reader, writer)
            writer.close()

        await asyncio.start_server(connected, "127.0.0.1", route.listen_port, backlog=1024)

    async def _serve(
        self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        source = route.source or self._source_of(writer)
        there = Link(source, route.target)
        while not self.rules.can_connect(there):
            await self._changed.wait()
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", route.target_port)
        try:
            # A side that is reset ends the other one too.
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(there, reader, target_writer))
                group.create_task(self._pump(there.back, target_reader, writer))
        except* OSError:
            pass
        finally:
            target_writer.close()

    async def _pump(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry bytes, and then the end of the stream, over one direction."""
        loop = asyncio.get_running_loop()
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_ON_THE_WAY_MAX)

        async def receive() -> None:
            while True:
                chunk = await reader.read(CHUNK_BYTES)
                takes_ms = self.rules.arrives_after_ms(link, len(chunk), self._chance)
                await on_the_way.put((loop.time() + takes_ms / 1000, chunk))
                if not chunk:
                    return

        async with asyncio.TaskGroup() as group:
            group.create_task(receive())
            while True:
                arrives_at, chunk = await on_the_way.get()
                await asyncio.sleep(max(0.0, arrives_at - loop.time()))
                while not self.rules.passes(link):
                    await self._changed.wait()
                if not chunk:
                    break
                writer.write(chunk)
                await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    def _source_of(self, writer: asyncio.StreamWriter) -> str:
        """Whose connection it is: the process that holds its other end."""
        port = writer.get_extra_info("peername")[1]
        for name, pid in self.rules.pids.items():
            with contextlib.suppress(psutil.Error):
                held = psutil.Process(pid).net_connections(kind="tcp")
                if any(each.laddr and each.laddr.port == port for each in held):
                    return name
        return "unknown"


async def run(routes: Sequence[Route]) -> None:
    proxy = Proxy()
    for route in routes:
        await proxy.listen(route)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        proxy.apply(load_rules(line))
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(run([Route(*each) for each in json.loads(sys.argv[1])]))
