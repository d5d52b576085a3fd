"""One client connection: frames in, handlers in request order, answers in request order.

Requests are dispatched as they arrive; a handler may give its answer later. Answers are kept in
a queue of slots, and only the head may be written, so that pipelined clients see their order.
Record bytes of a Fetch answer go from the file to the socket by sendfile, small ones by one read.

Limits: frame size, requests in flight per connection (reading pauses above it).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, cast

from local_cluster.handlers.registry import Handler, RequestContext, find_handler
from local_cluster.log.partition_log import LogSlice
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from local_cluster.wire.frame import FrameReceiver, frame_size_prefix
from local_cluster.wire.header import encode_response_header, read_request_header

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""Kafka's default of socket.request.max.bytes."""
IN_FLIGHT_MAX: Final = 256
"""Requests of one connection that may wait for their answer before reading pauses."""
SENDFILE_BYTES_MIN: Final = 64 * 1024
"""Slices below this are read and written with the rest: sendfile costs several loop turns."""
ANONYMOUS: Final = "User:ANONYMOUS"

_log = logging.getLogger(__name__)
_connection_ids = itertools.count(1)

Part = bytes | memoryview | LogSlice


class _Slot:
    """One request's place in the queue of answers."""

    __slots__ = ("parts", "ready", "silent")

    def __init__(self) -> None:
        self.ready = False
        self.silent = False
        self.parts: Sequence[Part] = ()


