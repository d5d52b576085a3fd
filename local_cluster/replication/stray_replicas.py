"""Stray logs: their topic was deleted while this broker was away (KAFKA-7362). Pure.

A broker may come back with the log of a replica that it is never asked to delete: the replica had
been moved to other brokers, so the deletion of the topic did not wait for this one. Such a log is
set aside as `<topic>-<partition>.<topic id>-stray`.

    metadata                          log
    topic is missing                  stray, if the metadata has all topics (see below)
    there is no topic at all          kept: a lost ZooKeeper looks the same
    topic has another topic id        set aside at once, by replica_set.py
    topic names other replicas        deleted by replica_set.py: that is a positive record
    topic lacks the partition         kept: partitions are never removed, so something is wrong

A log without a topic id is kept, because its topic is unknown.

Strays are looked for once per controller epoch, at the first metadata of that epoch, if
- the log directories are known to belong to this cluster,
- ZooKeeper answers this broker,
- the controller vouches for every topic (`ClusterImage.is_whole`).
If one of these comes later, the first metadata change after it triggers the search.

Not here: how long a stray is kept (server/housekeeping.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.log.partition.partition_log import PartitionLog


class StrayReplicas:
    """Decides when stray logs are set aside. Call `apply` after the replicas took up a change."""

    def __init__(
        self,
        logs: Iterable[PartitionLog],
        metadata: MetadataCache,
        *,
        set_aside: Callable[[PartitionLog], None],
        is_connected: Callable[[], bool],
    ) -> None:
        """`logs` are all logs of this broker. `is_connected`: whether ZooKeeper answers it."""
        self._logs = logs
        self._metadata = metadata
        self._set_aside = set_aside
        self._is_connected = is_connected
        self._is_bound = False
        self._is_due = False

    def directories_bound(self) -> None:
        """Note that the log directories belong to this cluster."""
        self._is_bound = True
        self._set_strays_aside()

    def apply(self, changes: Changes) -> None:
        """Look for strays if this change makes it due."""
        self._is_due = self._is_due or changes.is_first_of_term
        self._set_strays_aside()

    def _set_strays_aside(self) -> None:
        if self._is_due and self._is_bound and self._metadata.is_whole and self._is_connected():
            self._is_due = False
            for log in find_strays(self._logs, self._metadata.topics):
                self._set_aside(log)


def find_strays(
    logs: Iterable[PartitionLog], topics: Mapping[str, TopicState]
) -> list[PartitionLog]:
    """Return the logs whose topic is missing."""
    if not topics:
        return []
    return [log for log in logs if log.topic_id is not None and log.topic not in topics]
