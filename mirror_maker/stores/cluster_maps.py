"""The map topics of all links into one cluster: which link wrote what into which partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from local_cluster.client.model import ClusterMetadata, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import (
    FlowKey,
    MapFormatError,
    MapTopic,
    OffsetMap,
    extend_map,
    is_map_topic,
)
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import LogReader
from mirror_maker.stores.map_store import MapStore
from mirror_maker.stores.state_topic import StateReader


class FollowedMap:
    """The map of one flow, which follows its map topic without a rebuild for every block."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._offset_map: OffsetMap | None = None

    def follow(self, state: MapTopic, flow: FlowKey) -> OffsetMap | None:
        """Return the map as the topic has it at present; None for a flow that was never opened.

        Every call must name the same flow of the same topic. The map may know more than the topic:
        runs whose blocks were trimmed there. Raises MapFormatError.
        """
        opening = state.opening(flow)
        epoch = opening.producer_epoch if opening is not None else None
        last = state.last_block(flow, epoch) if epoch is not None else None
        offset_map = self._offset_map
        if (
            offset_map is None
            or epoch is None
            or epoch != self._epoch
            or (last is not None and last.source_start > offset_map.source_next)
        ):
            # A new epoch may have truncated the map, and blocks in between may have been missed.
            self._epoch, self._offset_map = epoch, state.build_offset_map(flow)
        elif last is not None:
            extend_map(offset_map, last)
        return self._offset_map


class LinkPart(NamedTuple):
    """The share of one link in a partition of the cluster."""

    link: str
    """The link's name, or the name of its map topic if this worker does not run the link."""
    state: MapTopic
    flow: FlowKey | None
    """The flow of the present source topic; None if the link copies that one elsewhere."""
    flows: tuple[FlowKey, ...]
    """The present flow, and the flows of deleted source topics of the same name."""

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.flows[0].source_topic, self.flows[0].partition)

    @property
    def source_cluster_id(self) -> str:
        """Return the id of the source cluster; empty if it was never known."""
        registration = self.state.registration
        return registration.source_cluster_id if registration is not None else ""


class ClusterMaps:
    """The map topics of one cluster, read again on request.

    Methods raise KafkaError, MapFormatError, and LinkFailedError for a topic that cannot be
    trusted.
    """

    def __init__(self, cluster: LogReader, new_state: Callable[[], MapTopic] = MapTopic) -> None:
        """`new_state` creates the object that replays the records of a topic."""
        self._cluster = cluster
        self._new_state = new_state
        self._listed: ClusterMetadata | None = None
        self._map_topics: dict[str, UUID | None] = {}
        """Every map topic of the cluster, with its id."""
        self._stores: dict[str, MapStore] = {}
        self._others: dict[str, tuple[MapTopic, StateReader]] = {}
        self._followed: dict[tuple[str, FlowKey], FollowedMap] = {}

    def add(self, link: str, store: MapStore) -> None:
        """Add a link of this worker, whose store reads its map topic."""
        self._stores[link] = store

    def remove(self, link: str) -> None:
        """Forget a link of this worker. It may be added again, with another store."""
        self._stores.pop(link, None)
        self._followed = {at: each for at, each in self._followed.items() if at[0] != link}

    async def read(self) -> None:
        """Read every known map topic to its end."""

        async def read_other(name: str, topic: StateReader) -> None:
            try:
                await topic.catch_up()
            except (LinkFailedError, MapFormatError):
                self._others.pop(name, None)  # the next `find` starts it over
                raise
            except KafkaError as error:
                if error.code == ErrorCode.unknown_topic_or_partition:
                    self._others.pop(name, None)
                raise

        stores = [store for store in self._stores.values() if store.is_open]
        await asyncio.gather(
            *(store.catch_up() for store in stores),
            *(read_other(name, topic) for name, (_, topic) in self._others.items()),
        )

    async def find(self) -> None:
        """List the map topics of links that this worker does not run, or has not opened yet."""
        here = {store.topic for store in self._stores.values() if store.is_open}
        listed = await self._cluster.metadata(None, last=self._listed)
        if self._listed is None or listed.topics is not self._listed.topics:
            self._map_topics = {
                name: topic.topic_id for name, topic in listed.topics.items() if is_map_topic(name)
            }
        self._listed = listed
        wanted = self._map_topics.keys() - here
        self._others = {
            name: (state, topic)
            for name, (state, topic) in self._others.items()
            if name in wanted and topic.topic_id in (None, self._map_topics[name])
        }
        known = self._others.keys() | self._stores.keys()
        self._followed = {at: each for at, each in self._followed.items() if at[0] in known}
        for name in wanted - self._others.keys():
            state = self._new_state()
            self._others[name] = (state, StateReader(self._cluster, name, state.replay))

    def states(self) -> dict[str, MapTopic]:
        """Return the replayed topic of each link, by the link's or the topic's name."""
        states = {name: store.state for name, store in self._stores.items() if store.is_open}
        return states | {name: state for name, (state, _) in self._others.items()}

    def parts(
        self, topic_ids: Mapping[TopicPartition, UUID]
    ) -> dict[TopicPartition, list[LinkPart]]:
        """Return the share of every link in each of these partitions of topics with these ids."""
        parts: dict[TopicPartition, list[LinkPart]] = {target: [] for target in topic_ids}
        for name, state in self.states().items():
            flows: dict[tuple[TopicPartition, str], list[FlowKey]] = {}
            for flow in state.every_flow():
                target = TopicPartition(state.target_topic(flow) or "", flow.partition)
                if topic_ids.get(target) == flow.target_topic_id:
                    flows.setdefault((target, flow.source_topic), []).append(flow)
            for (target, source_topic), found in flows.items():
                latest = state.latest_flow(source_topic, target.partition)
                present = latest if latest in found else None
                parts[target].append(LinkPart(name, state, present, tuple(found)))
        return parts

    def maps(self, part: LinkPart) -> list[OffsetMap]:
        """Return the maps of all flows of a part; the map of the present source topic is last."""
        return [
            self.map_of(part, flow)
            for flow in sorted(part.flows, key=lambda each: each == part.flow)
        ]

    def map_of(self, part: LinkPart, flow: FlowKey) -> OffsetMap:
        """Return the map of one flow of a part."""
        followed = self._followed.setdefault((part.link, flow), FollowedMap())
        offset_map = followed.follow(part.state, flow)
        assert offset_map is not None, flow
        return offset_map