class BrokerConnection(asyncio.BufferedProtocol):
    """The broker's side of one client connection."""

    def __init__(
        self,
        broker: BrokerServices,
        listener: str,
        on_open: Callable[[BrokerConnection], None],
        on_close: Callable[[BrokerConnection], None],
    ) -> None:
        self._broker = broker
        self._listener = listener
        self._on_open = on_open
        self._on_close = on_close
        self._receiver = FrameReceiver(
            broker.settings.config_int("socket.request.max.bytes", FRAME_BYTES_MAX)
        )
        self._slots: deque[_Slot] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._client_host = ""
        self._id = next(_connection_ids)
        self._sending = False
        self._writable = True
        self._paused_reading = False
        self._closing = False

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._client_host = peer[0] if peer else ""
        self._on_open(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                if self._closing:
                    return
                self._dispatch(frame)
        except PeerError as error:
            self._close(f"broken request: {error}")
        except KafkaError as error:
            self._close(f"refused without an answer: {error}")
        except Exception:  # noqa: BLE001 - one connection's failure must not end the broker
            _log.exception("connection %d from %s: request failed", self._id, self._client_host)
            self._close("internal error")

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        self._slots.clear()
        self._on_close(self)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._flush()

    # -- requests ---------------------------------------------------------------------------

    def _dispatch(self, frame: memoryview) -> None:
        header = read_request_header(frame)
        handler = find_handler(header.api_key)
        if handler is None:
            raise PeerError(f"api key {header.api_key} is not served")
        version = header.api_version
        position = header.body_position
        if not handler.min_version <= version <= handler.max_version:
            if header.api_key != ApiKey.API_VERSIONS:
                raise PeerError(f"{ApiKey(header.api_key).name} v{version} is not served")
            # KIP-511: the answer has the v0 body, which every client can read.
            version, position = 0, -1
        context = RequestContext(
            header.api_key,
            version,
            header.correlation_id,
            header.client_id,
            ANONYMOUS,
            self._listener,
            self._client_host,
            self._id,
        )
        slot = _Slot()
        self._slots.append(slot)
        if len(self._slots) >= IN_FLIGHT_MAX and not self._paused_reading:
            assert self._transport is not None
            self._transport.pause_reading()
            self._paused_reading = True
        reply = self._call(handler, context, frame, position)
        if isinstance(reply, Awaitable):
            task = asyncio.ensure_future(self._finish_later(slot, context, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._finish(slot, context, reply)

    def _call(
        self, handler: Handler, context: RequestContext, frame: memoryview, position: int
    ) -> Any:
        if position < 0:
            return handler.function(self._broker, context, None)
        if handler.raw:
            return handler.function(self._broker, context, frame[position:])
        request = messages.decode_request(context.api_key, context.api_version, frame, position)
        return handler.function(self._broker, context, request)

    async def _finish_later(
        self, slot: _Slot, context: RequestContext, reply: Awaitable[Any]
    ) -> None:
        try:
            self._finish(slot, context, await reply)
        except Exception as error:  # noqa: BLE001 - as above
            level = logging.INFO if isinstance(error, KafkaError) else logging.ERROR
            _log.log(
                level,
                "connection %d from %s: %s v%d failed",
                self._id,
                self._client_host,
                ApiKey(context.api_key).name,
                context.api_version,
                exc_info=not isinstance(error, KafkaError),
            )
            self._close("internal error")

    def _finish(self, slot: _Slot, context: RequestContext, reply: Any) -> None:
        if reply is None:
            slot.silent = True
        else:
            body: Sequence[Part]
            if isinstance(reply, bytes):
                body = (reply,)
            elif isinstance(reply, list):
                body = reply
            else:
                body = (messages.encode_response(context.api_key, context.api_version, reply),)
            header = encode_response_header(
                context.api_key, context.api_version, context.correlation_id
            )
            size = len(header) + sum(
                part.size_bytes if isinstance(part, LogSlice) else len(part) for part in body
            )
            slot.parts = [frame_size_prefix(size) + header, *body]
        slot.ready = True
        if self._slots and self._slots[0] is slot:
            self._flush()

    # -- answers ----------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write the ready answers at the head of the queue, as long as the socket takes them."""
        transport = self._transport
        if transport is None or self._closing:
            return
        buffers: list[bytes | memoryview] = []
        while self._slots and self._slots[0].ready and not self._sending and self._writable:
            slot = self._slots.popleft()
            if any(
                isinstance(part, LogSlice) and part.size_bytes >= SENDFILE_BYTES_MIN
                for part in slot.parts
            ):
                self._sending = True
                task = asyncio.ensure_future(self._send_parts(buffers, slot.parts))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                buffers = []
                break
            for part in slot.parts:
                buffers.append(_read(part) if isinstance(part, LogSlice) else part)
        if buffers:
            transport.writelines(buffers)
        if self._paused_reading and len(self._slots) < IN_FLIGHT_MAX // 2:
            self._paused_reading = False
            transport.resume_reading()

    async def _send_parts(self, buffers: list[bytes | memoryview], parts: Sequence[Part]) -> None:
        transport = self._transport
        assert transport is not None
        loop = asyncio.get_running_loop()
        try:
            for part in parts:
                if not isinstance(part, LogSlice):
                    buffers.append(part)
                elif part.size_bytes < SENDFILE_BYTES_MIN:
                    buffers.append(_read(part))
                else:
                    if buffers:
                        transport.writelines(buffers)
                        buffers = []
                    # Only the file's descriptor is used.
                    file = cast(IO[bytes], part.file)
                    sent = await loop.sendfile(
                        transport, file, part.position, part.size_bytes, fallback=False
                    )
                    if sent != part.size_bytes:
                        raise OSError(f"segment ended {part.size_bytes - sent} bytes early")
            if buffers:
                transport.writelines(buffers)
        except (OSError, RuntimeError) as error:
            # The peer is gone or the file is short: the stream is broken in mid-answer.
            self._close(f"answer not sent: {error}")
            return
        finally:
            self._sending = False
        self._flush()

    def _close(self, reason: str) -> None:
        if not self._closing:
            _log.info("connection %d from %s closed: %s", self._id, self._client_host, reason)
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def shut_down(self) -> None:
        """Close because the broker stops."""
        self._close("the broker stops")


def _read(piece: LogSlice) -> bytes:
    data = os.pread(piece.file.fileno(), piece.size_bytes, piece.position)
    if len(data) != piece.size_bytes:
        raise KafkaError(ErrorCode.kafka_storage_error, "segment shorter than its index says")
    return data
