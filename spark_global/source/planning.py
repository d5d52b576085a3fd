"""Which offsets a read covers: asks the clusters once, on the driver, before any task runs.

Order matters for the audit: first where the aggregate ends, then the offset maps, cut at that
end, then where the sources end. So nothing that a map claims is missed on either side, and what
was produced meanwhile lies past the map on the source's side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ClusterMetadata, ListedOffset, TopicPartition
from local_cluster.wire.constants import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from spark_global.addresses import ClusterAddress
from spark_global.links import MirrorLink
from spark_global.source.maps import MappedPartition, Maps, load_maps
from spark_global.source.options import ReadOptions
from spark_global.source.provenance import MapRuns
from spark_global.source.pruning import Bounds, cut_range
from spark_global.source.splits import Origin, PartitionRange, Takes
from spark_global.source.tables import FINGERPRINTS_TABLE, SOURCE_SIDE

_NO_RUNS: Final = MapRuns.of(())


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """A topic of the cluster that is read, and what it is a mirror of (link None: of nothing)."""

    name: str
    origin: Origin
    link: MirrorLink | None


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Where the log of a partition starts and ends for a read_committed reader."""

    log_start_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A partition at its source."""

    topic: ReadTopic
    cluster: ClusterAddress
    ends: PartitionEnds


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Everything one read covers."""

    topics: Mapping[str, list[ReadTopic]]
    """By name; several where links are merged into the topic, one for each of them."""
    ends: Mapping[TopicPartition, PartitionEnds]
    maps: Mapping[TopicPartition, list[MappedPartition]]
    ranges: list[PartitionRange]


def choose_topics(
    options: ReadOptions, present: Iterable[str], maps: Iterable[MappedPartition]
) -> dict[str, list[ReadTopic]]:
    """Which of the present topics the options ask for, and what each is a mirror of.

    What an offset map proves comes first, then the links' prefixes, the longest first, so that
    dots in names are never guessed at. Without links every topic is its own origin.
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


async def plan_read(options: ReadOptions) -> ReadPlan:
    """Ask the clusters what there is to read. Raises KafkaError."""
    bounds = options.bounds
    async with options.cluster.client() as client:
        metadata = await client.metadata()
        candidates = options.topics or [n for n in metadata.topics if not _is_bookkeeping(n)]
        missing = [name for name in candidates if name not in metadata.topics]
        if missing:
            raise _unknown(", ".join(missing), options.bootstrap)
        ends = await _list_ends(client, _partitions(metadata, candidates))
        maps = await _read_maps(options, client)
        topics = choose_topics(options, candidates, chain.from_iterable(maps.values()))
        ends = {at: end for at, end in ends.items() if at.topic in topics}
        timestamp_starts = await _timestamp_starts(client, ends, bounds)
    if options.table == FINGERPRINTS_TABLE:
        sources = await _source_ends(options, chain.from_iterable(topics.values()))
        ranges = _both_sides(options, topics, ends, maps, sources)
    else:
        if options.topic is not None and not topics:
            raise _unknown(options.topic, options.bootstrap)
        ranges = [
            replace(one, start=max(one.start, timestamp_starts.get(at, 0)))
            for at, end in ends.items()
            for one in aggregate_ranges(options, topics[at.topic], at, end, maps.get(at, []))
        ]
    cut = [part for part in (cut_range(one, bounds) for one in ranges) if part is not None]
    return ReadPlan(topics, ends, {at: maps[at] for at in ends if at in maps}, cut)


def _unknown(name: str, bootstrap: str) -> KafkaError:
    return KafkaError(ErrorCode.unknown_topic_or_partition, f"{name} at {bootstrap}")


def aggregate_ranges(
    options: ReadOptions,
    topics: Sequence[ReadTopic],
    at: TopicPartition,
    end: PartitionEnds,
    mapped: Sequence[MappedPartition],
) -> list[PartitionRange]:
    """The partition once; where links are merged into it once for each of them, for the records
    that its map has, and once for what no map has, of which nobody knows whose it is."""
    ranges = []
    for topic in topics:
        runs = None
        if topic.link is not None:
            own = [entry.runs for entry in mapped if entry.link == topic.link.name]
            if len(topics) == 1 and not own:
                own = [entry.runs for entry in mapped]  # a link that was given no name
            runs = own[0].cut_at_target(end.last_stable_offset) if own else _NO_RUNS
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
            )
        )
    if len(topics) > 1 and options.table != FINGERPRINTS_TABLE:
        ranges.append(
            replace(
                ranges[0],
                origin=Origin(None, topics[0].origin.topic),
                runs=MapRuns.union([one.runs for one in ranges if one.runs is not None]),
                takes=Takes.UNMAPPED,
            )
        )
    return ranges


def _both_sides(
    options: ReadOptions,
    topics: Mapping[str, list[ReadTopic]],
    ends: Mapping[TopicPartition, PartitionEnds],
    maps: Mapping[TopicPartition, list[MappedPartition]],
    sources: Mapping[TopicPartition, list[SourcePartition]],
) -> list[PartitionRange]:
    """The ranges of the audit: of each partition what lies at the source and at the aggregate.

    A partition that only one side has is there with that side alone. Where links are merged, a
    record that no map has belongs to none of them.
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


