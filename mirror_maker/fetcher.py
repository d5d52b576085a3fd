"""Reads from one source broker: one long poll at a time, shared by all its partitions.

Back-pressure: a partition with too many bytes pending is left out until some are acknowledged,
and while any is left out the poll is short, so that it comes back soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.wire.errors import KafkaError

from .back_off import BackOff
from .context import READ_COMMITTED, LinkContext
from .flow import Flow
from .identity import Confirmer
from .ports import DataSource
from .replicator import PartitionReplicator

BLOCKED_WAIT_MS: Final = 5
"""Length of a poll while some partition waits for room."""
THROTTLE_STEP_MS: Final = 200
"""Longest wait for a link's rate before it is looked at again."""
ERROR_PAUSE_MS: Final = 50
"""Pause after partitions were refused, so that a lasting refusal does not spin."""

logger = logging.getLogger(__name__)


class Fetcher:
    """The long-poll loop of one source broker."""

    def __init__(
        self,
        context: LinkContext,
        source: DataSource,
        node_id: int,
        flows: Callable[[], Iterable[Flow]],
        confirmer: Confirmer,
        on_failure: Callable[[str | None], None],
    ) -> None:
        """`source` carries nothing but long polls; `confirmer` is the same broker's; `on_failure`
        hears why a poll failed, or None when the broker answers."""
        self._context = context
        self._source = source
        self._node_id = node_id
        self._flows = flows
        self._confirmer = confirmer
        self._on_failure = on_failure
        self._wake = asyncio.Event()
        self._back_off = BackOff(
            context.limits.back_off_ms_min, context.limits.back_off_ms_max, context.random
        )

    def wake(self) -> None:
        """A flow was added or has room again."""
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._wake.clear()
            asked, is_blocked = self._choose()
            if not asked:
                await self._wake.wait()
                continue
            try:
                await self._fetch(asked, is_blocked)
                self._back_off.reset()
                self._on_failure(None)
            except KafkaError as error:
                self._on_failure(str(error))
                self._context.directory.hurry()
                await self._context.clock.sleep(self._back_off.next_ms())

    def _choose(self) -> tuple[dict[TopicPartition, tuple[Flow, PartitionReplicator, int]], bool]:
        """What to ask for, and whether some flow waits for room."""
        asked: dict[TopicPartition, tuple[Flow, PartitionReplicator, int]] = {}
        is_blocked = False
        room = self._context.limits.pending_bytes_max
        for flow in self._flows():
            room -= flow.pending_bytes
            if flow.source_leader != self._node_id:
                continue
            is_blocked = is_blocked or flow.is_blocked
            replicator = flow.replicator
            if replicator is not None and flow.wants_fetch:
                asked[flow.source] = (flow, replicator, replicator.fetch_position)
        if room <= 0:
            return {}, True
        return asked, is_blocked

    async def _fetch(
        self,
        asked: dict[TopicPartition, tuple[Flow, PartitionReplicator, int]],
        is_blocked: bool,
    ) -> None:
        limits, rate = self._context.limits, self._context.rates.source
        while delay_ms := rate.delay_ms(self._context.clock.monotonic_ms()):
            # In short steps: the rate may be raised meanwhile.
            await self._context.clock.sleep(min(delay_ms, THROTTLE_STEP_MS))
        answers = await self._source.fetch(
            self._node_id,
            {
                at: FetchPosition(position, last_fetched_epoch=replicator.last_epoch)
                for at, (_, replicator, position) in asked.items()
            },
            wait_ms_max=BLOCKED_WAIT_MS if is_blocked else limits.fetch_wait_ms_max,
            bytes_max=limits.fetch_bytes_max,
            partition_bytes_max=limits.fetch_partition_bytes_max,
            isolation_level=READ_COMMITTED,
        )
        size_bytes = sum(len(answer.records) for answer in answers.values())
        rate.spend(size_bytes, self._context.clock.monotonic_ms())
        if self._context.origins is not None:
            await self._context.origins.learn(answer.records for answer in answers.values())
        refused = False
        for at, (flow, replicator, position) in asked.items():
            answer = answers.get(at)
            if answer is not None:
                refused = refused or bool(answer.error)
                if flow.on_fetched(replicator, position, answer):
                    self._confirmer.hold(flow, replicator)
        if refused:
            await self._context.clock.sleep(ERROR_PAUSE_MS)
