"""A client that costs as little as Python allows: blocking sockets, frames built beforehand.

Requests go to the connections in turn and answers are awaited in the same turn, so that no
selector is needed: what is in flight is always the newest few of one sequence.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Self

BUFFER_BYTES: Final = 1 << 20
ANSWER_SECONDS_MAX: Final = 120.0

Answered = Callable[[memoryview], None]


class RawConnection:
    """One connection; answers come in the order of the requests."""

    def __init__(self, host: str, port: int, timeout_seconds: float = ANSWER_SECONDS_MAX) -> None:
        self._begin(socket.create_connection((host, port), timeout=timeout_seconds))

    @classmethod
    def over(cls, connected_socket: socket.socket) -> Self:
        """One on a socket that somebody else has connected."""
        made = cls.__new__(cls)
        made._begin(connected_socket)
        return made

    def _begin(self, connected_socket: socket.socket) -> None:
        self._socket = connected_socket
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4_096)
        self._start = 0
        self._end = 0

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> memoryview:
        """The next answer without its length; good until the next call. Raises OSError."""
        self._fill(4)
        size = int.from_bytes(self._buffer[self._start : self._start + 4], "big")
        self._fill(4 + size)
        begin = self._start + 4
        self._start = begin + size
        return memoryview(self._buffer)[begin : begin + size]

    def call(self, frame: bytes) -> memoryview:
        self.send(frame)
        return self.receive()

    def close(self) -> None:
        self._socket.close()

    def _fill(self, wanted: int) -> None:
        """Have at least `wanted` bytes from `_start` on."""
        if self._start == self._end:
            self._start = self._end = 0
        if self._start + wanted > len(self._buffer):
            held = self._buffer[self._start : self._end]
            # A new buffer: the old one may have a view on it.
            self._buffer = bytearray(max(len(self._buffer), wanted, BUFFER_BYTES))
            self._buffer[: len(held)] = held
            self._start, self._end = 0, len(held)
        while self._end - self._start < wanted:
            count = self._socket.recv_into(memoryview(self._buffer)[self._end :])
            if not count:
                raise ConnectionError("the broker closed the connection")
            self._end += count


@contextmanager
def connected(host: str, port: int, count: int = 1) -> Iterator[list[RawConnection]]:
    """So many connections, closed at the end."""
    connections: list[RawConnection] = []
    try:
        for _ in range(count):
            connections.append(RawConnection(host, port))
        yield connections
    finally:
        for connection in connections:
            connection.close()


def pipelined(
    connections: Sequence[RawConnection],
    frames: Iterable[bytes],
    in_flight: int,
    answered: Answered,
) -> int:
    """Send every frame with so many in flight over all connections; how many were answered.

    A frame is taken from the iterable only when it can be sent, after the answer that made room.
    """
    count = len(connections)
    sent = received = 0
    iterator = iter(frames)
    while True:
        if sent - received == in_flight:
            answered(connections[received % count].receive())
            received += 1
        frame = next(iterator, None)
        if frame is None:
            break
        connections[sent % count].send(frame)
        sent += 1
    while received < sent:
        answered(connections[received % count].receive())
        received += 1
    return received
