"""Tells the parts of a broker what changed in the cluster: each of them, whatever befalls another.

What changed is said once. A part that was not told because one before it failed would miss it:
partitions would have no leader here, groups no coordinator. So a failure is logged with where it
came from, the others are told, and then the change counts as not taken up (KafkaError): whoever
made it known does not hear that it was, and says all that is so again. With that, or the next
change, the part that failed is told once more what it has not taken up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.replication.replica_set import LeadershipListener
from local_cluster.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

ChangeListener = Callable[[Changes], None]


class MetadataListeners:
    """Of one broker, by the names of its parts, in the order in which they are told."""

    def __init__(
        self,
        of_changes: Mapping[str, ChangeListener],
        of_leadership: Mapping[str, LeadershipListener],
    ) -> None:
        self._of_changes = of_changes
        self._of_leadership = of_leadership
        self._failed: list[str] = []
        """Over the change that is being told."""
        self._untaken: dict[str, Changes] = {}
        """By part, since it last took up what it was told."""

    def tell(self, changes: Changes) -> None:
        """Raises KafkaError(unknown_server_error) when all were told, and one has failed."""
        self._failed.clear()
        for name, listener in self._of_changes.items():
            untaken = self._untaken.pop(name, None)
            told = changes if untaken is None else changes.after(untaken)
            try:
                listener(told)
            except Exception:  # noqa: BLE001 - whatever it is, the others are told
                self._untaken[name] = told
                self._note(name, "a change of the cluster")
        if self._failed:
            raise KafkaError(
                ErrorCode.unknown_server_error,
                f"a change of the cluster was not taken up by {', '.join(self._failed)}",
            )

    def tell_leadership(self, topic: str, partition: int, leads: bool) -> None:
        """This broker begins or ends to lead. Where that follows from a change that is being told
        (the replicas take it up), a failure is one over that change. It is not told twice."""
        for name, listener in self._of_leadership.items():
            try:
                listener(topic, partition, leads)
            except Exception:  # noqa: BLE001 - as above, and the other partitions have to be led
                what = "the begin" if leads else "the end"
                self._note(name, f"{what} of leading {topic}-{partition}")

    def _note(self, name: str, what: str) -> None:
        """In an `except`: log what is being handled."""
        _log.exception("%s failed over %s", name, what)
        if name not in self._failed:
            self._failed.append(name)
