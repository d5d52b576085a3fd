"""Tells the controller when what this broker can serve has changed: a disk failed, a log is whole.

The word is Kafka's: a znode under /log_dir_event_notification, written again until ZooKeeper takes
it. The controller then sends every broker its image, and the answer names what is offline; so does
every other answer, so that a new controller knows without being told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from local_cluster.controller.model.cluster_image import ReplicaReport
from local_cluster.controller.zk.coordination import CommitConflict, CoordinationUnavailable
from local_cluster.replication.replica_set import ReplicaSet

CHECK_SECONDS: Final = 5.0
"""How often the replicas are looked at without a cause."""
RETRY_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class OfflineReporter:
    """Watches the replicas of one broker. `start` and `stop` it on the loop."""

    def __init__(self, replicas: ReplicaSet, announce: Callable[[], Awaitable[None]]) -> None:
        """`announce` tells the controller to ask; raises CoordinationUnavailable or
        CommitConflict."""
        self._replicas = replicas
        self._announce = announce
        self._announced = ReplicaReport()
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="replica watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def look(self) -> None:
        """Something failed: look at once."""
        self._look.set()

    async def _run(self) -> None:
        while True:
            self._look.clear()
            self._replicas.take_failed_offline()
            report = self._replicas.report()
            seconds = CHECK_SECONDS
            if report != self._announced:
                try:
                    await self._announce()
                    self._announced = report
                except (CoordinationUnavailable, CommitConflict) as error:
                    _log.warning("the controller is told later what is offline here: %s", error)
                    seconds = RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._look.wait()
