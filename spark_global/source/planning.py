"""Plans a read: asks the clusters once, on the driver, before any task runs.

The order of requests matters for the audit: first the ends of the aggregate, then the offset maps,
cut at these ends, then the ends of the sources. So every record that a map has is read on both
sides. Records that are produced meanwhile are past the map on the source's side.
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
from mirror_maker.formats import MapTopic
from spark_global.addresses import ClusterAddress
from spark_global.cut.offsets import Cut
from spark_global.cut.resolving import HeldLogs, Vectors, resolve_cut
from spark_global.cut.samples import read_not_kept, read_vectors
from spark_global.cut.statements import Statements, read_statements
from spark_global.links import MirrorLink
from spark_global.source.asked.configs import (
    TopicSettings,
    configs_at_sources,
    configs_on_aggregate,
)
from spark_global.source.asked.groups import (
    GroupPosition,
    groups_at_sources,
    groups_on_aggregate,
)
from spark_global.source.coverage import (
    PartitionEnds,
    ReadPlan,
    ReadTopic,
    SourcePartition,
    aggregate_ranges,
    both_sides,
    choose_topics,
    cut_ranges,
)
from spark_global.source.maps import Maps, load_map_topics, mapped_partitions
from spark_global.source.options import ReadOptions
from spark_global.source.pruning import Bounds, cut_range
from spark_global.source.splits import Origin, by_source_topic
from spark_global.source.tables import (
    FINGERPRINTS_TABLE,
    GROUPS_TABLE,
    LAG_TABLE,
    SOURCE_END_OFFSETS_TABLE,
    TOPIC_CONFIGS_TABLE,
)
from spark_global.source.verdicts import (
    AuditedPartition,
    JournalEntry,
    read_journals,
    read_verdicts,
    select,
    select_entries,
)
from spark_global.streaming.progress import Progress
from spark_global.streaming.publishing import published_progress

_WITH_SOURCES: Final = (FINGERPRINTS_TABLE, SOURCE_END_OFFSETS_TABLE)
_WITH_SOURCES_IF_KNOWN: Final = (GROUPS_TABLE, LAG_TABLE, TOPIC_CONFIGS_TABLE)
"""Links without `bootstrap` of their source have no rows of it."""


async def plan_read(options: ReadOptions) -> ReadPlan:
    """Plan a read. Raises KafkaError, and CutRefusedError for a cut that has no exact answer."""
    bounds, cut, vectors = options.bounds, options.cut, None
    if cut is None and options.as_of is not None:
        vectors = await read_vectors(options)
    async with options.cluster.client() as client:
        surveyed = await _survey(options, client)
        ends, topics, maps = surveyed.ends, surveyed.topics, surveyed.maps
        timestamp_starts = await _timestamp_starts(client, ends, bounds)
        if vectors is not None:
            found = await _resolve(options, client, surveyed, vectors)
            if not options.allow_missing:
                found.check_whole()
            cut = found.offsets()
    sources: Mapping[TopicPartition, list[SourcePartition]] = {}
    if options.table in _WITH_SOURCES or options.table in _WITH_SOURCES_IF_KNOWN:
        sources = await _source_ends(options, chain.from_iterable(topics.values()))
    if options.table == FINGERPRINTS_TABLE:
        ranges = both_sides(options, topics, ends, maps, sources)
    else:
        if options.topic is not None and not topics:
            raise unknown_topic(options.topic, options.bootstrap)
        ranges = []
        for at, end in ends.items():
            here = aggregate_ranges(options, topics[at.topic], at, end, maps.get(at, []))
            if cut is not None:
                here = cut_ranges(topics[at.topic], here, cut)
            first = timestamp_starts.get(at, 0)
            ranges += [replace(one, start=max(one.start, first)) for one in here]
    apart = chain.from_iterable(map(by_source_topic, ranges))
    within = [part for part in (cut_range(one, bounds) for one in apart) if part is not None]
    return ReadPlan(topics, ends, {at: maps[at] for at in ends if at in maps}, within, sources)


async def plan_completeness(options: ReadOptions) -> Statements:
    """Return what the links state of the partitions that the options select. Raises KafkaError."""
    wanted = options.bounds
    links = _link_names(options)
    return {
        link: {
            (topic, partition): found
            for (topic, partition), found in stated.items()
            if options.topic in (None, topic)
            and (not wanted.partitions or partition in wanted.partitions)
        }
        for link, stated in (await read_statements(options.maps, links)).items()
    }


def _link_names(options: ReadOptions) -> set[str]:
    wanted = options.bounds.datacenters
    return {
        link.name
        for link in options.links
        if link.name is not None and (not wanted or link.datacenter in wanted)
    }


async def plan_audit(options: ReadOptions) -> tuple[list[AuditedPartition], Statements]:
    """Return what the audits of the links say, and beside it what the links state.

    Raises KafkaError and MapFormatError.
    """
    stated = await plan_completeness(options)
    async with options.maps.client() as client:
        audited = await read_verdicts(client, stated)
    return select(audited, options.topic, options.bounds.partitions), stated


async def plan_journal(options: ReadOptions) -> list[JournalEntry]:
    """Return what the journals of the links have. Raises KafkaError and MapFormatError."""
    async with options.maps.client() as client:
        entries = await read_journals(client, _link_names(options))
    return select_entries(entries, options.topic, options.bounds.partitions)


async def plan_progress(options: ReadOptions) -> dict[str, list[Progress]]:
    """Return what streams of the cluster publish of themselves, by group. Raises KafkaError."""
    async with options.cluster.client() as client:
        return await published_progress(client)


async def plan_cut(options: ReadOptions, vectors: Vectors) -> Cut:
    """Return the cut of a read, also if partitions are left out. Raises KafkaError."""
    async with options.cluster.client() as client:
        return await _resolve(options, client, await _survey(options, client), vectors)


@dataclass(frozen=True, slots=True)
class _Surveyed:
    """What the cluster to read has of the topics that the options select."""

    metadata: ClusterMetadata
    topics: Mapping[str, list[ReadTopic]]
    ends: Mapping[TopicPartition, PartitionEnds]
    maps: Maps
    map_topics: Mapping[str, MapTopic]


async def _survey(options: ReadOptions, client: KafkaClient) -> _Surveyed:
    metadata = await client.metadata()
    candidates = options.topics or [n for n in metadata.topics if not is_bookkeeping(n)]
    missing = [name for name in candidates if name not in metadata.topics]
    if missing:
        raise unknown_topic(", ".join(missing), options.bootstrap)
    ends = await _list_ends(client, _partitions(metadata, candidates))
    map_topics = await _read_map_topics(options, client)
    maps = mapped_partitions(map_topics)
    topics = choose_topics(options, candidates, chain.from_iterable(maps.values()))
    ends = {at: end for at, end in ends.items() if at.topic in topics}
    return _Surveyed(metadata, topics, ends, maps, map_topics)


async def _resolve(
    options: ReadOptions, client: KafkaClient, surveyed: _Surveyed, vectors: Vectors
) -> Cut:
    assert options.as_of is not None, "the caller has checked it"
    held = HeldLogs(
        topics=surveyed.topics,
        topic_ids={name: surveyed.metadata.topics[name].topic_id for name in surveyed.topics},
        ends=surveyed.ends,
        maps=surveyed.map_topics,
        not_kept=await read_not_kept(client, surveyed.topics),
    )
    return resolve_cut(
        options.as_of,
        vectors,
        held,
        options.bounds,
        links=options.links,
        source_topic=options.topic,
    )


async def plan_groups(options: ReadOptions) -> list[GroupPosition]:
    """Return the positions of all groups, on the aggregate and at sources. Raises KafkaError.

    Links without `bootstrap` have no positions at their source.
    """
    plan = await plan_read(options)
    async with options.cluster.client() as client:
        here = await groups_on_aggregate(client, plan.topics, plan.ends)
    return here + await groups_at_sources(plan.sources)


async def plan_configs(options: ReadOptions) -> list[TopicSettings]:
    """Return the configs of all topics, on the aggregate and at sources. Raises KafkaError.

    Links without `bootstrap` have no configs at their source.
    """
    plan = await plan_read(options)
    async with options.cluster.client() as client:
        here = await configs_on_aggregate(client, plan.topics)
    return here + await configs_at_sources(plan.sources.values())


def unknown_topic(name: str, bootstrap: str) -> KafkaError:
    """Return the error for a topic that the cluster does not have."""
    return KafkaError(ErrorCode.unknown_topic_or_partition, f"{name} at {bootstrap}")


def is_bookkeeping(topic: str) -> bool:
    """Return whether a topic is internal to Kafka or to mirrors, by MirrorMaker 2's default."""
    return topic.startswith("__") or topic.endswith((".internal", "-internal", ".replica"))


