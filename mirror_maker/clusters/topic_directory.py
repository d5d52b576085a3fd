"""Topic ids and leaders of both clusters, as a link's discovery last saw them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from uuid import UUID

from local_cluster.client.model import PartitionMetadata, TopicMetadata, TopicPartition
from local_cluster.wire.errors import ErrorCode
from mirror_maker.clusters.source_listing import SourceListing
from mirror_maker.formats.records import NO_TOPIC_ID

Topics = Mapping[str, TopicMetadata]


class Directory:
    """The read model of discovery; `hurry` requests a new round."""

    def __init__(self) -> None:
        self.source: Topics = {}
        self.target: Topics = {}
        self.hidden_source: Set[str] = frozenset()
        """Topics that the mirror may not describe at the source, so it is unknown whether they
        exist."""
        self.listing = SourceListing()
        self.is_loaded = False
        self.asked = asyncio.Event()
        """Set when a caller cannot wait for the next regular round."""
        self._changed = asyncio.Event()
        self._found_first: frozenset[TopicPartition] = frozenset()

    def update(self, source: Topics, target: Topics, hidden_source: Set[str] = frozenset()) -> bool:
        """Take over a round of discovery and wake its waiters; return whether anything changed.

        A side without a change is the same object as before.
        """
        is_changed = source is not self.source or target is not self.target
        is_changed = is_changed or hidden_source != self.hidden_source
        self.source, self.target, self.hidden_source = source, target, hidden_source
        if not self.is_loaded:
            self._found_first = frozenset(
                TopicPartition(name, partition)
                for name, topic in source.items()
                for partition in topic.partitions
            )
        self.is_loaded = True
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return is_changed

    def hurry(self) -> None:
        """Request a round of discovery: something here is out of date."""
        self.asked.set()

    async def next_round(self) -> None:
        """Wait for a round of discovery that is newer than the present state."""
        await self._changed.wait()

    def was_found_first(self, source: TopicPartition) -> bool:
        """Return whether the first round of discovery found this source partition."""
        return source in self._found_first

    def source_leader(self, at: TopicPartition) -> int | None:
        return _leader(self.source, at)

    def source_leader_epoch(self, at: TopicPartition) -> int:
        """Return the leader epoch of a source partition; -1 if it is unknown."""
        partition = _partition(self.source, at)
        return partition.leader_epoch if partition is not None else -1

    def target_leader(self, at: TopicPartition) -> int | None:
        return _leader(self.target, at)

    def hidden(self, source: TopicPartition, target: TopicPartition) -> str | None:
        """Return in words which of the two the mirror may not describe; None if neither."""
        if source.topic in self.hidden_source:
            return f"{source} at the source"
        copy = self.target.get(target.topic)
        if copy is not None and copy.error == ErrorCode.topic_authorization_failed:
            return f"{target} at the target"
        return None

    def source_topic_id(self, topic: str) -> UUID | None:
        """Return the topic id: None without the topic, NO_TOPIC_ID if the cluster has no topic
        ids.
        """
        return _topic_id(self.source, topic)

    def target_topic_id(self, topic: str) -> UUID | None:
        return _topic_id(self.target, topic)


def _leader(topics: Topics, at: TopicPartition) -> int | None:
    partition = _partition(topics, at)
    return partition.leader if partition is not None and partition.leader >= 0 else None


def _partition(topics: Topics, at: TopicPartition) -> PartitionMetadata | None:
    topic = topics.get(at.topic)
    return topic.partitions.get(at.partition) if topic is not None and not topic.error else None


def _topic_id(topics: Topics, name: str) -> UUID | None:
    topic = topics.get(name)
    if topic is None or topic.error:
        return None
    return topic.topic_id or NO_TOPIC_ID
