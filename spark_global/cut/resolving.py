"""Resolves a cut: where sources ended at T, as offsets of the aggregate. Pure.

A partition is left out, with the reason, if its cut is not known, is not copied yet, or is not held
any more: the log begins behind its start, the topic is compacted, or the topic was re-created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from local_cluster.client.model import TopicPartition
from mirror_maker.formats import MapTopic
from mirror_maker.formats.completeness.cut import CutSample, PartitionCut
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.offset_map import OffsetMap, TranslationState
from spark_global.cut.offsets import (
    Cut,
    CutKey,
    CutOffsets,
    CutPartition,
    LeftOut,
    why_refused,
    why_unknown,
)
from spark_global.links import MirrorLink
from spark_global.source.coverage import PartitionEnds, ReadTopic
from spark_global.source.pruning import Bounds
from spark_global.source.splits import Origin


@dataclass(frozen=True, slots=True)
class LinkVector:
    """Where the sources of a link ended at a time."""

    cuts: Mapping[tuple[str, int], PartitionCut]
    """By source topic and partition."""
    problem: str | None = None
    """Why nothing is known; None if `cuts` has what is known."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Where the sources of all links ended, by the link's name."""

    as_of: Mapping[str, LinkVector]
    since: Mapping[str, LinkVector] | None
    """At the start of the cut; None if it begins with the first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLogs:
    """What the aggregate holds."""

    topics: Mapping[str, Sequence[ReadTopic]]
    """By name; a topic into which links merge has one entry per link."""
    topic_ids: Mapping[str, UUID | None]
    ends: Mapping[TopicPartition, PartitionEnds]
    maps: Mapping[str, MapTopic]
    """Offset maps by link."""
    not_kept: Mapping[str, str]
    """Topics whose logs may lose records in between, with the reason."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One partition of one link's copy."""

    topic: ReadTopic
    link: str
    partition: int
    is_merged: bool

    @property
    def key(self) -> CutKey:
        return CutKey(self.link, self.topic.name, self.partition)

    @property
    def source(self) -> tuple[str, int]:
        return self.topic.origin.topic, self.partition


class _NoCut(Exception):
    """Why a partition has no cut."""


def resolve_cut(
    as_of_ms: int,
    vectors: Vectors,
    held: HeldLogs,
    bounds: Bounds,
    *,
    links: Sequence[MirrorLink] = (),
    source_topic: str | None = None,
) -> Cut:
    """Return the cut of every partition within the bounds.

    If `source_topic` is read, its partitions at each of the `links` count, copied or not.
    """
    partitions: list[CutPartition] = []
    left_out: list[LeftOut] = []

    def leave_out(origin: Origin, partition: int, why: str) -> None:
        left_out.append(
            LeftOut(
                datacenter=origin.datacenter,
                source_topic=origin.topic,
                partition=partition,
                why=why,
            )
        )

    for topic, partition, is_merged in _every(vectors, held, bounds):
        link = None if topic.link is None else topic.link.name
        if link is None:
            leave_out(topic.origin, partition, why_unknown(None))
            continue
        try:
            partitions.append(
                _resolve(_Wanted(topic, link, partition, is_merged), vectors, held, bounds)
            )
        except _NoCut as error:
            leave_out(topic.origin, partition, str(error))
    if source_topic is not None:
        for origin, partition in _not_copied(vectors, held, bounds, links, source_topic):
            leave_out(origin, partition, "the aggregate has no copy of it")
    return Cut(as_of_ms=as_of_ms, partitions=tuple(partitions), left_out=tuple(left_out))


def _every(vectors: Vectors, held: HeldLogs, bounds: Bounds) -> list[tuple[ReadTopic, int, bool]]:
    """Return each partition of each copy within the bounds, and whether links merge in it.

    Where links merge, only those partitions of a source count that its link states.
    """
    found: list[tuple[ReadTopic, int, bool]] = []
    for name, topics in sorted(held.topics.items()):
        here = {at.partition for at in held.ends if at.topic == name}
        for topic in topics:
            vector = vectors.as_of.get(topic.link.name or "") if topic.link else None
            stated = {
                partition
                for source, partition in (vector.cuts if vector else ())
                if source == topic.origin.topic
            }
            is_merged = len(topics) > 1
            counted = stated if is_merged and vector and vector.problem is None else stated | here
            found += [
                (topic, partition, is_merged)
                for partition in sorted(counted)
                if _is_within(bounds, topic.origin.datacenter, partition)
            ]
    return found