def _partitions(metadata: ClusterMetadata, topics: Iterable[str]) -> list[TopicPartition]:
    return [
        TopicPartition(name, partition)
        for name in topics
        for partition in sorted(metadata.topics[name].partitions)
    ]


async def _read_map_topics(options: ReadOptions, client: KafkaClient) -> dict[str, MapTopic]:
    if not options.links:
        return {}
    if options.maps == options.cluster:
        return await load_map_topics(client)
    async with options.maps.client() as elsewhere:
        return await load_map_topics(elsewhere)


async def _list_ends(
    client: KafkaClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, PartitionEnds]:
    if not partitions:
        return {}
    starts = await list_offsets(client, partitions, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)
    ends = await list_offsets(client, partitions, LATEST_TIMESTAMP, READ_COMMITTED)
    return {at: PartitionEnds(starts[at].offset, ends[at].offset) for at in partitions}


async def list_offsets(
    client: KafkaClient, partitions: Iterable[TopicPartition], timestamp_ms: int, isolation: int
) -> dict[TopicPartition, ListedOffset]:
    """Return the offsets of a timestamp. Raises KafkaError, also for one partition's error."""
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
    """Return the first offset at or after the time bound, or the end of the partition."""
    if bounds.timestamp_ms_first is None or not ends:
        return {}
    listed = await list_offsets(client, ends, max(0, bounds.timestamp_ms_first), READ_UNCOMMITTED)
    return {
        at: entry.offset if entry.offset >= 0 else ends[at].last_stable_offset
        for at, entry in listed.items()
    }


async def _source_ends(
    options: ReadOptions, topics: Iterable[ReadTopic]
) -> dict[TopicPartition, list[SourcePartition]]:
    """Return the source partitions, by topic and partition of the aggregate.

    A topic of option `topic` is looked up at every link's source, so that a topic which never
    reached the aggregate is reported.
    """
    by_link: dict[MirrorLink, dict[str, ReadTopic]] = {link: {} for link in options.links}
    for topic in topics:
        if topic.link is not None:
            by_link[topic.link][topic.origin.topic] = topic
    found: dict[TopicPartition, list[SourcePartition]] = {}
    for link, mirrored in by_link.items():
        if link.bootstrap is None and options.table in _WITH_SOURCES_IF_KNOWN:
            continue
        if link.bootstrap is None:
            raise ValueError(f"option links: link {link.name} has no bootstrap of its source")
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
