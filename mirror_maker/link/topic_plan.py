"""What discovery derives from two clusters' metadata: topics to copy, copies to create. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from local_cluster.client.model import ClusterMetadata, NewTopic, TopicConfigs, TopicMetadata
from local_cluster.wire.errors import ErrorCode
from mirror_maker.rules.topic_filter import TopicFilter
from mirror_maker.settings import LinkSettings

COPIED_CONFIGS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
)
"""Copied if they are set on the source topic; sizes and lifetimes of logs follow the source."""
FORCED_CONFIGS: Final = {
    # Bytes and timestamps must not change, whatever the defaults of the target's brokers are.
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
}

CREATED_TOPICS_MAX: Final = 500
"""Of one request: each is a record, and so is each of its configs."""
CREATED_PARTITIONS_MAX: Final = 1_000
"""Of one request. A controller of Kafka takes some seconds for so many."""

CopyName = Callable[[str], str]
"""Returns the target name of the copy of a source topic."""


def link_topics(settings: LinkSettings, target_alias: str) -> TopicFilter:
    """Return which topics of its source a link copies."""
    return TopicFilter(
        settings.topics,
        settings.topics_exclude,
        target_alias,
        heartbeats=settings.mm2_topics != "off",
        is_prefixed=settings.names.is_prefixed,
        probe_topic=settings.probe_topic,
    )


def select_topics(source: ClusterMetadata, topic_filter: TopicFilter) -> dict[str, TopicMetadata]:
    """Return the source's topics that the link copies, by name."""
    return {
        name: topic
        for name, topic in source.topics.items()
        if topic_filter.selects(name) and not topic.is_internal and not topic.error
    }


def describes_all(source: ClusterMetadata, topic_filter: TopicFilter) -> bool:
    """Return whether no topic that the link would copy is described by an error alone."""
    return not any(
        topic.error and not topic.is_internal and topic_filter.selects(name)
        for name, topic in source.topics.items()
    )


def left_out_topics(source: ClusterMetadata, topic_filter: TopicFilter) -> list[str]:
    """Return topics that match the link's patterns and are not copied.

    They are excluded, internal by name, or born in the target. The cluster's own internal topics
    are not listed.
    """
    return sorted(
        name
        for name, topic in source.topics.items()
        if topic_filter.leaves_out(name) and not (topic.is_internal or name.startswith("__"))
    )


def colliding_topics(names: Iterable[str], copy_name: CopyName) -> dict[str, list[str]]:
    """Return the target topics that two source topics of the link would share, with those."""
    sources: dict[str, list[str]] = {}
    for name in sorted(names):
        sources.setdefault(copy_name(name), []).append(name)
    return {target: found for target, found in sources.items() if len(found) > 1}


def missing_topics(
    wanted: Mapping[str, TopicMetadata], target: ClusterMetadata, copy_name: CopyName
) -> list[str]:
    """Return the source topics whose copy does not exist."""
    return [name for name in sorted(wanted) if _is_missing(target.topics.get(copy_name(name)))]


def grown_topics(
    wanted: Mapping[str, TopicMetadata], target: ClusterMetadata, copy_name: CopyName
) -> dict[str, int]:
    """Return target topics with fewer partitions than their source, and how many they need."""
    grown = {}
    for name, topic in wanted.items():
        copy = target.topics.get(copy_name(name))
        if copy is not None and not copy.error and len(copy.partitions) < len(topic.partitions):
            grown[copy.name] = len(topic.partitions)
    return grown


def creation_rounds(partitions: Mapping[str, int]) -> Iterator[list[str]]:
    """Return topics in the groups that one request may create, by their partition counts.

    A controller of Kafka refuses a request that makes more than 10,000 records: one for each topic,
    config and partition. A topic that is too large for any round is a round by itself.
    """
    names: list[str] = []
    count = 0
    for name, more in partitions.items():
        if names and (len(names) >= CREATED_TOPICS_MAX or count + more > CREATED_PARTITIONS_MAX):
            yield names
            names, count = [], 0
        names.append(name)
        count += more
    if names:
        yield names


def new_topic(
    source: TopicMetadata, configs: TopicConfigs, copy_name: CopyName, replication_factor: int
) -> NewTopic:
    """Return the copy to create, with the source's partition count and settings."""
    copied = {
        name: value
        for name in COPIED_CONFIGS
        if name in configs
        for value, is_default in [configs[name]]
        if value is not None and not is_default
    }
    return NewTopic(
        name=copy_name(source.name),
        partitions=len(source.partitions),
        replication_factor=replication_factor,
        configs={**copied, **FORCED_CONFIGS},
    )


def _is_missing(topic: TopicMetadata | None) -> bool:
    return topic is None or topic.error == ErrorCode.unknown_topic_or_partition
