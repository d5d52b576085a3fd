"""The other brokers, as the leader of a partition must know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from local_cluster.clock import Clock
from local_cluster.controller.model.cluster_image import BrokerEndpoints
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.replication.in_sync import LiveBrokers


class Peers(Protocol):
    """The port of a partition to its cluster."""

    @property
    def broker_id(self) -> int:
        """The id of this broker."""
        ...

    def live(self) -> LiveBrokers: ...

    def monotonic_ms(self) -> int: ...

    def isr_may_expand(self) -> None:
        """A follower of some partition may join: `Partition.decide_isr` has a proposal."""
        ...


class MetadataPeers:
    """The peers in the metadata cache. All partitions of a broker share them."""

    def __init__(
        self,
        broker_id: int,
        lag_ms_max: int,
        cache: MetadataCache,
        clock: Clock,
        isr_may_expand: Callable[[], None],
    ) -> None:
        self.broker_id = broker_id
        self._lag_ms_max = lag_ms_max
        self._cache = cache
        self._clock = clock
        self._isr_may_expand = isr_may_expand
        self._epochs_of: Mapping[int, BrokerEndpoints] = {}
        self._epochs: Mapping[int, int] = {}

    def live(self) -> LiveBrokers:
        if self._epochs_of is not self._cache.brokers:
            self._epochs_of = self._cache.brokers
            self._epochs = {each.id: each.broker_epoch for each in self._epochs_of.values()}
        return LiveBrokers(self._clock.monotonic_ms(), self._lag_ms_max, self._epochs)

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def isr_may_expand(self) -> None:
        self._isr_may_expand()
