"""Detects deleted and re-created topics, so that a new topic inherits no committed offsets. Pure.

An offset in the log names its topic by name, not by id. So this broker has to decide, from the
metadata changes it receives while it leads the log, which committed offsets belong to a deleted
topic:

    a deletion record                         delete the topic's committed offsets
    another topic id under the name           delete what was committed before
    absent, in a later state of the same      deleted: the deletion record came and went between two
    controller term with complete metadata    states that this broker received; delete
    absent otherwise                          keep the offsets, and the id until the name returns
    present for the first time                keep, as in Kafka: the topic of the offsets is unknown

The state at which this broker starts to lead a log contains everything that earlier coordinators
knew when they wrote to it. So if a topic was deleted and is absent then, the log's offsets in it
belong to the deleted topic. If the name is present by then, with any id, they may have been
committed to the present topic, and are kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from local_cluster.controller.model.cluster_image import TopicState
    from local_cluster.controller.model.metadata_cache import Changes

ABSENT_TOPICS_MAX: Final = 100_000
"""Absent topics that are remembered; the oldest are forgotten."""


class TopicDeletions:
    """The topics that this broker has seen, and those that were deleted or are missing.

    `apply` must see every change, before replicas act on it.
    """

    def __init__(self) -> None:
        self._ids: dict[str, uuid.UUID] = {}
        """Ids of the present topics."""
        self._missing: dict[str, uuid.UUID] = {}
        """Ids of absent topics without evidence of a deletion."""
        self._deleted: dict[str, None] = {}
        """Deleted and absent topics, in the order of their deletion."""

    def apply(
        self, changes: Changes, topics: Mapping[str, TopicState], *, is_whole: bool
    ) -> frozenset[str]:
        """Return the topics whose committed offsets must go from the logs that are led now.

        `topics` is the metadata after the change; with `is_whole` the controller guarantees that
        it is complete.
        """
        deleted: set[str] = set()
        for name in changes.deleted:
            # A deletion record may be repeated after the topic was re-created.
            if name not in topics:
                deleted.add(name)
        for name in changes.removed:
            topic_id = self._ids.get(name)
            if is_whole and not changes.is_first_of_term:
                deleted.add(name)
            elif topic_id is not None:
                self._missing[name] = topic_id
        for name in deleted | set(changes.removed):
            self._ids.pop(name, None)
        for name in deleted:
            self._missing.pop(name, None)
            self._deleted[name] = None
        for name in changes.topics:
            topic_id = topics[name].topic_id
            known = self._ids.get(name, self._missing.pop(name, topic_id))
            if known != topic_id:
                deleted.add(name)
            self._ids[name] = topic_id
            self._deleted.pop(name, None)
        for absent in (self._missing, self._deleted):
            while len(absent) > ABSENT_TOPICS_MAX:
                del absent[next(iter(absent))]
        return frozenset(deleted)

    @property
    def absent(self) -> frozenset[str]:
        """The deleted topics that are absent, provided that the metadata is complete."""
        return frozenset(self._deleted)
