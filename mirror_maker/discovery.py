"""What discovery makes of two clusters' metadata: topics to copy, targets to make. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local_cluster.client.model import ClusterMetadata, NewTopic, TopicMetadata
from local_cluster.wire.errors import ErrorCode

from .policy import TopicFilter, remote_topic

COPIED_CONFIGS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
)
"""Taken over where they are set on the source topic; sizes and lives of logs follow the source."""
FORCED_CONFIGS: Final = {
    # Bytes and timestamps must stay as they came, whatever the target's brokers default to.
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
}

TopicConfigs = Mapping[str, tuple[str | None, bool]]
"""Config name -> (value, is it a default)."""


def select_topics(source: ClusterMetadata, topic_filter: TopicFilter) -> dict[str, TopicMetadata]:
    """The source's topics that the link copies, by name."""
    return {
        name: topic
        for name, topic in source.topics.items()
        if topic_filter.selects(name) and not topic.is_internal and not topic.error
    }


def missing_topics(
    wanted: Mapping[str, TopicMetadata], target: ClusterMetadata, source_alias: str
) -> list[str]:
    """Source topics whose copy does not exist."""
    return [
        name
        for name in sorted(wanted)
        if _is_missing(target.topics.get(remote_topic(source_alias, name)))
    ]


def grown_topics(
    wanted: Mapping[str, TopicMetadata], target: ClusterMetadata, source_alias: str
) -> dict[str, int]:
    """Target topics with fewer partitions than their source, and how many they need."""
    grown = {}
    for name, topic in wanted.items():
        copy = target.topics.get(remote_topic(source_alias, name))
        if copy is not None and not copy.error and len(copy.partitions) < len(topic.partitions):
            grown[copy.name] = len(topic.partitions)
    return grown


def new_topic(
    source: TopicMetadata, configs: TopicConfigs, source_alias: str, replication_factor: int
) -> NewTopic:
    """The copy to create, with the source's partition count and settings."""
    copied = {
        name: value
        for name in COPIED_CONFIGS
        if name in configs
        for value, is_default in [configs[name]]
        if value is not None and not is_default
    }
    return NewTopic(
        name=remote_topic(source_alias, source.name),
        partitions=len(source.partitions),
        replication_factor=replication_factor,
        configs={**copied, **FORCED_CONFIGS},
    )


def _is_missing(topic: TopicMetadata | None) -> bool:
    return topic is None or topic.error == ErrorCode.unknown_topic_or_partition
