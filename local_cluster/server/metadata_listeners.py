"""Passes metadata changes to the parts of a broker: to each of them, even if another one raises.

A change is passed once. A part that missed it would lack leaders or coordinators. So a failure is
logged with its traceback, and the other parts get the change. Then the change counts as not
acknowledged (KafkaError), and the controller sends the full image again. With that, or with the
next change, the part that failed gets what it has missed once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.replication.replica_set import LeadershipListener
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

MetadataListener = Callable[[Changes], None]


class MetadataListeners:
    """The listeners of one broker by the names of its parts, in the order of the calls."""

    def __init__(
        self,
        of_metadata: Mapping[str, MetadataListener],
        of_leadership: Mapping[str, LeadershipListener],
    ) -> None:
        self._of_metadata = of_metadata
        self._of_leadership = of_leadership
        self._failed: list[str] = []
        """The parts that failed over the present change."""
        self._missed: dict[str, Changes] = {}
        """By part, the changes since its last success."""

    def notify(self, changes: Changes) -> None:
        """Pass a change to every part.

        Raises KafkaError(unknown_server_error) afterwards if one of them failed.
        """
        self._failed.clear()
        for name, listener in self._of_metadata.items():
            missed = self._missed.pop(name, None)
            passed = changes if missed is None else changes.after(missed)
            try:
                listener(passed)
            except Exception:  # noqa: BLE001 - the other parts get the change
                self._missed[name] = passed
                self._record_failure(name, "a metadata change")
        if self._failed:
            raise KafkaError(
                ErrorCode.unknown_server_error,
                f"a metadata change failed in {', '.join(self._failed)}",
            )

    def notify_leadership(self, topic: str, partition: int, is_leader: bool) -> None:
        """Pass on that this broker starts or stops leading a partition.

        If the present metadata change caused it, a failure counts as a failure of that change.
        It is not passed again.
        """
        for name, listener in self._of_leadership.items():
            try:
                listener(topic, partition, is_leader)
            except Exception:  # noqa: BLE001 - as above, and the other partitions need leaders
                what = "start" if is_leader else "end"
                self._record_failure(name, f"the {what} of leadership of {topic}-{partition}")

    def _record_failure(self, name: str, event: str) -> None:
        """Log the exception that is being handled."""
        log.exception("%s failed over %s", name, event)
        if name not in self._failed:
            self._failed.append(name)
