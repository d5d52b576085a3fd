"""What a read covers: topics with their origins, and the ranges of offsets to read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from local_cluster.client.model import TopicPartition
from spark_global.addresses import ClusterAddress
from spark_global.cut.offsets import CutKey, CutOffsets, CutRefusedError
from spark_global.links import MirrorLink
from spark_global.source.maps import MappedPartition
from spark_global.source.options import ReadOptions
from spark_global.source.provenance import FormerCopies, MapRuns
from spark_global.source.splits import Origin, PartitionRange, Takes
from spark_global.source.tables import FINGERPRINTS_TABLE, SOURCE_SIDE

_NO_RUNS: Final = MapRuns.of(())


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """A topic of the cluster that is read, and its origin; link is None if it is no mirror."""

    name: str
    origin: Origin
    link: MirrorLink | None


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Log start and last stable offset of a partition."""

    log_start_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A source partition."""

    topic: ReadTopic
    cluster: ClusterAddress
    ends: PartitionEnds


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Everything that one read covers."""

    topics: Mapping[str, list[ReadTopic]]
    """By name; a topic into which links merge has one entry per link."""
    ends: Mapping[TopicPartition, PartitionEnds]
    maps: Mapping[TopicPartition, list[MappedPartition]]
    ranges: list[PartitionRange]
    sources: Mapping[TopicPartition, list[SourcePartition]] = field(default_factory=dict)
    """Source partitions by their copies, for tables that need them."""


def choose_topics(
    options: ReadOptions, present: Iterable[str], maps: Iterable[MappedPartition]
) -> dict[str, list[ReadTopic]]:
    """Return the topics that the options select, with their origins.

    Offset maps have precedence, then the links' prefixes, the longest first. So dots in names are
    never guessed at. Without links every topic is its own origin.
    """
    links = {link.name: link for link in options.links if link.name is not None}
    proven: dict[str, dict[str, MappedPartition]] = {}
    for entry in maps:
        if entry.link in links:
            proven.setdefault(entry.aggregate_topic, {})[entry.link] = entry
    by_prefix = sorted(options.links, key=lambda link: len(link.prefix), reverse=True)
    chosen: dict[str, list[ReadTopic]] = {}
    for name in sorted(present):
        found = [
            ReadTopic(name, Origin(links[link].datacenter, entry.source_topic), links[link])
            for link, entry in sorted(proven.get(name, {}).items())
        ] or [_by_prefix(name, by_prefix, options.datacenter)]
        for topic in found:
            is_mirror = topic.link is not None or not options.links
            if options.topic in (None, topic.origin.topic) and (is_mirror or options.topics):
                chosen.setdefault(name, []).append(topic)
    return chosen


def aggregate_ranges(
    options: ReadOptions,
    topics: Sequence[ReadTopic],
    at: TopicPartition,
    end: PartitionEnds,
    mapped: Sequence[MappedPartition],
) -> list[PartitionRange]:
    """Return the ranges of one partition of the aggregate: one range without merged links.

    With merged links there is one range per link, for the records that its map has. Records that no
    map has (yet) have ranges of their own: one per link for those that its producer wrote, and one
    for the others, whose origin is unknown. Each range also has the copies of source topics that
    were re-created; see `by_source_topic`. An audit compares the present topics.
    """
    ranges = []
    is_audit = options.table == FINGERPRINTS_TABLE
    for topic in topics:
        runs, topic_id = None, None
        producers: frozenset[int] = frozenset()
        former: tuple[FormerCopies, ...] = ()
        if topic.link is not None:
            own = [entry for entry in mapped if entry.link == topic.link.name]
            if len(topics) == 1 and not own:
                own = list(mapped)  # a link without a name
            runs = own[0].runs.cut_at_target(end.last_stable_offset) if own else _NO_RUNS
            if own and not is_audit:
                topic_id, former = own[0].topic_id, own[0].former
                producers = own[0].producers
        ranges.append(
            PartitionRange(
                cluster=options.cluster,
                origin=topic.origin,
                aggregate_topic=at.topic,
                partition=at.partition,
                start=end.log_start_offset,
                end=end.last_stable_offset,
                runs=runs,
                takes=Takes.ALL if len(topics) == 1 else Takes.MAPPED,
                topic_id=topic_id,
                producers=producers,
                former=former,
            )
        )
    return ranges if len(topics) < 2 or is_audit else [*ranges, *_without_map(ranges)]


