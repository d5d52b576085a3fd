"""PORT: the network between the brokers of a cluster.

A line carries requests to one broker and its answers back, each in the order it was sent. The
real one is `client/connection.py`; simulations bring their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from local_cluster.client.connection import Connection, connect
from local_cluster.wire.api import ApiKey

CONNECT_TIMEOUT_MS: Final = 5_000
CLIENT_ID: Final = "heliograph-broker"


class Line(Protocol):
    """A connection to one broker. What it raises is KafkaError or PeerError."""

    @property
    def is_closed(self) -> bool: ...

    def send(
        self, api: ApiKey, version: int, body: tuple[bytes, ...]
    ) -> Awaitable[tuple[memoryview, int]]:
        """Send a request; the answer's frame and where its body begins."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once; what waits for an answer fails."""
        ...

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call this when the line is closed, by whichever side; at once where it is."""
        ...


OpenLine = Callable[[str, int], Awaitable[Line]]
"""Connect to (host, port). Raises KafkaError; RefusedError where nobody listens there."""


async def open_line(host: str, port: int) -> Connection:
    """Connect over TCP. Raises KafkaError."""
    return await connect(host, port, client_id=CLIENT_ID, timeout_ms=CONNECT_TIMEOUT_MS)
