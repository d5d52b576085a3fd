"""An operator's orders to a link: written to its map topic and its journal, read by every worker,
and carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.throttle import Rates
from mirror_maker.formats.controls import Controls
from mirror_maker.periodic import PeriodicTask, pause_of
from mirror_maker.ports import Clock
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.link_stores import LinkStores

log = logging.getLogger(__name__)


class OperatorControls:
    """The orders to one link; `run` until cancelled."""

    def __init__(
        self,
        settings: LinkSettings,
        flows: Collection[TopicPartition],
        known: Callable[[], Collection[TopicPartition]],
        on_changed: Callable[[], None],
        on_ordered: Callable[[TopicPartition], None],
        *,
        stores: LinkStores,
        rates: Rates,
        clock: Clock,
        controls_ms: int,
        backoff: Backoff,
    ) -> None:
        """`flows` are this worker's part of what is `known`. `on_changed` is called for a new
        order, `on_ordered` for a repair of a partition.
        """
        self._settings = settings
        self._map_store = stores.map_store
        self._journal = stores.journal
        self._rates = rates
        self._clock = clock
        self._flows = flows
        self._known = known
        self._on_changed = on_changed
        self._on_ordered = on_ordered
        self._controls = Controls()
        self.run = PeriodicTask(
            self.follow,
            link=settings.name,
            what_failed="controls not read",
            pause=pause_of(clock, controls_ms),
            backoff=backoff,
        ).run

    async def control(self, change: Callable[[Controls], Controls]) -> Controls:
        """Change the orders; other workers follow within `controls_ms`.

        Raises KafkaError if they could not be written, and what `change` raises.
        """
        store = self._map_store
        if not store.is_open:
            raise KafkaError(ErrorCode.coordinator_not_available, "the link has not started yet")
        await store.catch_up()
        controls = change(store.state.controls)
        await store.append([controls])
        await self.follow()
        return controls

    async def follow(self) -> None:
        """Read the last orders and carry them out; do nothing before the link is open.

        Raises KafkaError.
        """
        store = self._map_store
        if not store.is_open:
            return
        await store.catch_up()
        await self._follow_orders()
        controls, settings = store.state.controls, self._settings
        # This worker's share of the rate is its share of the partitions.
        known = self._known()
        share = min(1.0, len(self._flows) / len(known)) if known else 1.0
        now_ms = self._clock.monotonic_ms()
        for throttle, ordered, default in (
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
            throttle.set_rate((default if ordered is None else ordered) * share, now_ms)
        if controls != self._controls:
            log.info("link %s: an operator ordered %s", settings.name, controls)
        if controls is not self._controls:
            # Even if the orders are equal: others read the map topic too, and may have acted on an
            # order in between.
            self._controls = controls
            self._on_changed()

    async def _follow_orders(self) -> None:
        """Follow repair orders in the journal, which any worker may have written or read before."""
        journal = self._journal
        await journal.catch_up()
        for topic, partition in sorted(journal.state.take_ordered()):
            self._on_ordered(TopicPartition(topic, partition))
