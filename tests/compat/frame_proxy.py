"""A proxy between a client and one broker that knows requests apart: a script sees each of them,
may answer in the broker's place, keep an answer back, or end the connection instead.

Answers leave in the order of their requests, as a broker's do. Requests without an answer (Produce
with acks=0) must not come this way.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from local_cluster.wire.frame import frame_size_prefix
from local_cluster.wire.header import RequestHeader, read_request_header

HOST: Final = "127.0.0.1"
UNANSWERED_MAX: Final = 1_000
"""Requests of one connection; a client has far fewer in flight."""

_SIZE: Final = struct.Struct(">i")


class Request(NamedTuple):
    """A request as received; `frame` is without its length."""

    header: RequestHeader
    frame: memoryview


class Script(Protocol):
    """The decisions of the proxy for each request of all connections."""

    def requested(self, request: Request) -> bytes | None:
        """The answer (header and body) in the broker's place, which then never gets the request;
        None lets it through."""
        ...

    async def answering(self, request: Request, answer: bytes) -> bool:
        """Wait here to keep an answer back, and all behind it. False ends the connection in the
        answer's place."""
        ...


class FrameProxy:
    """Listens inside its context; all connections are closed at the end."""

    def __init__(self, port: int, broker_port: int, script: Script) -> None:
        self._port = port
        self._broker_port = broker_port
        self._script = script
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, HOST, self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connected(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            from_broker, to_broker = await asyncio.open_connection(HOST, self._broker_port)
            with contextlib.closing(to_broker):
                unanswered: asyncio.Queue[tuple[Request, bytes | None]] = asyncio.Queue(
                    UNANSWERED_MAX
                )
                answering = asyncio.create_task(self._answer(unanswered, from_broker, writer))
                try:
                    while True:
                        frame = await _read_frame(reader)
                        request = Request(read_request_header(memoryview(frame)), memoryview(frame))
                        answer = self._script.requested(request)
                        await unanswered.put((request, answer))
                        if answer is None:
                            to_broker.write(frame_size_prefix(len(frame)) + frame)
                            await to_broker.drain()
                finally:
                    answering.cancel()
                    await asyncio.gather(answering, return_exceptions=True)

    async def _answer(
        self,
        unanswered: asyncio.Queue[tuple[Request, bytes | None]],
        from_broker: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            while True:
                request, answer = await unanswered.get()
                if answer is None:
                    answer = await _read_frame(from_broker)
                if not await self._script.answering(request, answer):
                    return
                writer.write(frame_size_prefix(len(answer)) + answer)
                await writer.drain()
        finally:
            # Half of it only: closed at once, what the client has sent meanwhile and nobody read
            # would reset the connection, and take answers with it that the client has not read.
            with contextlib.suppress(OSError):
                writer.write_eof()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    """Raises asyncio.IncompleteReadError at the end of the connection."""
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    return await reader.readexactly(size)
