"""Nothing is written that was fetched from another topic of the same name.

A fetch asks by name. Between two rounds of discovery a topic may be deleted and made anew, and a
fetch at the old position then brings records of the new topic. So what was fetched is held until
the broker that served it, asked afterwards, still knows the topic under the id that the flow is
about: a topic that is made anew later than that has not been read from yet.

One question at a time per broker, about all topics that hold something: while it is on its way
more is fetched and held, so that it costs latency (one round trip), not throughput. A source
without topic ids cannot be asked so; its records are released at once. From Fetch v13 on (Kafka
3.1) the fetch itself names the id, and nothing comes here.
"""

from __future__ import annotations

import asyncio

from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.context import LinkContext
from mirror_maker.flow.copy_span import Copying
from mirror_maker.ports import DataSource


class Confirmer:
    """Confirms what one source broker served; `run` until cancelled."""

    def __init__(self, context: LinkContext, source: DataSource, node_id: int) -> None:
        """`source` is not the client of the long polls, behind which a question would wait."""
        self._context = context
        self._source = source
        self._node_id = node_id
        self._holding: dict[Copying, None] = {}
        self._wake = asyncio.Event()

    def hold(self, copying: Copying) -> None:
        """It has accepted records that this broker served."""
        self._holding[copying] = None
        self._wake.set()

    async def run(self) -> None:
        limits = self._context.limits
        back_off = Backoff(limits.back_off_ms_min, limits.back_off_ms_max, self._context.random)
        while True:
            await self._wake.wait()
            self._wake.clear()
            asked, self._holding = self._holding, {}
            # Taken before the question is sent: it says nothing of what is fetched later.
            marks = {copying: copying.replicator.accepted for copying in asked}
            topics = sorted({copying.source.topic for copying in asked})
            try:
                topic_ids = await self._source.topic_ids(self._node_id, topics)
            except KafkaError:
                self._holding |= asked
                self._wake.set()
                self._context.directory.hurry()
                await self._context.clock.sleep(back_off.next_ms())
                continue
            back_off.reset()
            for copying, mark in marks.items():
                copying.on_confirmed(mark, topic_ids.get(copying.source.topic))
