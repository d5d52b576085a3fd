"""What of this broker's replicas is not served, and what the controller is told of it. Pure.

offline     the log ended with its directory, could not be opened, or may lie where nothing can
            be read; neither led nor followed until a restart or a look at it succeeds
damaged     the log has a hole; it follows to be fetched anew, and is told until it is whole
undeleted   the topic was deleted, and something of it may lie where it cannot be reached
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from local_cluster.controller.model.cluster_image import ALL_WELL, ReplicaReport

if TYPE_CHECKING:
    from local_cluster.replication.partition import Partition

Key = tuple[str, int]
"""Topic and partition."""

_log = logging.getLogger(__name__)


class OfflineReplicas:
    """Kept by the replica set, which acts on it."""

    def __init__(self) -> None:
        self._offline: dict[Key, str] = {}
        self._damaged: dict[Key, Partition] = {}
        self._undeleted: set[uuid.UUID] = set()

    def reason(self, key: Key) -> str | None:
        """Why a replica is offline, None where it is not."""
        return self._offline.get(key)

    @property
    def offline_topics(self) -> frozenset[str]:
        """Names of topics of which a replica is offline."""
        return frozenset(name for name, _ in self._offline)

    def set_offline(self, key: Key, reason: str) -> None:
        """Note it, and say so once."""
        if key not in self._offline:
            _log.error("%s-%d is offline here: %s", *key, reason)
        self._offline[key] = reason
        self._damaged.pop(key, None)

    def set_damaged(self, key: Key, partition: Partition) -> None:
        """Note it for as long as the log has its hole."""
        self._offline.pop(key, None)
        self._damaged[key] = partition

    def set_well(self, key: Key) -> None:
        """It is served, or is none of this broker's any more."""
        self._offline.pop(key, None)
        self._damaged.pop(key, None)

    def topic_deleted(self, topic: str, topic_id: uuid.UUID, *, is_whole: bool) -> None:
        """A topic was deleted here; not all of it where something may be out of reach."""
        if not is_whole:
            self._undeleted.add(topic_id)
            return
        self._undeleted.discard(topic_id)
        for key in [key for key in (*self._offline, *self._damaged) if key[0] == topic]:
            self.set_well(key)

    def report(self) -> ReplicaReport:
        """All of it, for the controller."""
        if not (self._offline or self._damaged or self._undeleted):
            return ALL_WELL
        damaged = [key for key, each in self._damaged.items() if each.log.corruption is not None]
        return ReplicaReport(frozenset((*self._offline, *damaged)), frozenset(self._undeleted))
