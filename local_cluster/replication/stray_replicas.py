"""When logs of topics that are no more are set aside: once a term, and never in doubt.

Looked for with the first state that this broker hears of a controller's term, if then
- the log directories are known to be of this cluster,
- ZooKeeper answers this broker,
- the controller vouches for every topic (`ClusterImage.is_whole`);
where one of these comes later, with the first change after it.

Not here: what is a stray (replication/strays.py), how long it is kept (housekeeping.py).
"""

from __future__ import annotations

from collections.abc import Callable

from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.replication.replica_set import ReplicaSet


class StrayReplicas:
    """Of one broker. Tell it every change, after the replicas were told."""

    def __init__(
        self, replicas: ReplicaSet, metadata: MetadataCache, is_connected: Callable[[], bool]
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._is_connected = is_connected
        self._is_ours = False
        self._is_due = False

    def directories_bound(self) -> None:
        """The log directories are this cluster's."""
        self._is_ours = True
        self._look()

    def heard(self, changes: Changes) -> None:
        """The controller said something, and the replicas are as it said."""
        self._is_due = self._is_due or changes.is_first_of_term
        self._look()

    def _look(self) -> None:
        if self._is_due and self._is_ours and self._metadata.is_whole and self._is_connected():
            self._is_due = False
            self._replicas.set_strays_aside()
