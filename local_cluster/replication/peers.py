"""The brokers that hold the other replicas, as the metadata cache knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from local_cluster.clock import Clock
from local_cluster.controller.model.cluster_image import BrokerEndpoints
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.replication.partition import Partition


class LivePeers:
    """What all partitions of a broker have as their `Peers`."""

    def __init__(
        self,
        broker_id: int,
        lag_ms_max: int,
        cache: MetadataCache,
        clock: Clock,
        isr_may_change: Callable[[Partition], None],
    ) -> None:
        self.broker_id = broker_id
        self.lag_ms_max = lag_ms_max
        self._cache = cache
        self._clock = clock
        self._isr_may_change = isr_may_change
        self._epochs_of: Mapping[int, BrokerEndpoints] = {}
        self._epochs: Mapping[int, int] = {}

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def broker_epochs(self) -> Mapping[int, int]:
        """Of the live brokers."""
        if self._epochs_of is not self._cache.brokers:
            self._epochs_of = self._cache.brokers
            self._epochs = {each.id: each.broker_epoch for each in self._epochs_of.values()}
        return self._epochs

    def isr_may_change(self, partition: Partition) -> None:
        self._isr_may_change(partition)
