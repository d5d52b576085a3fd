"""Responses on their way into one TLS connection: encrypted here, and sent in order.

Guarantees, as those of the plain outbox (server/outbox.py):
- Nothing here waits. A range of a log that is not in the page cache is loaded beside the loop.
- One connection encrypts at most TURN_BYTES_MAX in a turn of the loop.
- At most ENCRYPT_BYTES_MAX of plain text are encrypted ahead of the socket.
- A file that is shorter than its slice, or a peer that has left, ends the stream with `on_broken`.

Handshake messages leave the same way, because the order of TLS records matters.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.log.partition.partition_log import LogSlice
from local_cluster.server.outbox import Part
from local_cluster.server.socket_waits import SocketWaits

TURN_BYTES_MAX: Final = 1024 * 1024
"""Encrypted by one connection before the others get their turn."""
ENCRYPT_BYTES_MAX: Final = 128 * 1024
"""Plain text that is encrypted together: eight TLS records."""


class TlsOutbox:
    """The sending side of a TLS connection. Call everything on the loop."""

    def __init__(
        self,
        sock: socket.socket,
        session: ssl.SSLObject,
        encrypted: ssl.MemoryBIO,
        cold_reads: ColdReads,
        on_drained: Callable[[], None],
        on_broken: Callable[[OSError], None],
    ) -> None:
        self._socket = sock
        self._session = session
        self._encrypted = encrypted
        self._cold_reads = cold_reads
        self._waits = SocketWaits(sock, cold_reads, self._resume, self._break)
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._parts: deque[Part] = deque()
        self._unsent = memoryview(b"")
        """TLS records that the socket has not taken yet."""
        self._loaded_bytes = 0
        """Size of the start of the head slice that was loaded."""
        self._closed = False

    @property
    def is_empty(self) -> bool:
        """Whether everything went into the socket."""
        return not (self._parts or self._unsent or self._encrypted.pending)

    def attach(self, on_drained: Callable[[], None], on_broken: Callable[[OSError], None]) -> None:
        """Report to the connection instead of to its handshake."""
        self._on_drained = on_drained
        self._on_broken = on_broken

    def add(self, parts: Iterable[Part]) -> None:
        """Queue parts; `flush` sends them."""
        self._parts.extend(parts)

    def flush(self) -> None:
        """Send what the socket takes now. The rest follows, and then `on_drained` is called."""
        if self._waits.is_waiting or self._closed:
            return
        self._send()

    def close(self) -> None:
        """Drop the unsent parts, end the TLS stream if the socket has room, close."""
        if self._closed:
            return
        self._closed = True
        self._waits.close()
        if not self._parts and not self._unsent:
            # The peer learns that nothing was cut off. It is not asked to confirm.
            with contextlib.suppress(OSError, ValueError):
                with contextlib.suppress(ssl.SSLError):
                    self._session.unwrap()
                self._socket.send(self._encrypted.read())
        self._parts.clear()
        self._unsent = memoryview(b"")
        self._socket.close()

    # -- inside -----------------------------------------------------------------------------

    def _send(self) -> None:
        """Send until all is sent, the socket is full, a range is cold, or the turn ends."""
        bytes_left = TURN_BYTES_MAX
        try:
            while bytes_left > 0:
                if not self._unsent:
                    if self._encrypted.pending == 0:
                        if not self._parts:
                            break
                        taken = self._encrypt()
                        if taken is None:
                            return
                        bytes_left -= taken
                    self._unsent = memoryview(self._encrypted.read())
                sent = self._socket.send(self._unsent)
                self._unsent = self._unsent[sent:]
        except BlockingIOError:
            pass
        except OSError as error:
            self._break(error)
            return
        self._waits.watch(not self.is_empty)

    def _encrypt(self) -> int | None:
        """Encrypt from the head. Return the plain bytes, None if the head has to be loaded."""
        chunks: list[bytes | memoryview] = []
        room = ENCRYPT_BYTES_MAX
        while self._parts and room > 0:
            head = self._parts[0]
            if isinstance(head, LogSlice):
                content = self._read(head, min(head.size_bytes, room))
                if content is None:
                    if not chunks:
                        self._waits.load(head, self._loaded)
                        return None
                    break
                self._take(head, len(content))
                chunks.append(content)
                room -= len(content)
                continue
            chunks.append(head[:room] if len(head) > room else head)
            if len(head) > room:
                self._parts[0] = memoryview(head)[room:]
            else:
                self._parts.popleft()
            room -= len(chunks[-1])
        plain = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if len(plain):
            self._session.write(plain)
        return len(plain)

    def _read(self, piece: LogSlice, size_bytes: int) -> bytes | None:
        """Return the start of a slice, None if it is cold."""
        if self._loaded_bytes >= size_bytes:
            content: bytes | None = piece._replace(size_bytes=size_bytes).read()
        else:
            content = self._cold_reads.read_now(piece.file, size_bytes, piece.position)
        if content is not None and len(content) != size_bytes:
            raise OSError(errno.EIO, f"segment ended {size_bytes - len(content)} bytes early")
        return content

    def _take(self, piece: LogSlice, size_bytes: int) -> None:
        self._loaded_bytes = max(0, self._loaded_bytes - size_bytes)
        if size_bytes == piece.size_bytes:
            self._loaded_bytes = 0
            self._parts.popleft()
            return
        self._parts[0] = piece._replace(
            position=piece.position + size_bytes, size_bytes=piece.size_bytes - size_bytes
        )

    def _loaded(self, size_bytes: int) -> None:
        self._loaded_bytes = size_bytes

    def _break(self, error: OSError) -> None:
        self.close()
        self._on_broken(error)

    def _resume(self) -> None:
        self._send()
        if self.is_empty and not self._closed:
            self._on_drained()
