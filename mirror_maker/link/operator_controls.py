"""What operators told a link: written to its map topic and its journal, read there by every worker,
and done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.throttle import Rates
from mirror_maker.formats.controls import Controls
from mirror_maker.periodic import PeriodicWork, pause_of
from mirror_maker.ports import Clock
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.link_stores import LinkStores

logger = logging.getLogger(__name__)


class Controlling:
    """An operator's will about one link; `run` until cancelled."""

    def __init__(
        self,
        settings: LinkSettings,
        flows: Collection[TopicPartition],
        known: Callable[[], Collection[TopicPartition]],
        on_told: Callable[[], None],
        on_ordered: Callable[[TopicPartition], None],
        *,
        stores: LinkStores,
        rates: Rates,
        clock: Clock,
        controls_ms: int,
        backoff: Backoff,
    ) -> None:
        """`flows` are this worker's part of what is `known`; `on_told` hears that something else
        was said than before, `on_ordered` that a repair of a partition was ordered."""
        self._settings = settings
        self._map_store = stores.map_store
        self._journal = stores.journal
        self._rates = rates
        self._clock = clock
        self._flows = flows
        self._known = known
        self._on_told = on_told
        self._on_ordered = on_ordered
        self._controls = Controls()
        self.run = PeriodicWork(
            self.follow,
            link=settings.name,
            what_failed="controls not read",
            pause=pause_of(clock, controls_ms),
            backoff=backoff,
        ).run

    async def control(self, change: Callable[[Controls], Controls]) -> Controls:
        """Change what the link was told; other workers follow within `controls_ms`.

        Raises KafkaError where it could not be written, and what `change` raises.
        """
        store = self._map_store
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
        store = self._map_store
        if not store.is_open:
            return
        await store.catch_up()
        await self._follow_orders()
        controls, settings = store.state.controls, self._settings
        # This worker's part of the rate is its part of the partitions.
        known = self._known()
        share = min(1.0, len(self._flows) / len(known)) if known else 1.0
        now_ms = self._clock.monotonic_ms()
        for throttle, told, default in (
            (
                self._rates.source,
                controls.source_bytes_per_second,
                settings.source_bytes_per_second,
            ),
            (
                self._rates.target,
                controls.target_bytes_per_second,
                settings.target_bytes_per_second,
            ),
        ):
            throttle.set_rate((default if told is None else told) * share, now_ms)
        if controls != self._controls:
            logger.info("link %s: told %s", settings.name, controls)
        if controls is not self._controls:
            # Even if it says the same: others read the map topic too, and may have acted on
            # something that was said in between.
            self._controls = controls
            self._on_told()

    async def _follow_orders(self) -> None:
        """The journal has them. Any worker may have written them, or had them read before."""
        journal = self._journal
        await journal.catch_up()
        for topic, partition in sorted(journal.state.take_ordered()):
            self._on_ordered(TopicPartition(topic, partition))
