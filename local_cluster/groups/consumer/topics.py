"""The topics of the cluster as consumer groups see them: ids, partitions, and a change detector."""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from local_cluster.controller.model.cluster_image import TopicState
    from local_cluster.controller.model.metadata_cache import MetadataCache


class TopicFacts(NamedTuple):
    """One topic of the cluster."""

    name: str
    topic_id: uuid.UUID
    partitions: int


class Topics(Protocol):
    """The topics of the cluster as this broker knows them."""

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        ...

    def get(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None: ...

    def names(self) -> Iterable[str]: ...


class ClusterTopics:
    """The topics in the metadata of this broker."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._seen: object = None
        self._version = 0

    @property
    def version(self) -> int:
        """A number that grows with every metadata image that is read."""
        if self._seen is not self._metadata.topics:
            self._seen = self._metadata.topics
            self._version += 1
        return self._version

    def get(self, name: str) -> TopicFacts | None:
        return _facts(self._metadata.topics.get(name))

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return _facts(self._metadata.topic_by_id(topic_id))

    def names(self) -> Iterable[str]:
        return self._metadata.topics.keys()


class NoTopics:
    """A cluster without topics."""

    version = 0

    def get(self, name: str) -> TopicFacts | None:
        return None

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """Return a number that differs when a topic appears, disappears or gets partitions; 0: none.

    It is not Kafka's hash, which knows racks: it is only compared with numbers of this function.
    """
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        facts = topics.get(name)
        if facts is not None:
            found = True
            digest.update(facts.topic_id.bytes + struct.pack(">i", facts.partitions))
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def _facts(topic: TopicState | None) -> TopicFacts | None:
    return None if topic is None else TopicFacts(topic.name, topic.topic_id, len(topic.partitions))
