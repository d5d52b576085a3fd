"""What may hold back one flow: an operator, an unwritten map, the link's rate, a lost lease."""

from __future__ import annotations

from local_cluster.client.model import TopicPartition
from mirror_maker.clusters.throttle import Throttle
from mirror_maker.formats import MapTopic
from mirror_maker.ports import Clock, Lease
from mirror_maker.stores.map_write_health import MapWrites


class CopyPermit:
    """Whether one flow may fetch and write now."""

    def __init__(
        self,
        source: TopicPartition,
        *,
        state: MapTopic,
        map_writes: MapWrites,
        target_rate: Throttle,
        lease: Lease,
        clock: Clock,
    ) -> None:
        """`state` has the operator's controls; `target_rate` is the link's rate of writing."""
        self._source = source
        self._state = state
        self._map_writes = map_writes
        self._target_rate = target_rate
        self._lease = lease
        self._clock = clock

    @property
    def is_paused(self) -> bool:
        """Whether an operator paused the partition. What was fetched is still written."""
        return self._state.controls.pauses(*self._source)

    @property
    def may_fetch(self) -> bool:
        """Whether it is not paused, and not too much of the link waits to be mapped."""
        return not self.is_paused and not self._map_writes.is_overdue

    @property
    def has_lease(self) -> bool:
        return self._lease.is_valid()

    def write_delay_ms(self) -> int:
        """Return how long until the link's rate allows a write; 0 is now."""
        return self._target_rate.delay_ms(self._clock.monotonic_ms())

    def spend(self, size_bytes: int) -> None:
        """Count a write against the link's rate."""
        self._target_rate.spend(size_bytes, self._clock.monotonic_ms())
