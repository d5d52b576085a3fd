"""One client connection: requests are dispatched in order, and answered in order.

Requests are dispatched as they arrive, and a handler may respond later. Each request has a slot in
a queue, and only the head of the queue is sent, so that pipelined clients see their order. What is
ready at the end of a turn of the loop is sent together (outbox.py).

Limits per connection: the frame size, the requests in flight, and the bytes of responses that the
peer has not taken. Above these reading pauses, and the requests that were read wait. They wait as
well while a quota mutes the connection; its responses leave meanwhile. A large request waits for
the memory that all connections share (pausing/).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from local_cluster.client.connection import frame_buffers
from local_cluster.handlers.awaited_reply import settle
from local_cluster.handlers.deferred import Deferred, RecordsBody, ThrottledBody
from local_cluster.handlers.registry import Reply
from local_cluster.handlers.services import RequestContext
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.log.partition.partition_log import LogSlice
from local_cluster.server.accept.limits import ConnectionSettings
from local_cluster.server.keep_alive import keep_alive
from local_cluster.server.outbox import Outbox, Part
from local_cluster.server.pausing.memory_wait import MemoryWait
from local_cluster.server.pausing.mute import Mute
from local_cluster.server.request_dispatch import ANONYMOUS, Dispatcher
from local_cluster.server.secure.tls_outbox import TlsOutbox
from local_cluster.server.slot import Slot
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError, PeerError
from local_cluster.wire.frame import FrameReceiver, frame_size_prefix
from local_cluster.wire.header import encode_response_header
from local_cluster.wire.request_memory import RequestMemory

IN_FLIGHT_MAX: Final = 256
"""Requests of one connection that may wait for a response before the next is dispatched."""
RESPONSE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Response bytes of one connection, in memory, that may wait for the peer before the next request
is dispatched. Slices of logs stay in their files and do not count."""
RESPONSES_PER_TURN_MAX: Final = 64
"""Responses that are handed to the socket together."""

log = logging.getLogger(__name__)
_connection_ids = itertools.count(1)


