"""One client connection: frames in, handlers in request order, answers in request order.

Requests are dispatched as they arrive; a handler may give its answer later. Answers are kept in
a queue of slots, and only the head may be written, so that pipelined clients see their order.
What is ready at the end of a turn leaves together, by `outbox.py`.

Limits: frame size; requests in flight, and bytes of answers that the peer has not taken, per
connection. Above these reading pauses, and what was read already waits.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from local_cluster.client.frame_buffers import buffers_of_this_loop
from local_cluster.handlers.deferred import Deferred
from local_cluster.handlers.registry import Handler, find_handler
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.partition.partition_log import LogSlice
from local_cluster.server.cold_reads import ColdReads
from local_cluster.server.outbox import Outbox, Part
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError, PeerError
from local_cluster.wire.frame import FrameReceiver, frame_size_prefix
from local_cluster.wire.header import encode_response_header, read_request_header

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""Kafka's default of socket.request.max.bytes."""
IN_FLIGHT_MAX: Final = 256
"""Requests of one connection that may wait for their answer before the next one is looked at."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Answers of one connection, in memory, that wait for the peer before its next request is looked
at. Slices of logs stay in their files and count for nothing."""
ANSWERS_PER_TURN_MAX: Final = 64
"""Answers that are handed to the socket together."""
SEND_BUFFER_BYTES: Final = 256 * 1024
"""Default of socket.send.buffer.bytes; Kafka's is 100 KiB. Beyond some 512 KiB the pages on their
way fall out of the processor's cache and cost twice as much; -1 leaves it to the system, which is
better for readers far away."""
KEEPALIVE_IDLE_S: Final = 600
"""After such a silence the system asks whether the peer still lives. A machine that lost its
power, or a firewall that forgot the flow, says no good-bye, and would stay connected for ever."""
KEEPALIVE_INTERVAL_S: Final = 60
KEEPALIVE_PROBES_MAX: Final = 5
ANONYMOUS: Final = "User:ANONYMOUS"

_log = logging.getLogger(__name__)
_connection_ids = itertools.count(1)


class _Slot:
    """One request's place in the queue of answers."""

    __slots__ = ("memory_bytes", "parts", "ready", "silent")

    def __init__(self) -> None:
        self.memory_bytes = 0
        self.ready = False
        self.silent = False
        self.parts: Sequence[Part] = ()


