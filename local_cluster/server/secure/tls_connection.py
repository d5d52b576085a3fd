"""TLS between a socket and a client connection: the handshake, and decryption in place.

The client connection begins when the handshake is done, so nothing that a stranger sends before is
read as a request. Its frames are decrypted straight into its receive buffer; its responses leave
through the outbox of this session (tls_outbox.py).

Limits: HANDSHAKE_MS_MAX for the handshake, READ_BYTES for one read of the socket. A failed
handshake is logged with its reason, and its connection stays open, unread, for Kafka's
`connection.failed.authentication.delay.ms`: a peer that tries again and again waits each time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.server.connection import ClientConnection
from local_cluster.server.secure.tls_outbox import TlsOutbox

HANDSHAKE_MS_MAX: Final = 30_000
"""A peer that has not proved itself for so long is disconnected."""
READ_BYTES: Final = 64 * 1024
"""Encrypted bytes of one read: four TLS records."""

log = logging.getLogger(__name__)

OpenConnection = Callable[[ssl.SSLObject], ClientConnection]
"""Make the connection of a finished handshake. Raises ValueError for a refused certificate."""


class TlsConnection(asyncio.BufferedProtocol):
    """The broker's side of one TLS connection."""

    def __init__(
        self,
        context: ssl.SSLContext,
        cold_reads: ColdReads,
        open_connection: OpenConnection,
        *,
        failure_delay_ms: int,
        on_open: Callable[[TlsConnection], None],
        on_close: Callable[[TlsConnection], None],
    ) -> None:
        self._received = ssl.MemoryBIO()
        self._encrypted = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._received, self._encrypted, server_side=True)
        self._buffer = bytearray(READ_BYTES)
        self._cold_reads = cold_reads
        self._open_connection = open_connection
        self._failure_delay_ms = failure_delay_ms
        self._on_open = on_open
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        self._outbox: TlsOutbox | None = None
        self._inner: ClientConnection | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._has_failed = False

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._outbox = TlsOutbox(
            sock, self._session, self._encrypted, self._cold_reads, _nothing, self._on_broken
        )
        self._deadline = asyncio.get_running_loop().call_later(
            HANDSHAKE_MS_MAX / 1000, self._fail, f"no handshake within {HANDSHAKE_MS_MAX} ms"
        )
        self._on_open(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._has_failed:
            return
        assert self._outbox is not None
        self._received.write(memoryview(self._buffer)[:nbytes])
        try:
            if self._inner is None and not self._shake_hands():
                return
            self._decrypt()
        except ssl.SSLError as error:
            self._outbox.flush()
            self._fail(str(error))
        except ValueError as error:
            self._fail(str(error))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._inner is not None:
            self._inner.connection_lost(exc)
        if self._outbox is not None:
            self._outbox.close()
        self._on_close(self)

    @property
    def is_closing(self) -> bool:
        return self._inner is not None and self._inner.is_closing

    @property
    def is_busy(self) -> bool:
        """Whether a response is not yet sent, or the handshake is not done."""
        return self._inner is None or self._inner.is_busy

    @property
    def last_active_ns(self) -> int:
        """When requests arrived last, by `time.perf_counter_ns`; 0 before any."""
        return 0 if self._inner is None else self._inner.last_active_ns

    def shut_down(self, reason: str = "the broker stops") -> None:
        """Close: the broker stops, or the client may not stay."""
        if self._inner is not None:
            self._inner.shut_down(reason)
        else:
            self._end()

    # -- inside -----------------------------------------------------------------------------

    def _shake_hands(self) -> bool:
        """Return whether the handshake is done. Raises SSLError, ValueError."""
        assert self._outbox is not None
        assert self._transport is not None
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            self._outbox.flush()
            return False
        self._outbox.flush()
        inner = self._open_connection(self._session)
        self._stop_waiting()
        inner.take_over(self._transport, self._outbox, partial(self.buffer_updated, 0))
        self._inner = inner
        return True

    def _decrypt(self) -> None:
        """Hand all that is complete to the connection, its buffer full each time.

        What is left while it waits for memory stays here: at most READ_BYTES.
        """
        inner, outbox = self._inner, self._outbox
        assert inner is not None
        assert outbox is not None
        is_more = True
        while is_more and not inner.is_closing and not inner.waits_for_memory:
            room = inner.get_buffer(-1)
            filled = 0
            try:
                while filled < len(room):
                    filled += self._read(room[filled:])
            except ssl.SSLWantReadError:
                is_more = False
            except ssl.SSLZeroReturnError:
                # The peer has ended its TLS stream.
                if filled:
                    inner.buffer_updated(filled)
                self._end()
                return
            if filled:
                inner.buffer_updated(filled)
        if self._encrypted.pending:
            # An answer of TLS itself, such as to a new key.
            outbox.flush()

    def _read(self, room: memoryview) -> int:
        """Decrypt into `room`; return how much. Raises SSLWantReadError, SSLZeroReturnError."""
        # The type stubs know only the variant that returns bytes.
        count = int(self._session.read(len(room), room))
        if not count:
            raise ssl.SSLZeroReturnError
        return count

    def _fail(self, reason: str) -> None:
        """Refuse the peer: read no more, and close after the delay."""
        if self._has_failed:
            return
        self._has_failed = True
        self._stop_waiting()
        assert self._transport is not None
        peer = self._transport.get_extra_info("peername")
        log.info("TLS connection from %s failed: %s", peer[0] if peer else "", reason)
        if self._transport.is_closing():
            return
        self._transport.pause_reading()
        asyncio.get_running_loop().call_later(self._failure_delay_ms / 1000, self._end)

    def _on_broken(self, error: OSError) -> None:
        self._fail(str(error))

    def _end(self) -> None:
        if self._outbox is not None:
            self._outbox.close()
        if self._transport is not None:
            self._transport.close()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _nothing() -> None:
    """Nobody waits for the end of a handshake message."""
