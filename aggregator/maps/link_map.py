"""The published map of one link, as answers to questions about offsets. Pure.

It finds the flow of a source partition, the name of its copy, and the exact offset on the other
side.

A flow is identified by topic ids, not only by names. If the current topic ids of a cluster are
known, only a flow of the current topic answers. Offsets of a deleted and re-created topic would be
wrong, so they are pending until the link opens the new topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from local_cluster.records.batch import Record
from mirror_maker import formats
from mirror_maker.formats import FlowKey, MapTopic, OffsetMap
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.records import NO_TOPIC_ID

TopicIds = Mapping[str, UUID | None]
"""Topic ids of one cluster by name; a missing topic is unknown."""

NO_TOPIC_IDS: Final[TopicIds] = MappingProxyType({})


class TranslationState(StrEnum):
    """The certainty of an answer; see `translation`."""

    EXACT = "exact"
    INEXACT = "inexact"
    PENDING = "pending"
    UNMAPPED = "unmapped"
    SHARED = "shared"


class MapAnswer(NamedTuple):
    """Topic and offset on the other side, if the map has them."""

    state: TranslationState
    topic: str | None
    offset: int | None
    hole: tuple[int, int] | None = None
    """For an aggregate offset: the possible source offsets [start, end) of the record."""


_NOTHING = MapAnswer(TranslationState.PENDING, None, None)
_STATES: Final = {
    formats.TranslationState.EXACT: TranslationState.EXACT,
    formats.TranslationState.INEXACT: TranslationState.INEXACT,
    formats.TranslationState.PENDING: TranslationState.PENDING,
}


class LinkMap:
    """The replayed map topic of one link. Every method may raise MapFormatError."""

    def __init__(self) -> None:
        self._topic = MapTopic()

    def apply(self, record: Record) -> None:
        """Apply the next record of the map topic."""
        self._topic.replay(record.key, record.value)

    def translate(
        self,
        topic: str,
        partition: int,
        offset: int,
        target_ids: TopicIds,
        source_ids: TopicIds = NO_TOPIC_IDS,
    ) -> MapAnswer:
        """Translate a source offset to the aggregate."""
        flow = self._topic.latest_flow(topic, partition)
        if flow is None:
            return _NOTHING
        target_topic = self._topic.target_topic(flow)
        offsets = self._current_map(flow, target_topic, target_ids, source_ids)
        if offsets is None:
            return MapAnswer(TranslationState.PENDING, target_topic, None)
        found = offsets.translate(offset)
        return MapAnswer(_STATES[found.state], target_topic, found.target_offset)

    def reverse(
        self, target_topic: str, partition: int, offset: int, target_ids: TopicIds
    ) -> MapAnswer:
        """Translate an aggregate offset to the source."""
        flow = self._flow_into(target_topic, partition)
        if flow is None:
            return _NOTHING
        offsets = self._current_map(flow, target_topic, target_ids)
        if offsets is None or offset >= offsets.target_next:
            return MapAnswer(TranslationState.PENDING, flow.source_topic, None)
        found = offsets.source_of(offset)
        if found is not None:
            return MapAnswer(TranslationState.EXACT, flow.source_topic, found)
        hole = offsets.hole_of(offset)
        state = TranslationState.UNMAPPED if hole is None else TranslationState.INEXACT
        return MapAnswer(state, flow.source_topic, None, hole)

    def source_position(
        self, target_topic: str, partition: int, offset: int, target_ids: TopicIds
    ) -> MapAnswer | None:
        """Translate a position on the aggregate to the source; None if no flow leads there.

        The answer is the greatest source offset before which every copy that the map knows lies
        below `offset`. It is inexact if copies behind it may have been read.
        """
        flow = self._flow_into(target_topic, partition)
        if flow is None:
            return None
        offsets = self._current_map(flow, target_topic, target_ids)
        if offsets is None:
            return MapAnswer(TranslationState.PENDING, flow.source_topic, None)
        place = offsets.source_place(offset)
        is_exact = (
            offset <= offsets.target_next
            and offsets.translate(place).state is formats.TranslationState.EXACT
        )
        state = TranslationState.EXACT if is_exact else TranslationState.INEXACT
        return MapAnswer(state, flow.source_topic, place)

    def _flow_into(self, target_topic: str, partition: int) -> FlowKey | None:
        for flow in self._topic.flows():
            if flow.partition == partition and self._topic.target_topic(flow) == target_topic:
                return flow
        return None

    def mirrored_end(self, topic: str, partition: int, target_ids: TopicIds) -> int | None:
        """Return the end of the mapped source offsets; None without a map."""
        flow = self._topic.latest_flow(topic, partition)
        if flow is None:
            return None
        offsets = self._current_map(flow, self._topic.target_topic(flow), target_ids)
        return None if offsets is None else offsets.source_next

    def current_flows(self, target_ids: TopicIds) -> Iterator[tuple[FlowKey, str, OffsetMap]]:
        """Yield (flow, aggregate topic, map) of every source partition whose copy exists now."""
        for flow in self._topic.flows():
            target_topic = self._topic.target_topic(flow)
            found = self._current(flow, target_topic, target_ids)
            if found is not None and target_topic is not None:
                yield found[0], target_topic, found[1]

    def producer_id(self, flow: FlowKey) -> int | None:
        """Return the producer id of the flow's batches; None if the flow is not open."""
        opening = self._topic.opening(flow)
        return None if opening is None else opening.producer_id

    def topics(self) -> Iterator[tuple[str, str]]:
        """Yield each pair (source topic, aggregate topic) once, without the probe's."""
        seen: set[tuple[str, str]] = set()
        for flow in self._mirrored_flows():
            target_topic = self._topic.target_topic(flow)
            pair = (flow.source_topic, target_topic or "")
            if target_topic is not None and pair not in seen:
                seen.add(pair)
                yield pair

    @property
    def partitions(self) -> int:
        """Number of mirrored source partitions."""
        return sum(1 for _ in self._mirrored_flows())

    def _mirrored_flows(self) -> Iterator[FlowKey]:
        return (flow for flow in self._topic.flows() if not is_probe_topic(flow.source_topic))

    def _current_map(
        self,
        flow: FlowKey,
        target_topic: str | None,
        target_ids: TopicIds,
        source_ids: TopicIds = NO_TOPIC_IDS,
    ) -> OffsetMap | None:
        """Return the flow's map between the current topics of these names, or None."""
        found = self._current(flow, target_topic, target_ids, source_ids)
        return None if found is None else found[1]

    def _current(
        self,
        flow: FlowKey,
        target_topic: str | None,
        target_ids: TopicIds,
        source_ids: TopicIds = NO_TOPIC_IDS,
    ) -> tuple[FlowKey, OffsetMap] | None:
        """Return the flow between the current topics of these names, with its map, or None."""
        current = target_ids.get(target_topic) if target_topic is not None else None
        if current is not None and flow.target_topic_id not in (current, NO_TOPIC_ID):
            other = self._topic.latest_flow(flow.source_topic, flow.partition, current)
            if other is None:
                return None
            flow = other
        source_id = source_ids.get(flow.source_topic)
        if source_id is not None and flow.source_topic_id not in (source_id, NO_TOPIC_ID):
            return None
        offset_map = self._topic.offset_map(flow)
        return None if offset_map is None else (flow, offset_map)
