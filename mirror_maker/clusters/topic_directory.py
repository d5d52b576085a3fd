"""What a link last learned of both clusters: topic ids and leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from uuid import UUID

from local_cluster.client.model import PartitionMetadata, TopicMetadata, TopicPartition
from local_cluster.wire.errors import ErrorCode
from mirror_maker.formats.records import NO_TOPIC_ID

Topics = Mapping[str, TopicMetadata]


class Directory:
    """Read model of discovery; `hurry` asks for a fresh one soon."""

    def __init__(self) -> None:
        self.source: Topics = {}
        self.target: Topics = {}
        self.hidden_source: Set[str] = frozenset()
        """Topics that the mirror may not see at the source, where nobody says whether they are
        there."""
        self.is_loaded = False
        self.asked = asyncio.Event()
        """Set when somebody cannot wait for the next round of discovery."""
        self._changed = asyncio.Event()
        self._found_first: frozenset[TopicPartition] = frozenset()

    def update(self, source: Topics, target: Topics, hidden_source: Set[str] = frozenset()) -> bool:
        """Take over a round of discovery and wake those who wait for one; whether it is news.

        A side that says what it said before is given as the same object.
        """
        is_news = source is not self.source or target is not self.target
        is_news = is_news or hidden_source != self.hidden_source
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
        return is_news

    def hurry(self) -> None:
        """Something here is out of date."""
        self.asked.set()

    async def next_round(self) -> None:
        """Wait until discovery has brought something newer than what is here now."""
        await self._changed.wait()

    def was_found_first(self, source: TopicPartition) -> bool:
        """Whether the first round of discovery found this source partition."""
        return source in self._found_first

    def source_leader(self, at: TopicPartition) -> int | None:
        return _leader(self.source, at)

    def target_leader(self, at: TopicPartition) -> int | None:
        return _leader(self.target, at)

    def hidden(self, source: TopicPartition, target: TopicPartition) -> str | None:
        """Which of the two the mirror may not see, in words; None where it sees both."""
        if source.topic in self.hidden_source:
            return f"{source} at the source"
        copy = self.target.get(target.topic)
        if copy is not None and copy.error == ErrorCode.topic_authorization_failed:
            return f"{target} at the target"
        return None

    def source_topic_id(self, topic: str) -> UUID | None:
        """None where the topic is not there, NO_TOPIC_ID where the cluster has no topic ids."""
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