class BrokerConnection(asyncio.BufferedProtocol):
    """The broker's side of one client connection."""

    def __init__(
        self,
        broker: BrokerServices,
        listener: str,
        cold_reads: ColdReads,
        on_open: Callable[[BrokerConnection], None],
        on_close: Callable[[BrokerConnection], None],
    ) -> None:
        self._broker = broker
        self._listener = listener
        self._cold_reads = cold_reads
        self._on_open = on_open
        self._on_close = on_close
        self._receiver = FrameReceiver(
            broker.settings.config_int("socket.request.max.bytes", FRAME_BYTES_MAX),
            buffers_of_this_loop(),
        )
        self._requests: deque[memoryview] = deque()
        """Received with others, and not looked at: the connection is at a limit."""
        self._slots: deque[_Slot] = deque()
        self._answer_bytes = 0
        """In memory: of slots that are ready, and of what the outbox has taken over since it was
        empty."""
        self._leaving_bytes = 0
        """Of these, what the outbox has taken over."""
        self._tasks: set[asyncio.Future[Any]] = set()
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._client_host = ""
        self._id = next(_connection_ids)
        self._is_paused = False
        self._flush_is_due = False
        self._closing = False

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        send_buffer_bytes = self._broker.settings.config_int(
            "socket.send.buffer.bytes", SEND_BUFFER_BYTES
        )
        if send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        _keep_alive(sock)
        self._outbox = Outbox(sock, self._cold_reads, self._flush, self._on_broken)
        peer = transport.get_extra_info("peername")
        self._client_host = peer[0] if peer else ""
        self._on_open(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        reason = self._take(nbytes)
        # What was asked before the trouble is answered, and all that is ready leaves together.
        self._flush()
        if reason is not None:
            self._close(reason)

    def _take(self, nbytes: int) -> str | None:
        """Dispatch what is complete now, after so many bytes came, as far as the limits allow;
        why the connection must close, if so."""
        # Answers that are ready at once wait for the flush at the end of this turn.
        self._flush_is_due = True
        try:
            if nbytes:
                self._requests.extend(self._receiver.received(nbytes))
            while self._requests and not self._closing:
                if len(self._slots) >= IN_FLIGHT_MAX or self._answer_bytes >= ANSWER_BYTES_MAX:
                    assert self._transport is not None
                    self._transport.pause_reading()
                    self._is_paused = True
                    break
                self._dispatch(self._requests.popleft())
        except PeerError as error:
            return f"broken request: {error}"
        except KafkaError as error:
            return f"refused without an answer: {error}"
        except Exception:  # noqa: BLE001 - one connection's failure must not end the broker
            _log.exception("connection %d from %s: request failed", self._id, self._client_host)
            return "internal error"
        return None

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._outbox is not None:
            self._outbox.close()
        for task in tuple(self._tasks):
            task.cancel()
        self._requests.clear()
        self._slots.clear()
        self._on_close(self)

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
        reply = self._call(handler, context, frame, position)
        if type(reply) is bytes or type(reply) is list:
            self._finish(slot, context, reply)
        elif isinstance(reply, Deferred):
            reply.then(partial(self._finish, slot, context), partial(self._failed, context))
        elif isinstance(reply, Awaitable):
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
            self._failed(context, error)

    def _failed(self, context: RequestContext, error: Exception) -> None:
        _log.log(
            logging.INFO if isinstance(error, KafkaError) else logging.ERROR,
            "connection %d from %s: %s v%d failed",
            self._id,
            self._client_host,
            ApiKey(context.api_key).name,
            context.api_version,
            exc_info=None if isinstance(error, KafkaError) else error,
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
            size = memory_bytes = len(header)
            for part in body:
                if isinstance(part, LogSlice):
                    size += part.size_bytes
                else:
                    size += len(part)
                    memory_bytes += len(part)
            slot.parts = [frame_size_prefix(size) + header, *body]
            slot.memory_bytes = memory_bytes
            self._answer_bytes += memory_bytes
        slot.ready = True
        if not self._flush_is_due and self._slots and self._slots[0] is slot:
            # Several answers often get ready in one turn: one group commit acknowledges many.
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    # -- answers ----------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send the ready answers at the head of the queue, as long as the socket takes them."""
        self._flush_is_due = False
        outbox = self._outbox
        if outbox is None or self._closing:
            return
        while outbox.is_empty:
            self._answer_bytes -= self._leaving_bytes
            self._leaving_bytes = 0
            if not self._slots or not self._slots[0].ready:
                break
            answers = 0
            while self._slots and self._slots[0].ready and answers < ANSWERS_PER_TURN_MAX:
                slot = self._slots.popleft()
                self._leaving_bytes += slot.memory_bytes
                outbox.add(slot.parts)
                answers += 1
            outbox.flush()
        is_roomy = (
            len(self._slots) < IN_FLIGHT_MAX // 2 and self._answer_bytes < ANSWER_BYTES_MAX // 2
        )
        if self._is_paused and is_roomy:
            self._go_on()

    def _go_on(self) -> None:
        """Look at the requests that waited, and read on where these were all."""
        self._is_paused = False
        reason = self._take(0)
        if reason is not None:
            self._close(reason)
            return
        if not self._is_paused:
            assert self._transport is not None
            self._transport.resume_reading()
        asyncio.get_running_loop().call_soon(self._flush)

    def _on_broken(self, error: OSError) -> None:
        """The peer is gone or the file is short: the stream is broken in mid-answer."""
        self._close(f"answer not sent: {error}")

    def _close(self, reason: str) -> None:
        if not self._closing:
            _log.info("connection %d from %s closed: %s", self._id, self._client_host, reason)
        self._closing = True
        if self._outbox is not None:
            # The duplicate would keep the stream open for the peer.
            self._outbox.close()
        if self._transport is not None:
            self._transport.close()

    def shut_down(self) -> None:
        """Close because the broker stops."""
        self._close("the broker stops")


def _keep_alive(sock: socket.socket) -> None:
    """Have the system end a connection whose peer is silent and answers no probes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES_MAX),
    ):
        # Not every system has them; then its own times hold.
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
