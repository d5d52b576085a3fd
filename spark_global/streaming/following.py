"""Follows the offset maps of a cluster: each poll reads only what is new. Shell.

Guarantees: after a poll the maps hold at least what the map topics held before it. A map topic that
cannot be read keeps the state of the last poll, so one link never stops another.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ClusterMetadata, TopicPartition
from local_cluster.client.reader import read_until
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import FlowKey, MapTopic, OffsetMap
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.records import NO_TOPIC_ID
from spark_global.source.maps import MappedPartition, Maps, link_of_map_topic, mapped_partition
from spark_global.source.reading import TRANSIENT
from spark_global.streaming.translation import IdentifiedMap, SourceId


@dataclass(slots=True)
class _Followed:
    """What is known of one map topic."""

    topic_id: uuid.UUID | None
    position: int | None = None
    """The next offset to read; None before the first read."""
    replayed: MapTopic = field(default_factory=MapTopic)
    built: dict[FlowKey, tuple[list[OffsetMap | None], MappedPartition]] = field(
        default_factory=dict
    )


class MapFollower:
    """The offset maps of one cluster, as of the last poll."""

    def __init__(self) -> None:
        self._followed: dict[str, _Followed] = {}

    @property
    def links(self) -> frozenset[str]:
        """The links that have a map topic, also those whose map is empty."""
        return frozenset(self._followed)

    async def poll(self, client: KafkaClient, metadata: ClusterMetadata) -> list[TopicPartition]:
        """Read what was added to the map topics; return those that cannot be read at present.

        Raises KafkaError and MapFormatError.
        """
        topics = {
            link: topic
            for name, topic in metadata.topics.items()
            if (link := link_of_map_topic(name)) is not None
        }
        for link in self._followed.keys() - topics.keys():
            del self._followed[link]
        for link, topic in topics.items():
            known = self._followed.get(link)
            if known is None or known.topic_id != topic.topic_id:
                self._followed[link] = _Followed(topic.topic_id)
        places = {link: TopicPartition(topic.name, 0) for link, topic in topics.items()}
        unread: list[TopicPartition] = []
        if not places:
            return unread
        ends = await client.list_offsets(dict.fromkeys(places.values(), LATEST_TIMESTAMP))
        for link, at in places.items():
            leader = topics[link].partitions.get(0)
            try:
                if ends[at].error:
                    raise KafkaError(ends[at].error, f"ListOffsets of {at}")
                if leader is None or leader.leader < 0:
                    raise KafkaError(ErrorCode.leader_not_available, str(at))
                await self._catch_up(client, link, leader.leader, at, ends[at].offset)
            except KafkaError as error:
                if error.code not in TRANSIENT:
                    raise
                unread.append(at)
        return unread

    async def _catch_up(
        self, client: KafkaClient, link: str, leader: int, at: TopicPartition, end: int
    ) -> None:
        followed = self._followed[link]
        if followed.position is not None and end < followed.position:
            # The log was truncated: what was read from there on does not hold any more.
            followed = self._followed[link] = _Followed(followed.topic_id)
        if followed.position is None:
            start = (await client.list_offsets({at: EARLIEST_TIMESTAMP}))[at]
            if start.error:
                raise KafkaError(start.error, f"ListOffsets of {at}")
            followed.position = start.offset
        batches = read_until(client, leader, at, followed.position, end)
        async for header, records in batches:
            for record in records:
                if record.offset >= followed.position:
                    followed.replayed.replay(record.key, record.value)
            followed.position = header.next_offset

    def maps(self, topic_ids: Mapping[str, str]) -> Maps:
        """Return the maps into the topics with these ids; a map of an older topic is left out."""
        maps: Maps = {}
        for each in self.identified(topic_ids):
            maps.setdefault(each.target, []).append(each.mapped)
        return maps

    def identified(self, topic_ids: Mapping[str, str]) -> tuple[IdentifiedMap, ...]:
        """Return the same maps with the identity of their source partitions."""
        return tuple(
            IdentifiedMap(_source_id(followed, flow), mapped)
            for link, followed in sorted(self._followed.items())
            for flow in followed.replayed.flows()
            if (mapped := self._built(link, followed, flow)) is not None
            and not is_probe_topic(flow.source_topic)
            and not _is_older(flow, topic_ids.get(mapped.aggregate_topic, ""))
        )

    def _built(self, link: str, followed: _Followed, flow: FlowKey) -> MappedPartition | None:
        """Return the arrays of a flow; they are built again only if there are new records of it,
        or of those before it.
        """
        replayed = followed.replayed
        flows = (*replayed.former_flows(flow), flow)
        offset_maps = [replayed.offset_map(each) for each in flows]
        known = followed.built.get(flow)
        if known is None or [*map(id, known[0])] != [*map(id, offset_maps)]:
            mapped = mapped_partition(link, replayed, flow)
            if mapped is None:
                return None
            known = followed.built[flow] = offset_maps, mapped
        return known[1]


def _source_id(followed: _Followed, flow: FlowKey) -> SourceId:
    registration = followed.replayed.registration
    cluster_id = "" if registration is None else registration.source_cluster_id
    return SourceId(cluster_id, flow.source_topic, str(flow.source_topic_id), flow.partition)


def _is_older(flow: FlowKey, present_id: str) -> bool:
    """Return whether a flow went into a topic that was deleted since."""
    if flow.target_topic_id == NO_TOPIC_ID or not present_id:
        return False
    return str(flow.target_topic_id) != present_id


def topic_ids_of(metadata: ClusterMetadata) -> dict[str, str]:
    """Return the id of every topic as text; empty without ids."""
    return {
        name: str(topic.topic_id) if topic.topic_id and topic.topic_id.int else ""
        for name, topic in metadata.topics.items()
    }
