"""The configs of topics, on the aggregate and at the sources. Shell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from spark_global.addresses import ClusterAddress
from spark_global.source.coverage import ReadTopic, SourcePartition
from spark_global.source.splits import Origin
from spark_global.source.tables import AGGREGATE_SIDE, SOURCE_SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The configs of a topic where it is copied from, or to."""

    side: str
    origin: Origin
    """Without a datacenter if several links merge into the topic."""
    aggregate_topic: str
    configs: Mapping[str, tuple[str | None, bool]]
    """Value by name, and whether the topic has no value of its own."""


async def configs_on_aggregate(
    client: KafkaClient, topics: Mapping[str, list[ReadTopic]]
) -> list[TopicSettings]:
    """Return the configs of the topics to read. Raises KafkaError."""
    found = []
    for name, configs in (await _configs(client, topics)).items():
        origins = topics[name]
        datacenter = origins[0].origin.datacenter if len(origins) == 1 else None
        found.append(
            TopicSettings(
                side=AGGREGATE_SIDE,
                origin=Origin(datacenter, origins[0].origin.topic),
                aggregate_topic=name,
                configs=configs,
            )
        )
    return found


async def configs_at_sources(
    sources: Iterable[list[SourcePartition]],
) -> list[TopicSettings]:
    """Return the configs of the source topics, from every source cluster. Raises KafkaError."""
    by_cluster: dict[ClusterAddress, dict[str, ReadTopic]] = {}
    for partitions in sources:
        for source in partitions:
            topics = by_cluster.setdefault(source.cluster, {})
            topics[source.topic.origin.topic] = source.topic
    found = []
    for cluster, topics in by_cluster.items():
        async with cluster.client() as client:
            configs = await _configs(client, topics)
        found += [
            TopicSettings(
                side=SOURCE_SIDE,
                origin=topics[name].origin,
                aggregate_topic=topics[name].name,
                configs=of_topic,
            )
            for name, of_topic in configs.items()
        ]
    return found


async def _configs(
    client: KafkaClient, topics: Iterable[str]
) -> dict[str, dict[str, tuple[str | None, bool]]]:
    """Return the configs of topics. Raises KafkaError, also for one topic's error."""
    names = sorted(topics)
    found: dict[str, dict[str, tuple[str | None, bool]]] = {}
    for name, configs in (await client.ask_topic_configs(names) if names else {}).items():
        if isinstance(configs, KafkaError):
            raise KafkaError(configs.code, f"DescribeConfigs of {name}: {configs}")
        found[name] = dict(configs)
    return found
