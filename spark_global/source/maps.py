"""Reads the offset maps that mirrors publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.client.reader import read_topic
from mirror_maker.formats import FlowKey, MapTopic, OffsetMap, map_topic_name
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.records import NO_TOPIC_ID
from spark_global.source.provenance import FormerCopies, MapRuns

_MAP_TOPIC_PARTS: Final = map_topic_name("\0").split("\0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedPartition:
    """The offset map of one partition of the aggregate."""

    link: str
    source_topic: str
    aggregate_topic: str
    partition: int
    runs: MapRuns
    topic_id: str | None = None
    """Id of the topic at the source; None if its cluster has no ids."""
    producers: frozenset[int] = frozenset()
    """Producer ids with which the link has written, here and in other partitions."""
    former: tuple[FormerCopies, ...] = ()
    """Copies of its source topics of the same name before, the oldest first."""


Maps = dict[TopicPartition, list[MappedPartition]]
"""By topic and partition of the aggregate: one map, or several if links merge."""


async def load_map_topics(client: KafkaClient) -> dict[str, MapTopic]:
    """Return every map topic that mirrors have published in a cluster, by link.

    A link without a map is no error. Raises KafkaError and MapFormatError.
    """
    found: dict[str, MapTopic] = {}
    for name in sorted((await client.metadata()).topics):
        link = link_of_map_topic(name)
        if link is None:
            continue
        found[link] = MapTopic()
        async for record in read_topic(client, name):
            found[link].replay(record.key, record.value)
    return found


async def load_maps(client: KafkaClient) -> Maps:
    """Return every map as `mapped_partitions` does. Raises as `load_map_topics`."""
    return mapped_partitions(await load_map_topics(client))


def mapped_partitions(map_topics: Mapping[str, MapTopic]) -> Maps:
    """Return every map, without those of probe topics."""
    maps: Maps = {}
    for link, replayed in map_topics.items():
        for flow in replayed.flows():
            mapped = mapped_partition(link, replayed, flow)
            if mapped is not None and not is_probe_topic(flow.source_topic):
                at = TopicPartition(mapped.aggregate_topic, mapped.partition)
                maps.setdefault(at, []).append(mapped)
    return maps


def link_of_map_topic(topic: str) -> str | None:
    """Return the link whose map a topic holds; None for any other topic."""
    before, behind = _MAP_TOPIC_PARTS
    if topic.startswith(before) and topic.endswith(behind) and len(topic) > len(before + behind):
        return topic[len(before) : -len(behind)]
    return None


def mapped_partition(link: str, replayed: MapTopic, flow: FlowKey) -> MappedPartition | None:
    """Return the map of a flow, and of the flows before it; None if it was never opened."""
    offset_map = replayed.offset_map(flow)
    target_topic = replayed.target_topic(flow)
    if offset_map is None or target_topic is None:
        return None
    return MappedPartition(
        link=link,
        source_topic=flow.source_topic,
        aggregate_topic=target_topic,
        partition=flow.partition,
        runs=_runs_of(offset_map),
        topic_id=_topic_id(flow),
        producers=frozenset(each.producer_id for each in replayed.registrations),
        former=_former_copies(replayed, flow, offset_map),
    )


def _former_copies(
    replayed: MapTopic, flow: FlowKey, present: OffsetMap
) -> tuple[FormerCopies, ...]:
    maps = [
        (each, offset_map)
        for each in replayed.former_flows(flow)
        if (offset_map := replayed.offset_map(each)) is not None
    ]
    return tuple(
        FormerCopies(
            topic_id=_topic_id(each),
            runs=_runs_of(offset_map).cut_at_target(after.target_start),
            end=after.target_start,
        )
        for (each, offset_map), (_, after) in pairwise([*maps, (flow, present)])
    )


def _runs_of(offset_map: OffsetMap) -> MapRuns:
    return MapRuns.of(
        offset_map.runs(),
        source_next=offset_map.source_next,
        target_next=offset_map.target_next,
    )


def _topic_id(flow: FlowKey) -> str | None:
    return None if flow.source_topic_id == NO_TOPIC_ID else str(flow.source_topic_id)
