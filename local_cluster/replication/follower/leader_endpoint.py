"""A follower's connection to one leader: opened on demand, with one fetch in flight at a time.

The session starts over whenever the connection is lost: the response that does not arrive may have
been the only one with some change.
"""

from __future__ import annotations

import asyncio
from typing import Final

from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.network import ConnectToPeer, PeerConnection
from local_cluster.replication.follower.fetch_session import FETCH_VERSION, FollowerFetchSession
from local_cluster.replication.partition import Partition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

RESPONSE_TIMEOUT_MS: Final = 30_000


class LeaderEndpoint:
    """The leader with a broker id, at the address in the metadata."""

    def __init__(
        self, broker_id: int, listener: str, metadata: MetadataCache, connect: ConnectToPeer
    ) -> None:
        self.session: FollowerFetchSession[Partition] = FollowerFetchSession()
        self._broker_id = broker_id
        self._listener = listener
        self._metadata = metadata
        self._connect = connect
        self._connection: PeerConnection | None = None
        self._response: asyncio.Future[tuple[memoryview, int]] | None = None
        """The response in flight."""

    async def open(self) -> None:
        """Connect unless there is a connection. Raises KafkaError."""
        if self._connection is not None and not self._connection.is_closed:
            return
        broker = self._metadata.brokers.get(self._broker_id)
        if broker is None or self._listener not in broker.listeners:
            raise KafkaError(
                ErrorCode.broker_not_available,
                f"the metadata has no listener {self._listener} of broker {self._broker_id}",
            )
        self._connection = await self._connect(*broker.listeners[self._listener])

    async def fetch(self, body: bytes) -> tuple[memoryview, int]:
        """Return the response's frame and the position of its body.

        Raises KafkaError or PeerError.
        """
        assert self._connection is not None, "open() comes first"
        sent = self._connection.send(ApiKey.FETCH, FETCH_VERSION, (body,))
        self._response = asyncio.ensure_future(sent)
        timer = asyncio.get_running_loop().call_later(
            RESPONSE_TIMEOUT_MS / 1000, self.drop, "no response to a fetch"
        )
        try:
            return await self._response
        finally:
            self._response = None
            timer.cancel()

    def interrupt(self, reason: str) -> None:
        """Drop the connection if a response is in flight."""
        if self._response is not None and not self._response.done():
            self.drop(reason)

    def drop_closed(self) -> None:
        """Start the session over if the leader has closed the connection."""
        if self._connection is not None and self._connection.is_closed:
            self.drop("closed by the leader")

    def drop(self, reason: str) -> None:
        """Close the connection at once. A fetch in flight fails."""
        self.session.start_over()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort(reason)
