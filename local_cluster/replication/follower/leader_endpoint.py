"""A follower's connection to one leader: opened when it is needed, one fetch at a time on it.

Whenever the connection goes, the session begins anew: an answer that does not come may have been
the only one with that news.
"""

from __future__ import annotations

import asyncio
from typing import Final

from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.network import Line, OpenLine
from local_cluster.replication.follower.fetch_session import FollowerFetchSession
from local_cluster.replication.follower.follower_request import FETCH_VERSION
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

ANSWER_TIMEOUT_MS: Final = 30_000


class LeaderEndpoint:
    """To the broker of an id, wherever that listens now."""

    def __init__(
        self, broker_id: int, listener: str, metadata: MetadataCache, open_line: OpenLine
    ) -> None:
        self.session = FollowerFetchSession()
        self._broker_id = broker_id
        self._listener = listener
        self._metadata = metadata
        self._open_line = open_line
        self._line: Line | None = None
        self._answer: asyncio.Future[tuple[memoryview, int]] | None = None
        """That is waited for."""

    async def open(self) -> None:
        """Be connected. Raises KafkaError."""
        if self._line is not None and not self._line.is_closed:
            return
        broker = self._metadata.brokers.get(self._broker_id)
        if broker is None or self._listener not in broker.listeners:
            raise KafkaError(ErrorCode.broker_not_available, f"broker {self._broker_id} is away")
        self._line = await self._open_line(*broker.listeners[self._listener])

    async def fetch(self, body: bytes) -> tuple[memoryview, int]:
        """The answer's frame and where its body begins. Raises KafkaError or PeerError."""
        assert self._line is not None, "it is opened first"
        self._answer = asyncio.ensure_future(self._line.send(ApiKey.FETCH, FETCH_VERSION, (body,)))
        too_late = asyncio.get_running_loop().call_later(
            ANSWER_TIMEOUT_MS / 1000, self.drop, "no answer to a fetch"
        )
        try:
            return await self._answer
        finally:
            self._answer = None
            too_late.cancel()

    def interrupt(self, reason: str) -> None:
        """Drop the connection where an answer is waited for."""
        if self._answer is not None and not self._answer.done():
            self.drop(reason)

    def drop_closed(self) -> None:
        """Begin anew where the leader has closed the connection."""
        if self._line is not None and self._line.is_closed:
            self.drop("closed by the leader")

    def drop(self, reason: str) -> None:
        """Close at once; a fetch that waits for its answer fails."""
        self.session.begin_anew()
        line, self._line = self._line, None
        if line is not None:
            line.abort(reason)
