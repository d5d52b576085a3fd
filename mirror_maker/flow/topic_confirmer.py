"""Confirms topic ids, so that nothing is written that was fetched from another topic of the name.

An old fetch asks by name. Between two rounds of discovery a topic may be deleted and re-created. A
fetch at the old position then brings records of the new topic. So fetched batches are held until
the broker that served them, asked afterwards, still knows the topic by the flow's id. A topic that
is re-created later has not been read yet.

There is one request at a time per broker, about all topics that hold something. While it is in
flight, more is fetched and held: it costs one round trip of latency, no throughput. A source
without topic ids cannot be asked; its batches are released at once. From Fetch v13 on (Kafka 3.1)
the fetch itself names the id, and nothing is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.flow.copy_session import CopySession
from mirror_maker.ports import LogReader


class TopicConfirmer:
    """Confirms what one source broker served; `run` until cancelled."""

    def __init__(
        self, source: LogReader, node_id: int, *, backoff: Backoff, hurry: Callable[[], None]
    ) -> None:
        """`source` is not the client of the long polls: a request would wait behind them.

        `hurry` asks for a round of discovery.
        """
        self._source = source
        self._node_id = node_id
        self._backoff = backoff
        self._hurry = hurry
        self._holding: dict[CopySession, None] = {}
        self._wake = asyncio.Event()

    def hold(self, session: CopySession) -> None:
        """Note that the session has accepted records that this broker served."""
        self._holding[session] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            asked, self._holding = self._holding, {}
            # Taken before the request is sent: it says nothing about later fetches.
            marks = {session: session.replicator.accepted for session in asked}
            topics = sorted({session.source.topic for session in asked})
            try:
                topic_ids = await self._source.topic_ids(self._node_id, topics)
            except KafkaError:
                self._holding |= asked
                self._wake.set()
                self._hurry()
                await self._backoff.wait()
                continue
            self._backoff.reset()
            for session, mark in marks.items():
                session.on_confirmed(mark, topic_ids.get(session.source.topic))
