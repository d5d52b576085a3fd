"""The replicas that this broker follows, by the broker that leads them.

There is one connection and one task per leader (replica_fetcher.py). The disk of a replica may take
long over a flush, or over the end of a truncation. No fetch then names the replica until the disk
is done, whichever broker leads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from local_cluster.clock import Clock
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.network import ConnectToPeer, connect_to_peer
from local_cluster.replication.follower.replica_fetcher import (
    FetchContext,
    FetchDelays,
    ReplicaFetcher,
)
from local_cluster.replication.follower.slow_disks import SlowDisks
from local_cluster.replication.partition import Partition
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.settings import BrokerSettings


class FollowedReplicas:
    """All fetchers of this broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        metadata: MetadataCache,
        clock: Clock,
        *,
        throttle: ReplicationThrottle,
        after_truncation: Callable[[Partition, Deletion], Awaitable[None]],
        connect: ConnectToPeer = connect_to_peer,
        delays: FetchDelays | None = None,
    ) -> None:
        """`after_truncation` deletes truncated files and makes the checkpoints durable."""
        self._slow_disks = SlowDisks(self._disk_ready)
        self._context = FetchContext(
            settings,
            metadata,
            clock,
            throttle.follower,
            self._slow_disks,
            after_truncation,
            connect,
            delays or FetchDelays(),
        )
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._is_stopped = False

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, in its present epoch."""
        if self._is_stopped:
            return
        for leader_id, other in self._fetchers.items():
            if leader_id != partition.leader_id:
                other.remove(partition)
        fetcher = self._fetchers.get(partition.leader_id)
        if fetcher is None:
            fetcher = ReplicaFetcher(self._context, partition.leader_id)
            self._fetchers[partition.leader_id] = fetcher
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching for a partition."""
        for fetcher in self._fetchers.values():
            fetcher.remove(partition)

    def _disk_ready(self, partition: Partition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.resume(partition)

    async def stop(self) -> None:
        """Stop all fetchers."""
        self._is_stopped = True
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        for fetcher in fetchers:
            fetcher.task.cancel()
        await asyncio.gather(*(fetcher.task for fetcher in fetchers), return_exceptions=True)
        await self._slow_disks.cancel()