def _without_map(ranges: Sequence[PartitionRange]) -> list[PartitionRange]:
    """Return the ranges of the records that no map of merged links has."""
    known = [one.runs for one in ranges if one.runs is not None]
    known += [each.runs for one in ranges for each in one.former]
    runs = MapRuns.union(known)
    start, end = runs.unmapped_span(ranges[0].start, ranges[0].end)
    if start == end:
        return []
    unmapped = [
        replace(one, runs=runs, start=start, end=end, takes=Takes.WRITTEN, topic_id=None, former=())
        for one in ranges
        if one.producers
    ]
    rest = replace(
        ranges[0],
        origin=Origin(None, ranges[0].origin.topic),
        runs=runs,
        start=start,
        end=end,
        takes=Takes.UNMAPPED,
        topic_id=None,
        producers=frozenset().union(*(one.producers for one in ranges)),
        former=(),
    )
    return [*unmapped, rest]


def cut_ranges(
    topics: Sequence[ReadTopic], ranges: Sequence[PartitionRange], cut: Mapping[CutKey, CutOffsets]
) -> list[PartitionRange]:
    """Return the ranges of one partition within a cut. Raises CutRefusedError.

    `ranges` are those of `aggregate_ranges`. Records whose origin is unknown belong to no cut.
    """
    found: list[PartitionRange] = []
    for topic, one in zip(topics, ranges, strict=False):
        link = None if topic.link is None else topic.link.name
        within = cut.get(CutKey(link or "", one.aggregate_topic, one.partition))
        if within is None or within.start == within.end:
            continue
        if within.start < one.start or within.end > one.end:
            raise CutRefusedError(
                f"{one.aggregate_topic}-{one.partition} holds {one.start} to {one.end}, the cut "
                f"has {within.start} to {within.end}"
            )
        found.append(replace(one, start=within.start, end=within.end))
    return found


def both_sides(
    options: ReadOptions,
    topics: Mapping[str, list[ReadTopic]],
    ends: Mapping[TopicPartition, PartitionEnds],
    maps: Mapping[TopicPartition, list[MappedPartition]],
    sources: Mapping[TopicPartition, list[SourcePartition]],
) -> list[PartitionRange]:
    """Return the ranges of an audit: each partition at the source and at the aggregate.

    A partition that only one side has gets only that side's range. With merged links, a record that
    no map has belongs to no link.
    """
    ranges: list[PartitionRange] = []
    for at in sorted(ends.keys() | sources.keys()):
        end = ends.get(at)
        here: dict[Origin, PartitionRange] = {}
        if end is not None:
            found = aggregate_ranges(options, topics[at.topic], at, end, maps.get(at, []))
            here = {one.origin: one for one in found}
        there = {source.topic.origin: source for source in sources.get(at, [])}
        for origin, one in here.items():
            source = there.get(origin)
            start_at_source = source.ends.log_start_offset if source else 0
            ranges.append(replace(one, other_log_start=start_at_source))
        for origin, source in there.items():
            runs = here[origin].runs if origin in here else None
            ranges.append(
                PartitionRange(
                    cluster=source.cluster,
                    side=SOURCE_SIDE,
                    origin=source.topic.origin,
                    aggregate_topic=at.topic,
                    partition=at.partition,
                    start=source.ends.log_start_offset,
                    end=source.ends.last_stable_offset,
                    runs=runs or _NO_RUNS,
                    other_log_start=end.log_start_offset if end else 0,
                )
            )
    return ranges


def _by_prefix(name: str, links: Sequence[MirrorLink], datacenter: str | None) -> ReadTopic:
    for link in links:
        if name.startswith(link.prefix) and len(name) > len(link.prefix):
            return ReadTopic(name, Origin(link.datacenter, name[len(link.prefix) :]), link)
    return ReadTopic(name, Origin(datacenter, name), None)
