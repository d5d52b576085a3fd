"""The replicas of this broker that it cannot serve, as it reports them to the controller. Pure.

offline     the log ended with its directory, could not be opened, or may lie in a directory
            that cannot be read. It neither leads nor follows until a restart or a retry works
damaged     the log has a hole. It follows to be fetched again, and is reported until then
undeleted   the topic was deleted, but parts of it may lie in a directory that failed
"""

from __future__ import annotations

import logging
import uuid

from local_cluster.controller.model.cluster_image import ALL_WELL, ReplicaReport
from local_cluster.log.partition.partition_log import PartitionLog

Key = tuple[str, int]
"""Topic and partition."""

log = logging.getLogger(__name__)


class OfflineReplicas:
    """The replicas that are offline or damaged, and the topics that are not fully deleted."""

    def __init__(self) -> None:
        self._offline: dict[Key, str] = {}
        self._damaged: dict[Key, PartitionLog] = {}
        self._undeleted: set[uuid.UUID] = set()

    def reason(self, key: Key) -> str | None:
        """Return why a replica is offline, None if it is not."""
        return self._offline.get(key)

    @property
    def topics(self) -> frozenset[str]:
        """The names of the topics that have an offline replica here."""
        return frozenset(name for name, _ in self._offline)

    def set_offline(self, key: Key, reason: str) -> None:
        """Mark a replica offline, and log it if it was not."""
        if key not in self._offline:
            log.error("%s-%d is offline on this broker: %s", *key, reason)
        self._offline[key] = reason
        self._damaged.pop(key, None)

    def set_damaged(self, key: Key, replica_log: PartitionLog) -> None:
        """Mark a replica damaged for as long as its log is corrupt."""
        self._offline.pop(key, None)
        self._damaged[key] = replica_log

    def set_online(self, key: Key) -> None:
        """Unmark a replica that is served, or that was moved or deleted."""
        self._offline.pop(key, None)
        self._damaged.pop(key, None)

    def set_deleted(self, topic: str, topic_id: uuid.UUID, *, is_complete: bool) -> None:
        """Record the deletion of a topic. It is incomplete if a failed directory may hold parts."""
        if not is_complete:
            self._undeleted.add(topic_id)
            return
        self._undeleted.discard(topic_id)
        for key in [key for key in (*self._offline, *self._damaged) if key[0] == topic]:
            self.set_online(key)

    def report(self) -> ReplicaReport:
        """Return the whole report for the controller."""
        if not (self._offline or self._damaged or self._undeleted):
            return ALL_WELL
        damaged = [key for key, each in self._damaged.items() if each.corruption is not None]
        return ReplicaReport(frozenset((*self._offline, *damaged)), frozenset(self._undeleted))
