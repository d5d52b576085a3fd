"""SHELL: accepts the connections of one listener, as far as the limits allow.

What may not be accepted yet waits in the backlog of the socket. A refused connection is closed,
some of them after a delay: a client that tries again and again waits each time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import Final

from local_cluster.counters.listener import ListenerCounters
from local_cluster.kafka_configs.address_limits import plain_address
from local_cluster.server.accept.admission import Admission, Refusal

BACKLOG: Final = 512
ACCEPTS_PER_TURN_MAX: Final = 64
"""Connections that are accepted before other callbacks of the loop run."""
DELAYED_MAX: Final = 1_000
"""Refused connections that wait to be closed. Others are closed at once."""
ERROR_PAUSE_MS: Final = 1_000
"""Without a free file descriptor, for instance, accepting is tried again after this long."""
LOG_S: Final = 1.0
"""Seconds between two lines about limits; those between are counted."""

log = logging.getLogger(__name__)

Admitted = Callable[[str], asyncio.BufferedProtocol]
"""Make the protocol of an admitted connection from this address."""
Failed = Callable[[asyncio.BufferedProtocol], None]
"""Forget a protocol that got no connection."""


class Acceptor:
    """Accepts on one listening socket."""

    def __init__(
        self,
        listener: str,
        bound: socket.socket,
        admission: Admission,
        admitted: Admitted,
        failed: Failed,
        counters: ListenerCounters,
    ) -> None:
        self._listener = listener
        self._socket = bound
        self._admission = admission
        self._admitted = admitted
        self._failed = failed
        self._counters = counters
        self._is_reading = False
        self._is_closed = False
        self._pause: asyncio.TimerHandle | None = None
        self._starting: set[asyncio.Task[None]] = set()
        self._delayed: dict[socket.socket, asyncio.TimerHandle] = {}
        self._next_line_s = 0.0
        self._left_out = 0

    def start(self) -> None:
        """Listen, and accept."""
        self._socket.listen(BACKLOG)
        self.resume()

    def resume(self) -> None:
        """Accept again if the limits allow it: a connection has ended, or a limit was raised."""
        may_read = not self._is_closed and self._pause is None
        if may_read and not self._is_reading and self._admission.has_room(self._listener):
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)
            self._is_reading = True

    def close(self) -> None:
        """Accept no more, and close what was refused or has not started."""
        self._stop_reading()
        self._is_closed = True
        if self._pause is not None:
            self._pause.cancel()
        for task in self._starting:
            task.cancel()
        for refused, timer in self._delayed.items():
            timer.cancel()
            refused.close()
        self._delayed.clear()
        self._socket.close()

    # -- inside -----------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            if not self._admission.has_room(self._listener):
                self._log("further connections wait (max.connections)")
                self._stop_reading()
                return
            try:
                accepted, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("listener %s cannot accept: %s", self._listener, error)
                self._wait(ERROR_PAUSE_MS)
                return
            accepted.setblocking(False)
            self._take(accepted, plain_address(peer[0]))
            wait_ms = self._admission.note_created(self._listener, _now_ms())
            if wait_ms:
                self._wait(wait_ms)
                return

    def _take(self, accepted: socket.socket, address: str) -> None:
        refusal = self._admission.admit(self._listener, address, _now_ms())
        if refusal is not None:
            self._refuse(accepted, refusal)
            return
        protocol = self._admitted(address)
        task = asyncio.get_running_loop().create_task(self._begin(accepted, protocol))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _begin(self, accepted: socket.socket, protocol: asyncio.BufferedProtocol) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError as error:
            log.info("a connection to listener %s failed: %s", self._listener, error)
            accepted.close()
            self._failed(protocol)
        except asyncio.CancelledError:
            accepted.close()
            raise

    def _refuse(self, accepted: socket.socket, refusal: Refusal) -> None:
        self._counters.note_limited(refusal.kind)
        self._log(f"refused a connection: {refusal.reason}")
        if not refusal.delay_ms or len(self._delayed) >= DELAYED_MAX:
            accepted.close()
            return

        def end() -> None:
            del self._delayed[accepted]
            accepted.close()

        loop = asyncio.get_running_loop()
        self._delayed[accepted] = loop.call_later(refusal.delay_ms / 1000, end)

    def _log(self, text: str) -> None:
        now_s = time.monotonic()
        if now_s < self._next_line_s:
            self._left_out += 1
            return
        log.warning(
            "listener %s: %s (%d more since the last line)", self._listener, text, self._left_out
        )
        self._next_line_s, self._left_out = now_s + LOG_S, 0

    def _wait(self, wait_ms: int) -> None:
        self._stop_reading()
        self._pause = asyncio.get_running_loop().call_later(wait_ms / 1000, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        self.resume()

    def _stop_reading(self) -> None:
        if self._is_reading:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._is_reading = False


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
