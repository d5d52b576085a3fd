"""Asks the controller to look again when the offline replicas of this broker have changed.

The request is Kafka's: a znode under /log_dir_event_notification, written again until ZooKeeper
accepts it. The controller then sends every broker its image, and each response names the offline
replicas. All other responses name them too, so a new controller learns them without a znode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from local_cluster.controller.model.cluster_image import ReplicaReport
from local_cluster.controller.zk.coordination import CommitConflict, CoordinationUnavailable
from local_cluster.periodic import Periodic
from local_cluster.replication.replica_set import ReplicaSet

CHECK_INTERVAL_MS: Final = 5_000
"""How often the replicas are checked without a trigger."""
RETRY_MS: Final = 1_000


class OfflineReporter:
    """Reports the offline replicas of one broker. Call `start` and `stop` on the loop."""

    def __init__(self, replicas: ReplicaSet, announce: Callable[[], Awaitable[None]]) -> None:
        """`announce` writes the znode. Raises CoordinationUnavailable or CommitConflict."""
        self._replicas = replicas
        self._announce = announce
        self._announced = ReplicaReport()
        self._checks = Periodic(
            "report of offline replicas",
            self._check,
            interval_ms=CHECK_INTERVAL_MS,
            backoff_ms_min=RETRY_MS,
            backoff_ms_max=RETRY_MS,
            expected_errors=(CoordinationUnavailable, CommitConflict),
            runs_at_start=True,
        )

    def start(self) -> None:
        self._checks.start()

    async def stop(self) -> None:
        await self._checks.stop()

    def check_soon(self) -> None:
        """Check without waiting for the interval: something failed."""
        self._checks.trigger()

    async def _check(self) -> None:
        self._replicas.take_failed_offline()
        report = self._replicas.report()
        if report != self._announced:
            await self._announce()
            self._announced = report
