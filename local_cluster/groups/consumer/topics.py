"""What the coordinator has to know of topics: ids, partitions, and whether anything changed."""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class TopicFacts(NamedTuple):
    """One topic of the cluster."""

    name: str
    topic_id: uuid.UUID
    partitions: int


class Topics(Protocol):
    """The topics of the cluster as this broker knows them."""

    @property
    def version(self) -> int:
        """Grows with every change."""
        ...

    def get(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None: ...

    def names(self) -> Iterable[str]: ...


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """A number that differs when one of the topics comes, goes, or gets partitions; 0 for none.

    Kafka's hash is another one (and knows racks): it is compared only with one's own.
    """
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        facts = topics.get(name)
        if facts is not None:
            found = True
            digest.update(facts.topic_id.bytes + struct.pack(">i", facts.partitions))
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


class NoTopics:
    """A cluster without topics."""

    version = 0

    def get(self, name: str) -> TopicFacts | None:
        return None

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return None

    def names(self) -> Iterable[str]:
        return ()
