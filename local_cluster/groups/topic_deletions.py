"""Topics that are no more, whose committed positions must not be those of a new one. Pure.

A position in the log names its topic and not the topic's id, so that what it is of follows from
what this broker hears of the cluster while it leads the log:

    deleted, by its record                  its positions go
    another id under the name               what was committed until then goes
    not there, in a later state of a term   it was deleted: the record came and went between two
    whose controller vouches for all        states that this broker was told; its positions go
    not there otherwise                     kept, and its id as well, until the name is there again
    there, and not heard of before          kept, as in Kafka: whose they are cannot be known

The state by which this broker begins to lead a log tells of everything that the coordinators
before it knew when they wrote. So of what such a log holds, the positions in a topic that was
deleted and is not there are of the former one. Where it is there by then, under whatever id, they
may have been committed since, and are kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from local_cluster.controller.model.cluster_image import TopicState
    from local_cluster.controller.model.metadata_cache import Changes

ABSENT_TOPICS_MAX: Final = 100_000
"""Topics that are not there of which is remembered that there were; the oldest are forgotten."""


class FormerTopics:
    """Of one broker. Tell it every change, before the replicas are told."""

    def __init__(self) -> None:
        self._ids: dict[str, uuid.UUID] = {}
        """Of the topics that are there."""
        self._missing: dict[str, uuid.UUID] = {}
        """Ids of topics that were there, and of which nobody says that they were deleted."""
        self._deleted: dict[str, None] = {}
        """Deleted, and not there; in the order in which that was heard."""

    def hear(
        self, changes: Changes, topics: Mapping[str, TopicState], *, is_whole: bool
    ) -> frozenset[str]:
        """The topics whose positions in the logs that are led by now are of a former topic.

        `topics` are those after the change, `is_whole` says whether the controller vouches for
        their being all.
        """
        former: set[str] = set()
        for name in changes.deleted:
            # The record may be repeated after the name was taken again.
            if name not in topics:
                former.add(name)
        for name in changes.removed:
            topic_id = self._ids.get(name)
            if is_whole and not changes.is_first_of_term:
                former.add(name)
            elif topic_id is not None:
                self._missing[name] = topic_id
        for name in former | set(changes.removed):
            self._ids.pop(name, None)
        for name in former:
            self._missing.pop(name, None)
            self._deleted[name] = None
        for name in changes.topics:
            topic_id = topics[name].topic_id
            known = self._ids.get(name, self._missing.pop(name, topic_id))
            if known != topic_id:
                former.add(name)
            self._ids[name] = topic_id
            self._deleted.pop(name, None)
        for absent in (self._missing, self._deleted):
            while len(absent) > ABSENT_TOPICS_MAX:
                del absent[next(iter(absent))]
        return frozenset(former)

    @property
    def deleted(self) -> frozenset[str]:
        """Topics that were deleted, and are not there if the controller vouches for all."""
        return frozenset(self._deleted)
