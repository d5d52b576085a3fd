"""What an outbox waits for: room in its socket, or a range of a log that is loaded."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from local_cluster.log.disk.cold_reads import CHUNK_BYTES, ColdReads
from local_cluster.log.partition.partition_log import LogSlice


class SocketWaits:
    """The waits of one outbox, at most one at a time. Call everything on the loop."""

    def __init__(
        self,
        sock: socket.socket,
        cold_reads: ColdReads,
        on_ready: Callable[[], None],
        on_broken: Callable[[OSError], None],
    ) -> None:
        """`on_ready` is called when a wait ends, `on_broken` if a range cannot be loaded."""
        self._socket = sock
        self._cold_reads = cold_reads
        self._on_ready = on_ready
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._is_watching = False
        self._is_loading = False
        self._is_closed = False

    @property
    def is_waiting(self) -> bool:
        """Whether `on_ready` is still to be called."""
        return self._is_watching or self._is_loading

    def watch(self, is_watching: bool) -> None:
        """Watch whether the socket is writable, or stop watching."""
        if is_watching == self._is_watching:
            return
        self._is_watching = is_watching
        if is_watching:
            self._loop.add_writer(self._socket.fileno(), self._on_ready)
        else:
            self._loop.remove_writer(self._socket.fileno())

    def load(self, piece: LogSlice, on_loaded: Callable[[int], None]) -> None:
        """Load the start of a slice beside the loop. `on_loaded` gets the loaded bytes' count."""
        size_bytes = min(piece.size_bytes, CHUNK_BYTES)
        self._is_loading = True
        self.watch(False)

        def loaded(loading: asyncio.Future[None]) -> None:
            self._is_loading = False
            if self._is_closed or loading.cancelled():
                return
            error = loading.exception()
            if isinstance(error, OSError):
                self._on_broken(error)
                return
            on_loaded(size_bytes)
            self._on_ready()

        self._cold_reads.load(piece.file, piece.position, size_bytes, loaded)

    def close(self) -> None:
        """End every wait. Call this before the socket is closed."""
        self._is_closed = True
        self.watch(False)
