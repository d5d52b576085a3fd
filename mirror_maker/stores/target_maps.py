"""The map topics of every link into one cluster, followed: who wrote what into which partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from local_cluster.client.model import ClusterMetadata, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import FlowKey, MapFormatError, MapTopic, OffsetMap, is_map_topic
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import LogReader
from mirror_maker.stores.followed_map import GrowingMap
from mirror_maker.stores.map_store import MapStore
from mirror_maker.stores.state_topic import StateReader


class Part(NamedTuple):
    """What one link has in a partition of the cluster."""

    link: str
    """Its name, or its map topic for a link that is none of this worker's."""
    state: MapTopic
    flow: FlowKey | None
    """The flow of the source topic that is there now; None where it is copied elsewhere."""
    flows: tuple[FlowKey, ...]
    """That one, and those of deleted topics of the same name."""

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.flows[0].source_topic, self.flows[0].partition)

    @property
    def source_cluster_id(self) -> str:
        """Empty where it was never known."""
        registration = self.state.registration
        return registration.source_cluster_id if registration is not None else ""


class MapTopics:
    """Methods raise KafkaError, LinkFailedError where a topic cannot be trusted, MapFormatError."""

    def __init__(self, cluster: LogReader, new_state: Callable[[], MapTopic] = MapTopic) -> None:
        """`new_state` makes what takes in a topic's records."""
        self._cluster = cluster
        self._new_state = new_state
        self._listed: ClusterMetadata | None = None
        self._map_topics: dict[str, UUID | None] = {}
        """Every map topic of the cluster, with its id."""
        self._stores: dict[str, MapStore] = {}
        self._others: dict[str, tuple[MapTopic, StateReader]] = {}
        self._growing: dict[tuple[str, FlowKey], GrowingMap] = {}

    def add(self, link: str, store: MapStore) -> None:
        """A link of this worker, whose map topic is read by its store anyway."""
        self._stores[link] = store

    async def read(self) -> None:
        """What is known already, up to now."""

        async def read_other(name: str, topic: StateReader) -> None:
            try:
                await topic.catch_up()
            except (LinkFailedError, MapFormatError):
                self._others.pop(name, None)  # it is read anew next time
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
        """Look for map topics of links that are not this worker's, or not open here yet."""
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
        self._growing = {at: each for at, each in self._growing.items() if at[0] in known}
        for name in wanted - self._others.keys():
            state = self._new_state()
            self._others[name] = (state, StateReader(self._cluster, name, state.replay))

    def states(self) -> dict[str, MapTopic]:
        """What each link's topic amounts to, by the link's name, or the topic's."""
        states = {name: store.state for name, store in self._stores.items() if store.is_open}
        return states | {name: state for name, (state, _) in self._others.items()}

    def parts(self, topic_ids: Mapping[TopicPartition, UUID]) -> dict[TopicPartition, list[Part]]:
        """What every link has in each of these partitions of topics with these ids."""
        parts: dict[TopicPartition, list[Part]] = {target: [] for target in topic_ids}
        for name, state in self.states().items():
            flows: dict[tuple[TopicPartition, str], list[FlowKey]] = {}
            for flow in state.every_flow():
                target = TopicPartition(state.target_topic(flow) or "", flow.partition)
                if topic_ids.get(target) == flow.target_topic_id:
                    flows.setdefault((target, flow.source_topic), []).append(flow)
            for (target, source_topic), found in flows.items():
                latest = state.latest_flow(source_topic, target.partition)
                now = latest if latest in found else None
                parts[target].append(Part(name, state, now, tuple(found)))
        return parts

    def maps(self, part: Part) -> list[OffsetMap]:
        """The maps of all flows of a part, that of the present source topic last."""
        return [
            self.map_of(part, flow)
            for flow in sorted(part.flows, key=lambda each: each == part.flow)
        ]

    def map_of(self, part: Part, flow: FlowKey) -> OffsetMap:
        """The map of one flow of a part."""
        growing = self._growing.setdefault((part.link, flow), GrowingMap())
        offset_map = growing.follow(part.state, flow)
        assert offset_map is not None, flow
        return offset_map
