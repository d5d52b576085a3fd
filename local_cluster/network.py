"""PORT: the network between the brokers of a cluster.

The real connections are those of `client/connection.py`. Simulations bring their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.client.connection import Connection, connect
from local_cluster.wire.api import ApiKey

CONNECT_TIMEOUT_MS: Final = 5_000
CLIENT_ID: Final = "heliograph-broker"


class PeerConnection(Protocol):
    """A connection to one broker: requests and responses, each in the order of the requests.

    Every method may raise KafkaError or PeerError.
    """

    @property
    def is_closed(self) -> bool: ...

    def send(
        self, api: ApiKey, version: int, body: tuple[bytes, ...]
    ) -> Awaitable[tuple[memoryview, int]]:
        """Send a request. Await the response's frame and the position of its body."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once. Requests in flight fail."""
        ...

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` when either side closes, at once if the connection is closed."""
        ...


ConnectToPeer = Callable[[str, int], Awaitable[PeerConnection]]
"""Connect to (host, port). Raises KafkaError; RefusedError if no process listens there."""


async def connect_to_peer(host: str, port: int, security: ClientSecurity = PLAINTEXT) -> Connection:
    """Connect over TCP, and prove who this broker is. Raises KafkaError."""
    return await connect(
        host, port, client_id=CLIENT_ID, timeout_ms=CONNECT_TIMEOUT_MS, security=security
    )