def _is_bookkeeping(topic: str) -> bool:
    """MirrorMaker 2's default exclusion: what Kafka and mirrors keep for themselves."""
    return topic.startswith("__") or topic.endswith((".internal", "-internal", ".replica"))


def _partitions(metadata: ClusterMetadata, topics: Iterable[str]) -> list[TopicPartition]:
    return [
        TopicPartition(name, partition)
        for name in topics
        for partition in sorted(metadata.topics[name].partitions)
    ]


async def _read_maps(options: ReadOptions, client: KafkaClient) -> Maps:
    if not options.links:
        return {}
    if options.maps == options.cluster:
        return await load_maps(client)
    async with options.maps.client() as elsewhere:
        return await load_maps(elsewhere)


async def _list_ends(
    client: KafkaClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, PartitionEnds]:
    if not partitions:
        return {}
    starts = await _list(client, partitions, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)
    ends = await _list(client, partitions, LATEST_TIMESTAMP, READ_COMMITTED)
    return {at: PartitionEnds(starts[at].offset, ends[at].offset) for at in partitions}


async def _list(
    client: KafkaClient, partitions: Iterable[TopicPartition], timestamp_ms: int, isolation: int
) -> dict[TopicPartition, ListedOffset]:
    listed = await client.list_offsets(
        dict.fromkeys(partitions, timestamp_ms), isolation_level=isolation
    )
    for at, entry in listed.items():
        if entry.error:
            raise KafkaError(entry.error, f"ListOffsets of {at}")
    return listed


async def _timestamp_starts(
    client: KafkaClient, ends: Mapping[TopicPartition, PartitionEnds], bounds: Bounds
) -> dict[TopicPartition, int]:
    """First offset with a timestamp at or above the bound; a partition without one: its end."""
    if bounds.timestamp_ms_first is None or not ends:
        return {}
    listed = await _list(client, ends, max(0, bounds.timestamp_ms_first), READ_UNCOMMITTED)
    return {
        at: entry.offset if entry.offset >= 0 else ends[at].last_stable_offset
        for at, entry in listed.items()
    }


async def _source_ends(
    options: ReadOptions, topics: Iterable[ReadTopic]
) -> dict[TopicPartition, list[SourcePartition]]:
    """What lies at the sources, by topic and partition of the aggregate.

    A topic named by option `topic` is looked for at every link's source, so that one which never
    reached the aggregate shows as such.
    """
    by_link: dict[MirrorLink, dict[str, ReadTopic]] = {link: {} for link in options.links}
    for topic in topics:
        if topic.link is not None:
            by_link[topic.link][topic.origin.topic] = topic
    found: dict[TopicPartition, list[SourcePartition]] = {}
    for link, mirrored in by_link.items():
        if link.bootstrap is None:
            raise ValueError(f"option links: link {link.name} has no bootstrap to audit against")
        if options.topic is not None and options.topic not in mirrored:
            origin = Origin(link.datacenter, options.topic)
            mirrored[options.topic] = ReadTopic(link.prefix + options.topic, origin, link)
        source = ClusterAddress(link.bootstrap, link.security)
        async with source.client() as client:
            metadata = await client.metadata(sorted(mirrored))
            present = {name: topic for name, topic in metadata.topics.items() if not topic.error}
            partitions = [TopicPartition(n, p) for n, t in present.items() for p in t.partitions]
            for at, ends in (await _list_ends(client, partitions)).items():
                topic = mirrored[at.topic]
                found.setdefault(TopicPartition(topic.name, at.partition), []).append(
                    SourcePartition(topic, source, ends)
                )
    return found
