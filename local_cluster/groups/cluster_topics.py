"""The metadata of this broker as KIP-848 groups see it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from local_cluster.groups.consumer.topics import TopicFacts

if TYPE_CHECKING:
    from local_cluster.controller.model.cluster_image import TopicState
    from local_cluster.controller.model.metadata_cache import MetadataCache


class ClusterTopics:
    """Topics of the cluster, with a version that grows when the metadata is another one."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._seen: object = None
        self._version = 0

    @property
    def version(self) -> int:
        """Grows with every image of the metadata that was looked at."""
        if self._seen is not self._metadata.topics:
            self._seen = self._metadata.topics
            self._version += 1
        return self._version

    def get(self, name: str) -> TopicFacts | None:
        """One topic by name."""
        return _facts(self._metadata.topics.get(name))

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        """One topic by id."""
        return _facts(self._metadata.topic_by_id(topic_id))

    def names(self) -> Iterable[str]:
        """All topics."""
        return self._metadata.topics.keys()


def _facts(topic: TopicState | None) -> TopicFacts | None:
    return None if topic is None else TopicFacts(topic.name, topic.topic_id, len(topic.partitions))