class ClientConnection(asyncio.BufferedProtocol):
    """The broker's side of one client connection."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        cold_reads: ColdReads,
        settings: ConnectionSettings,
        *,
        on_open: Callable[[ClientConnection], None],
        on_close: Callable[[ClientConnection], None],
        principal: str = ANONYMOUS,
        memory: RequestMemory | None = None,
    ) -> None:
        """`principal` is that of a client certificate, if the handshake found one. `memory` counts
        the requests of the connection, see `admit`."""
        self._dispatcher = dispatcher
        self._counters = dispatcher.counters
        self._request_time = dispatcher.request_time
        self._request_rates = dispatcher.request_time.rates
        self._now_ns = 0
        """By `time.perf_counter_ns`, read once per turn and once per request."""
        self.last_active_ns = 0
        """When requests arrived last, by `time.perf_counter_ns`."""
        self._cold_reads = cold_reads
        self._send_buffer_bytes = settings.send_buffer_bytes
        self._on_open = on_open
        self._on_close = on_close
        self._receiver = FrameReceiver(settings.frame_bytes_max, frame_buffers())
        self._receiver.memory = memory
        self._requests: deque[memoryview] = deque()
        """Requests that were read together with others and wait for a limit."""
        self._slots: deque[Slot] = deque()
        self._response_bytes = 0
        """In memory: in ready slots, and in the outbox since it was empty last."""
        self._sending_bytes = 0
        """The part of them that the outbox has taken."""
        self._tasks: set[asyncio.Future[Any]] = set()
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | TlsOutbox | None = None
        self._client_host = ""
        self._principal = principal
        self.id = next(_connection_ids)
        self.client_port = 0
        self._is_paused = False
        self._mute = Mute(self._flush)
        self._memory = MemoryWait(self._receiver, self.id, self._read_again)
        self._decrypt: Callable[[], None] | None = None
        """Hands on what TLS has received, and the connection has not."""
        self._flush_is_due = False
        self._closing = False

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_busy(self) -> bool:
        """Whether a response is awaited or not yet sent, or the connection waits."""
        is_waiting = self._mute.is_on or self._memory.is_on
        return bool(self._slots) or is_waiting or not (self._outbox and self._outbox.is_empty)

    @property
    def waits_for_memory(self) -> bool:
        """Whether nothing may be received."""
        return self._memory.forbids_reading

    def is_too_slow(self, now_ns: int) -> bool:
        """Whether the peer keeps memory from others, by `time.perf_counter_ns`."""
        return not self._mute.is_on and self._memory.is_too_slow(now_ns)

    def admit(self, frame_bytes_max: int, memory: RequestMemory | None) -> None:
        """Take larger frames from a client that has proved who it is, and count them.

        Those before are not counted: strangers must not hold the memory of others.
        """
        self._receiver.frame_bytes_max = frame_bytes_max
        self._receiver.memory = memory

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._begin(transport, Outbox(sock, self._cold_reads, self._flush, self._on_broken))

    def take_over(
        self, transport: asyncio.Transport, outbox: TlsOutbox, decrypt: Callable[[], None]
    ) -> None:
        """Begin on a TLS session instead of `connection_made`. After a wait `decrypt` is called."""
        outbox.attach(self._flush, self._on_broken)
        self._decrypt = decrypt
        self._begin(transport, outbox)

    def _begin(self, transport: asyncio.Transport, outbox: Outbox | TlsOutbox) -> None:
        self._transport = transport
        self._outbox = outbox
        sock = transport.get_extra_info("socket")
        if self._send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        keep_alive(sock)
        peer = transport.get_extra_info("peername")
        self._client_host, self.client_port = peer[:2] if peer else ("", 0)
        self._memory.begin(self._client_host)
        self._counters.opened += 1
        self.last_active_ns = time.perf_counter_ns()
        self._on_open(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        reason = self._receive(nbytes)
        # Requests before a broken one are answered, and all that is ready is sent together.
        self._flush()
        if reason is not None:
            self._close(reason)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._outbox is not None:
            self._outbox.close()
        self._mute.cancel()
        self._memory.end()
        for task in tuple(self._tasks):
            task.cancel()
        self._requests.clear()
        for slot in self._slots:
            slot.give_up()
        self._slots.clear()
        self._counters.closed += 1
        self._on_close(self)

    # -- requests ---------------------------------------------------------------------------

    def _receive(self, nbytes: int) -> str | None:
        """Dispatch the requests that are complete now, within the limits.

        Return why the connection must close, None if it need not.
        """
        # Responses that are ready at once wait for the flush at the end of this turn.
        self._flush_is_due = True
        self._now_ns = time.perf_counter_ns()
        try:
            if nbytes:
                self.last_active_ns = self._now_ns
                self._requests.extend(self._receiver.received(nbytes))
            while self._requests and not self._closing:
                if (
                    len(self._slots) >= IN_FLIGHT_MAX
                    or self._response_bytes >= RESPONSE_BYTES_MAX
                    or self._mute.is_on
                ):
                    self._pause()
                    break
                self._dispatch(self._requests.popleft())
            holds = self._receiver.charged or self._receiver.wanted or self._requests
            if holds and self._memory.count(self._requests, self._now_ns, self._is_paused):
                self._pause()
        except PeerError as error:
            return f"broken request: {error}"
        except KafkaError as error:
            return f"refused without a response: {error}"
        except Exception:
            # The failure of one connection must not end the broker.
            log.exception("connection %d from %s: request failed", self.id, self._client_host)
            return "internal error"
        return None

    def _dispatch(self, frame: memoryview) -> None:
        slot = Slot()
        self._slots.append(slot)
        began_ns = slot.began_ns = self._now_ns
        slot.queue_ns = began_ns - self.last_active_ns
        context, reply = self._dispatcher.dispatch(
            frame, self._client_host, self.id, self._principal
        )
        meter = slot.meter = self._counters.meters.of(context.api_key, context.api_version)
        if type(reply) is bytes or type(reply) is list or type(reply) is RecordsBody:
            self._finish(slot, context, reply)
        elif isinstance(reply, Deferred):
            reply.then(partial(self._finish, slot, context), partial(self._failed, slot, context))
        elif isinstance(reply, Awaitable):
            task = asyncio.ensure_future(
                settle(
                    reply,
                    partial(self._finish, slot, context),
                    partial(self._failed, slot, context),
                )
            )
            self._tasks.add(task)
            if context.api_key == ApiKey.PRODUCE:
                self._memory.keep(len(frame), task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._finish(slot, context, reply)
        if not slot.ready:
            self._now_ns = slot.returned_ns = time.perf_counter_ns()
            meter.waiting += 1

    def _failed(self, slot: Slot, context: RequestContext, error: Exception) -> None:
        slot.count()
        log.log(
            logging.INFO if isinstance(error, KafkaError) else logging.ERROR,
            "connection %d from %s: %s v%d failed",
            self.id,
            self._client_host,
            ApiKey(context.api_key).name,
            context.api_version,
            exc_info=None if isinstance(error, KafkaError) else error,
        )
        self._close("internal error")

    def _finish(self, slot: Slot, context: RequestContext, reply: Reply) -> None:
        if self._request_rates.is_used:
            returned_ns = slot.returned_ns or time.perf_counter_ns()
            reply = self._request_time.count(context, reply, returned_ns - slot.began_ns)
        if type(reply) is ThrottledBody:
            self._silence(reply.throttle_ms)
            reply = reply.body
        if type(reply) is RecordsBody:
            slot.may_leave = reply.may_leave
            reply = reply.body
        if reply is not None:
            self._encode(slot, context, reply)
        self._now_ns = slot.count() or self._now_ns
        slot.ready = True
        if not self._flush_is_due and self._slots and self._slots[0] is slot:
            # Several responses often get ready in one turn: a group commit acknowledges many.
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _encode(self, slot: Slot, context: RequestContext, reply: Any) -> None:
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
        self._response_bytes += memory_bytes

    # -- responses --------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send the ready responses at the head of the queue, as long as the socket takes them."""
        self._flush_is_due = False
        outbox = self._outbox
        if outbox is None or self._closing:
            return
        while outbox.is_empty:
            self._response_bytes -= self._sending_bytes
            self._sending_bytes = 0
            if not self._slots or not self._slots[0].ready:
                break
            responses = 0
            while self._slots and self._slots[0].ready and responses < RESPONSES_PER_TURN_MAX:
                slot = self._slots.popleft()
                if slot.may_leave is not None and not slot.may_leave():
                    outbox.flush()
                    self._close("the right to read records that waited was revoked")
                    return
                self._sending_bytes += slot.memory_bytes
                outbox.add(slot.parts)
                responses += 1
                if slot.may_leave is not None:
                    # The next ones are checked again if the peer is slow to take this one.
                    break
            outbox.flush()
        has_room = (
            len(self._slots) < IN_FLIGHT_MAX // 2 and self._response_bytes < RESPONSE_BYTES_MAX // 2
        )
        if self._is_paused and has_room and not self._mute.is_on and not self._memory.is_on:
            self._resume()

    def _pause(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()
        self._is_paused = True

    def _read_again(self) -> None:
        """Go on after a wait for memory."""
        if self._closing:
            return
        self._flush()
        if self._decrypt is not None:
            self._decrypt()

    def _resume(self) -> None:
        """Dispatch the requests that waited. If none is left, read again."""
        self._is_paused = False
        reason = self._receive(0)
        if reason is not None:
            self._close(reason)
            return
        if not self._is_paused:
            assert self._transport is not None
            self._transport.resume_reading()
        asyncio.get_running_loop().call_soon(self._flush)

    def _silence(self, throttle_ms: int) -> None:
        """Dispatch no request for some time, because of a quota."""
        if self._closing or self._transport is None:
            return
        self._mute.extend(throttle_ms)
        self._pause()

    def _on_broken(self, error: OSError) -> None:
        """Close: the peer has left or a file is short, so the stream ends inside a response."""
        self._close(f"response not sent: {error}")

    def _close(self, reason: str) -> None:
        if not self._closing:
            log.info("connection %d from %s closed: %s", self.id, self._client_host, reason)
        self._closing = True
        if self._outbox is not None:
            # Its duplicate of the socket would keep the stream open for the peer.
            self._outbox.close()
        if self._transport is not None:
            self._transport.close()

    def shut_down(self, reason: str = "the broker stops") -> None:
        """Close: the broker stops, or the client may not stay."""
        self._close(reason)
