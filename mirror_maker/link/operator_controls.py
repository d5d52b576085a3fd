"""What operators told a link: written to its map topic and its journal, read there by every worker,
and done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.formats.controls import Controls
from mirror_maker.periodic import PeriodicTask

log = logging.getLogger(__name__)


class OperatorControls:
    """An operator's will about one link; `run` until cancelled."""

    def __init__(
        self,
        context: LinkContext,
        flows: Collection[TopicPartition],
        known: Callable[[], Collection[TopicPartition]],
        on_told: Callable[[], None],
        on_ordered: Callable[[TopicPartition], None],
    ) -> None:
        """`flows` are this worker's part of what is `known`; `on_told` hears that something else
        was said than before, `on_ordered` that a repair of a partition was ordered."""
        self._context = context
        self._flows = flows
        self._known = known
        self._on_told = on_told
        self._on_ordered = on_ordered
        self._controls = Controls()
        self._rounds = PeriodicTask(
            context,
            self.follow,
            what_failed="controls not read",
            pause_ms=context.limits.controls_ms,
        )
        self.run = self._rounds.run

    async def control(self, change: Callable[[Controls], Controls]) -> Controls:
        """Change what the link was told; other workers follow within `controls_ms`.

        Raises KafkaError where it could not be written, and what `change` raises.
        """
        store = self._context.map_store
        if not store.is_open:
            raise KafkaError(ErrorCode.coordinator_not_available, "the link has not begun")
        await store.catch_up()
        controls = change(store.state.controls)
        await store.append([controls])
        await self.follow()
        return controls

    async def follow(self) -> None:
        """Read what the link was told last, and do it; nothing where it has not begun.

        Raises KafkaError.
        """
        store = self._context.map_store
        if not store.is_open:
            return
        await store.catch_up()
        await self._follow_orders()
        controls, settings = store.state.controls, self._context.settings
        # This worker's part of the rate is its part of the partitions.
        known = self._known()
        share = min(1.0, len(self._flows) / len(known)) if known else 1.0
        now_ms = self._context.clock.monotonic_ms()
        for throttle, told, default in (
            (
                self._context.rates.source,
                controls.source_bytes_per_second,
                settings.source_bytes_per_second,
            ),
            (
                self._context.rates.target,
                controls.target_bytes_per_second,
                settings.target_bytes_per_second,
            ),
        ):
            throttle.set_rate((default if told is None else told) * share, now_ms)
        if controls != self._controls:
            log.info("link %s: told %s", settings.name, controls)
        if controls is not self._controls:
            # Even if it says the same: others read the map topic too, and may have acted on
            # something that was said in between.
            self._controls = controls
            self._on_told()

    async def _follow_orders(self) -> None:
        """The journal has them. Any worker may have written them, or had them read before."""
        journal = self._context.gap_store
        await journal.catch_up()
        for topic, partition in sorted(journal.state.take_ordered()):
            self._on_ordered(TopicPartition(topic, partition))
