"""The committed offsets of consumer groups, on the aggregate and at the sources. Shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from local_cluster.client.admin.group_offsets import committed_offsets, list_groups
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from spark_global.addresses import ClusterAddress
from spark_global.source.coverage import PartitionEnds, ReadTopic, SourcePartition
from spark_global.source.splits import Origin
from spark_global.source.tables import AGGREGATE_SIDE, SOURCE_SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """What a group has committed in one partition."""

    side: str
    group: str
    origin: Origin
    aggregate_topic: str
    partition: int
    committed_offset: int
    ends: PartitionEnds


async def groups_on_aggregate(
    client: KafkaClient,
    topics: Mapping[str, list[ReadTopic]],
    ends: Mapping[TopicPartition, PartitionEnds],
) -> list[GroupPosition]:
    """Return positions in the topics to read. Raises KafkaError."""
    found = []
    for group, at, offset in await _committed(client):
        if at in ends:
            origins = topics[at.topic]
            datacenter = origins[0].origin.datacenter if len(origins) == 1 else None
            found.append(
                GroupPosition(
                    side=AGGREGATE_SIDE,
                    group=group,
                    origin=Origin(datacenter, origins[0].origin.topic),
                    aggregate_topic=at.topic,
                    partition=at.partition,
                    committed_offset=offset,
                    ends=ends[at],
                )
            )
    return found


async def groups_at_sources(
    sources: Mapping[TopicPartition, list[SourcePartition]],
) -> list[GroupPosition]:
    """Return positions in source partitions, from every source cluster. Raises KafkaError."""
    by_cluster: dict[ClusterAddress, dict[TopicPartition, SourcePartition]] = {}
    for at, partitions in sources.items():
        for source in partitions:
            there = TopicPartition(source.topic.origin.topic, at.partition)
            by_cluster.setdefault(source.cluster, {})[there] = source
    found = []
    for cluster, partitions_there in by_cluster.items():
        async with cluster.client() as client:
            committed = await _committed(client)
        for group, at, offset in committed:
            one = partitions_there.get(at)
            if one is not None:
                found.append(
                    GroupPosition(
                        side=SOURCE_SIDE,
                        group=group,
                        origin=one.topic.origin,
                        aggregate_topic=one.topic.name,
                        partition=at.partition,
                        committed_offset=offset,
                        ends=one.ends,
                    )
                )
    return found


async def _committed(client: KafkaClient) -> list[tuple[str, TopicPartition, int]]:
    positions = await committed_offsets(client, await list_groups(client))
    return [
        (group, at, committed.offset)
        for group, commits in sorted(positions.items())
        for at, committed in sorted(commits.items())
    ]
