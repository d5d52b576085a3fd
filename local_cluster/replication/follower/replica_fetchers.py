"""Fetches for the replicas that follow: what this broker follows, by the broker that leads it.

One connection and one task per leader (leader_fetches.py). A replica whose disk takes long over a
flush or over what a truncation left to do is fetched for by none of them until the disk is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from local_cluster.clock import Clock
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.network import OpenLine, open_line
from local_cluster.replication.follower.disk_waits import DiskWaits
from local_cluster.replication.follower.leader_fetches import FetchContext, LeaderFetches
from local_cluster.replication.partition import Partition
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.settings import BrokerSettings


class ReplicaFetchers:
    """Everything that this broker follows."""

    def __init__(
        self,
        settings: BrokerSettings,
        metadata: MetadataCache,
        clock: Clock,
        *,
        throttle: ReplicationThrottle,
        after_cut: Callable[[Partition, Deletion], Awaitable[None]],
        open_line: OpenLine = open_line,
    ) -> None:
        """`after_cut` removes what was cut off and makes the offset checkpoints durable."""
        self._disk_waits = DiskWaits(self._settled)
        self._context = FetchContext(
            settings, metadata, clock, throttle.follower, self._disk_waits, after_cut, open_line
        )
        self._leaders: dict[int, LeaderFetches] = {}
        self._stopped = False

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, in its present epoch."""
        if self._stopped:
            return
        for leader_id, other in self._leaders.items():
            if leader_id != partition.leader_id:
                other.remove(partition)
        leader = self._leaders.get(partition.leader_id)
        if leader is None:
            leader = LeaderFetches(self._context, partition.leader_id)
            self._leaders[partition.leader_id] = leader
        leader.add(partition)

    def leave(self, partition: Partition) -> None:
        """Fetch no more for a partition."""
        for leader in self._leaders.values():
            leader.remove(partition)

    def _settled(self, partition: Partition) -> None:
        for leader in self._leaders.values():
            leader.go_on(partition)

    async def stop(self) -> None:
        """Fetch nothing any more."""
        self._stopped = True
        leaders, self._leaders = list(self._leaders.values()), {}
        for leader in leaders:
            leader.task.cancel()
        await asyncio.gather(*(leader.task for leader in leaders), return_exceptions=True)
        await self._disk_waits.cancel()