def _not_copied(
    vectors: Vectors,
    held: HeldLogs,
    bounds: Bounds,
    links: Sequence[MirrorLink],
    source_topic: str,
) -> list[tuple[Origin, int]]:
    """Return partitions of a source topic that has records, but no copy on the aggregate."""
    copied = {topic.link.name for topics in held.topics.values() for topic in topics if topic.link}
    return [
        (Origin(link.datacenter, source_topic), partition)
        for link in links
        if link.name is not None and link.name not in copied and link.name in vectors.as_of
        for (source, partition), cut in vectors.as_of[link.name].cuts.items()
        if source == source_topic and (cut.sample is None or cut.sample.end > 0)
        if _is_within(bounds, link.datacenter, partition)
    ]


def _is_within(bounds: Bounds, datacenter: str | None, partition: int) -> bool:
    if bounds.datacenters and datacenter not in bounds.datacenters:
        return False
    return not bounds.partitions or partition in bounds.partitions


def _resolve(wanted: _Wanted, vectors: Vectors, held: HeldLogs, bounds: Bounds) -> CutPartition:
    cut, sample = _sample_of(vectors.as_of, wanted)
    source_start = 0
    if vectors.since is not None:
        since, first = _sample_of(vectors.since, wanted, where="at the start of the cut, ")
        if since.topic_id != cut.topic_id:
            raise _NoCut("its source topic was re-created within the cut")
        source_start = first.end
    offsets = CutOffsets(0, 0)
    if source_start < sample.end:
        offsets = _held_offsets(wanted, cut.topic_id, source_start, sample.end, held, bounds)
    return CutPartition(
        key=wanted.key,
        datacenter=wanted.topic.origin.datacenter,
        source_topic=wanted.topic.origin.topic,
        sampled_ms=sample.sampled_ms,
        source_end=sample.end,
        is_proved=cut.is_proved,
        offsets=offsets,
    )


def _sample_of(
    vectors: Mapping[str, LinkVector], wanted: _Wanted, where: str = ""
) -> tuple[PartitionCut, CutSample]:
    vector = vectors[wanted.link]
    if vector.problem is not None:
        raise _NoCut(where + vector.problem)
    cut = vector.cuts.get(wanted.source)
    if cut is None:
        raise _NoCut(where + why_unknown(completeness_topic_name(wanted.link)))
    if cut.sample is None:
        raise _NoCut(where + why_refused(cut))
    return cut, cut.sample


def _held_offsets(
    wanted: _Wanted,
    topic_id: UUID,
    source_start: int,
    source_end: int,
    held: HeldLogs,
    bounds: Bounds,
) -> CutOffsets:
    """Return where the aggregate holds source offsets [source_start, source_end)."""
    name = wanted.topic.name
    ends = held.ends.get(wanted.key.at)
    if ends is None:
        raise _NoCut(f"{name} has no such partition")
    if name in held.not_kept:
        raise _NoCut(held.not_kept[name])
    offset_map = _map_of(wanted, topic_id, held)
    start = 0
    if source_start > 0:
        start = _translated(offset_map, source_start)
    if bounds.offsets.first is not None:
        first = min(bounds.offsets.first, source_end)
        start = max(start, _translated(offset_map, first))
    start = max(start, bounds.aggregate_offsets.first or 0)
    if start < ends.log_start_offset:
        raise _NoCut(
            f"{name} begins at offset {ends.log_start_offset}, and the cut at {start}: "
            "records of the cut are deleted; since begins a cut later"
        )
    end = _translated(offset_map, source_end)
    if end > ends.last_stable_offset:
        raise _NoCut(f"{name} ends at offset {ends.last_stable_offset}, and the cut at {end}")
    if wanted.is_merged and any(hole[0] < source_end for hole in offset_map.holes()):
        raise _NoCut("the origin of some copies is unknown, and other links fill the topic too")
    return CutOffsets(min(start, end), end)


def _map_of(wanted: _Wanted, topic_id: UUID, held: HeldLogs) -> OffsetMap:
    target_id = held.topic_ids.get(wanted.topic.name)
    map_topic = held.maps.get(wanted.link)
    flow = None if map_topic is None else map_topic.latest_flow(*wanted.source, target_id)
    offset_map = None if map_topic is None or flow is None else map_topic.offset_map(flow)
    if flow is None or offset_map is None:
        raise _NoCut("no offset map has it")
    if flow.source_topic_id != topic_id:
        raise _NoCut("its offset map is of another topic id")
    return offset_map


def _translated(offset_map: OffsetMap, source_offset: int) -> int:
    """Return the offset of the aggregate right behind the copies before a source offset."""
    if source_offset > offset_map.source_next:
        raise _NoCut(
            f"its copy has come to source offset {offset_map.source_next}, and the cut ends at "
            f"{source_offset}"
        )
    found = offset_map.translate(source_offset)
    if found.state is TranslationState.PENDING:
        raise _NoCut(f"the aggregate has deleted its copies around source offset {source_offset}")
    if found.state is not TranslationState.EXACT:
        raise _NoCut(f"its offset map does not know source offset {source_offset} exactly")
    assert found.target_offset is not None, found
    return found.target_offset
