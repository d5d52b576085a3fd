"""Responses on their way into one socket: bytes, and slices of files by sendfile, in order.

Guarantees:
- Nothing here waits. If the socket is full, the rest is sent when it is writable again. If a range
  is not in the page cache, it is loaded beside the loop first, a chunk at a time.
- One connection sends at most TURN_BYTES_MAX in a turn of the loop.
- A file that is shorter than its slice, or a peer that has left, ends the stream with `on_broken`,
  inside a response if it must.

The socket is a duplicate of the transport's: the transport reads, and asyncio does not let others
watch its descriptor.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.log.partition.partition_log import LogSlice
from local_cluster.server.socket_waits import SocketWaits

Part = bytes | memoryview | LogSlice

TURN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Sent by one connection before the others get their turn."""
SENDFILE_BYTES_MIN: Final = 32 * 1024
"""Smaller slices are read, and sent with the bytes around them in one system call."""
SLICE_BYTES_MAX: Final = 512 * 1024
"""Asked of one sendfile: more than a socket usually takes at once. This much is looked up in the
page cache, and taken for warm until it is sent."""
BUFFERS_MAX: Final = 256
"""Buffers of one sendmsg; Linux takes 1024."""

NO_OPTION: Final = 0
_MSG_MORE: Final[int] = getattr(socket, "MSG_MORE", NO_OPTION)
"""Linux has it; elsewhere it is NO_OPTION."""


class Outbox:
    """The sending side of a connection. Call everything on the loop."""

    def __init__(
        self,
        sock: socket.socket,
        cold_reads: ColdReads,
        on_drained: Callable[[], None],
        on_broken: Callable[[OSError], None],
    ) -> None:
        self._socket = sock
        self._cold_reads = cold_reads
        self._waits = SocketWaits(sock, cold_reads, self._resume, self._break)
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._parts: deque[Part] = deque()
        self._warm: tuple[int, int] | None = None
        """(position, size) of the start of the head slice that was warm when it was looked up."""
        self._closed = False

    @property
    def is_empty(self) -> bool:
        """Whether everything went into the socket."""
        return not self._parts

    def add(self, parts: Iterable[Part]) -> None:
        """Queue parts; `flush` sends them."""
        self._parts.extend(parts)

    def flush(self) -> None:
        """Send what the socket takes now. The rest follows, and then `on_drained` is called."""
        if self._waits.is_waiting or self._closed:
            return
        self._send()

    def close(self) -> None:
        """Drop the unsent parts and close the descriptor."""
        if self._closed:
            return
        self._closed = True
        self._parts.clear()
        self._waits.close()
        self._socket.close()

    # -- inside -----------------------------------------------------------------------------

    def _send(self) -> None:
        """Send until all is sent, the socket is full, a range is cold, or the turn ends."""
        bytes_left = TURN_BYTES_MAX
        try:
            while self._parts and bytes_left > 0:
                head = self._parts[0]
                if isinstance(head, LogSlice) and head.size_bytes >= SENDFILE_BYTES_MIN:
                    sent = self._send_slice(head, bytes_left)
                else:
                    sent = self._send_buffers()
                if sent is None:
                    return
                bytes_left -= sent
        except BlockingIOError:
            pass
        except OSError as error:
            self._break(error)
            return
        self._waits.watch(bool(self._parts))

    def _send_slice(self, piece: LogSlice, bytes_max: int) -> int | None:
        """Send from the head slice. Return None if it has to be loaded first."""
        if self._warm is None:
            wanted = min(piece.size_bytes, SLICE_BYTES_MAX)
            found = self._cold_reads.warm_bytes(piece.file, piece.position, wanted)
            if not found:
                self._load(piece)
                return None
            self._warm = (piece.position, found)
        size_bytes = min(self._warm[0] + self._warm[1] - piece.position, bytes_max)
        sent = os.sendfile(self._socket.fileno(), piece.file.fileno(), piece.position, size_bytes)
        if not sent:
            raise OSError(errno.EIO, f"segment ended {piece.size_bytes} bytes early")
        self._advance(piece, sent)
        return sent

    def _advance(self, piece: LogSlice, sent: int) -> None:
        position = piece.position + sent
        if self._warm is not None and position >= self._warm[0] + self._warm[1]:
            self._warm = None
        if sent == piece.size_bytes:
            self._parts.popleft()
        else:
            # `_replace` of a named tuple takes several times as long.
            self._parts[0] = LogSlice(
                piece.file, position, piece.size_bytes - sent, piece.next_offset
            )

    def _send_buffers(self) -> int | None:
        """Send the bytes at the head, and the small slices between them."""
        buffers: list[bytes | memoryview] = []
        flags = 0
        for index, part in enumerate(self._parts):
            if index >= BUFFERS_MAX:
                flags = _MSG_MORE
                break
            if isinstance(part, LogSlice):
                if part.size_bytes >= SENDFILE_BYTES_MIN:
                    flags = _MSG_MORE
                    break
                content = self._read(part, is_head=not index)
                if content is None:
                    if not buffers:
                        return None
                    break
                buffers.append(content)
                self._parts[index] = content
            else:
                buffers.append(part)
        if len(buffers) == 1:
            sent = self._socket.send(buffers[0], flags)
        else:
            sent = self._socket.sendmsg(buffers, (), flags)
        left = sent
        for buffer in buffers:
            if left < len(buffer):
                if left:
                    self._parts[0] = memoryview(buffer)[left:]
                break
            left -= len(buffer)
            self._parts.popleft()
        return sent

    def _read(self, piece: LogSlice, *, is_head: bool) -> bytes | None:
        """Return the bytes of a small slice, None if they are cold; a cold head is loaded."""
        if is_head and self._warm is not None:
            self._warm = None
            content = piece.read()
        else:
            found = self._cold_reads.read_now(piece.file, piece.size_bytes, piece.position)
            if found is None:
                if is_head:
                    self._load(piece)
                return None
            content = found
        if len(content) != piece.size_bytes:
            raise OSError(errno.EIO, f"segment ended {piece.size_bytes - len(content)} bytes early")
        return content

    def _load(self, piece: LogSlice) -> None:
        def loaded(size_bytes: int) -> None:
            self._warm = (piece.position, size_bytes)

        self._waits.load(piece, loaded)

    def _break(self, error: OSError) -> None:
        self.close()
        self._on_broken(error)

    def _resume(self) -> None:
        self._send()
        if not self._parts and not self._closed:
            self._on_drained()
