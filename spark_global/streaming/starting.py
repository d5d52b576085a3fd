"""The first position of each partition that enters a stream.

A partition that exists when the query first runs begins where the options say. One that appears
later begins at its log start, because every record in it is newer than the query.

Positions of a source are translated by the offset map: reading begins at the copy of the first
record from there on. A position that the copy does not cover is refused: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.client.admin.group_offsets import committed_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_UNCOMMITTED
from spark_global.addresses import ClusterAddress
from spark_global.source.coverage import ReadTopic
from spark_global.source.maps import MappedPartition, Maps
from spark_global.source.options import EARLIEST, LATEST, ReadOptions, SourceOffsets
from spark_global.source.planning import list_offsets


async def first_offsets(
    client: KafkaClient,
    options: ReadOptions,
    joining: Sequence[TopicPartition],
    stable_ends: Mapping[TopicPartition, int],
    topics: Mapping[str, Sequence[ReadTopic]],
    maps: Maps,
    *,
    is_first_batch: bool,
) -> dict[TopicPartition, int]:
    """Return where reading begins in each partition of `joining`.

    `topics` has the origins of each topic. Raises KafkaError, and ValueError for a given offset
    outside of its log, or without a translation.
    """
    if not joining:
        return {}
    listed = await list_offsets(client, joining, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)
    log_starts = {at: entry.offset for at, entry in listed.items()}
    if not is_first_batch:
        return log_starts
    at_sources = options.starting_source_offsets
    if options.starting_groups is not None:
        at_sources = await _committed_at_sources(options, topics)
    if at_sources is not None:
        spans = {at: (start, stable_ends[at]) for at, start in log_starts.items()}
        return log_starts | translated_offsets(at_sources, spans, topics, maps)
    if options.starting_timestamp is not None:
        at_time = max(0, options.starting_timestamp)
        found = await list_offsets(client, joining, at_time, READ_UNCOMMITTED)
        return {
            at: entry.offset if entry.offset >= 0 else stable_ends[at]
            for at, entry in found.items()
        }
    match options.starting_offsets:
        case str(place):
            assert place in (EARLIEST, LATEST), place
            return log_starts if place == EARLIEST else {at: stable_ends[at] for at in joining}
        case given:
            return given_offsets(given, log_starts, stable_ends)


def given_offsets(
    given: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    stable_ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the given offset of each partition of `log_starts`, or its log start. Pure.

    Raises ValueError for an offset outside of its log, and for a partition that is not read.
    """
    unknown = sorted(given.keys() - log_starts.keys())
    if unknown:
        raise ValueError(f"option starting_offsets: {unknown[0]} is none of the partitions to read")
    offsets = dict(log_starts)
    for at, offset in given.items():
        first, end = log_starts[at], stable_ends[at]
        offset = {EARLIEST_TIMESTAMP: first, LATEST_TIMESTAMP: end}.get(offset, offset)
        if not first <= offset <= end:
            raise ValueError(
                f"option starting_offsets: {at} has the offsets [{first}, {end}), not {offset}"
            )
        offsets[at] = offset
    return offsets


def translated_offsets(
    wanted: SourceOffsets,
    spans: Mapping[TopicPartition, tuple[int, int]],
    topics: Mapping[str, Sequence[ReadTopic]],
    maps: Maps,
) -> dict[TopicPartition, int]:
    """Return the offset of the copy of each source offset. Pure.

    `spans` has log start and last stable offset of each partition to read. Raises ValueError with
    the names of both partitions if there is no such offset.
    """
    copies: dict[tuple[str | None, TopicPartition], list[TopicPartition]] = {}
    for at in sorted(spans):
        for topic in topics[at.topic]:
            source = TopicPartition(topic.origin.topic, at.partition)
            copies.setdefault((topic.origin.datacenter, source), []).append(at)
    offsets = {}
    for place, offset in sorted(wanted.items()):
        datacenter, source = place
        if place not in copies:
            raise ValueError(f"start at {datacenter} {source}: no copy of it is to be read")
        for at in copies[place]:
            try:
                offsets[at] = _translated(offset, topics[at.topic], maps.get(at, []), spans[at])
            except ValueError as error:
                raise ValueError(
                    f"start at {datacenter} {source}, offset {offset}: {at}: {error}"
                ) from error
    return offsets


def _translated(
    offset: int,
    origins: Sequence[ReadTopic],
    maps: Sequence[MappedPartition],
    span: tuple[int, int],
) -> int:
    """Return the offset in a partition from which the records from a source offset on lie.

    Raises ValueError.
    """
    if len(origins) > 1:
        raise ValueError("several links merge there, so one position of it is not that of a source")
    if len(maps) != 1:
        raise ValueError(f"{len(maps)} links have published an offset map of it; one is needed")
    (mapped,) = maps
    runs = mapped.runs
    if offset > runs.source_next:
        raise ValueError(
            f"link {mapped.link} has copied the source offsets below {runs.source_next}; wait for "
            "the link"
        )
    if len(runs) and offset < runs.sources[0]:
        raise ValueError(
            f"the copy begins with source offset {runs.sources[0]}; start there to leave out what "
            "is before it"
        )
    found, (first, end) = runs.targets_from(offset), span
    if found < first:
        raise ValueError(
            f"its copy had offset {found}, and retention has deleted all below {first}"
        )
    if found > end:
        raise ValueError(f"its copy will have offset {found}, and the log ends at {end}; wait")
    return found


async def _committed_at_sources(
    options: ReadOptions, topics: Mapping[str, Sequence[ReadTopic]]
) -> SourceOffsets:
    """Return what the groups have committed at the sources, in the topics to read.

    Raises KafkaError, and ValueError for a datacenter that cannot be asked or has no such commit.
    """
    origins = {each.origin for found in topics.values() for each in found}
    offsets: dict[tuple[str, TopicPartition], int] = {}
    for datacenter, group in sorted((options.starting_groups or {}).items()):
        sources = {
            ClusterAddress(link.bootstrap, link.security)
            for link in options.links
            if link.datacenter == datacenter and link.bootstrap is not None
        }
        if not sources:
            raise ValueError(
                f"option starting_groups: no link of option links has the datacenter {datacenter} "
                "and a bootstrap"
            )
        read = {each.topic for each in origins if each.datacenter == datacenter}
        found: dict[TopicPartition, int] = {}
        for source in sources:
            async with source.client() as client:
                committed = (await committed_offsets(client, [group])).get(group, {})
            found |= {at: each.offset for at, each in committed.items() if at.topic in read}
        if not found:
            raise ValueError(
                f"option starting_groups: group {group} has committed nothing of the topics to "
                f"read at {datacenter}"
            )
        offsets |= {(datacenter, at): offset for at, offset in found.items()}
    return offsets
