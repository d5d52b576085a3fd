"""Translates the positions of a stream to another cluster, by the offset maps. Pure.

A position on an aggregate says which records a stream has read. The map of a link says which source
records these are. So the position at the source is the offset after the last record that was read.
On another aggregate it is the copy of the first record from there on.

Guarantees: the stream reads no record twice and leaves none out. Where that cannot be proved, the
translation is refused: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from local_cluster.client.model import TopicPartition
from spark_global.source.maps import MappedPartition
from spark_global.source.provenance import MapRuns
from spark_global.streaming.positions import CheckpointError, StreamPositions


class LinkBehindError(CheckpointError):
    """The links into the destination have not copied what the stream has read."""


class SourceId(NamedTuple):
    """A source partition by identity, equal in the maps of every link that copies it."""

    cluster_id: str
    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class IdentifiedMap:
    """The offset map of one partition, and the source partition that it is of."""

    source: SourceId
    mapped: MappedPartition

    @property
    def target(self) -> TopicPartition:
        return TopicPartition(self.mapped.aggregate_topic, self.mapped.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The cluster where the stream goes on."""

    cluster_id: str
    topic_ids: Mapping[str, str]
    maps: tuple[IdentifiedMap, ...] | None
    """Maps into an aggregate; None for a source cluster, which is read itself."""


def translate_positions(
    held: StreamPositions, maps: Iterable[IdentifiedMap], to: Destination
) -> StreamPositions:
    """Return the positions in another cluster. Raises CheckpointError with the partition's name."""
    by_target: dict[TopicPartition, list[IdentifiedMap]] = {}
    for each in maps:
        by_target.setdefault(each.target, []).append(each)
    offsets: dict[TopicPartition, int] = {}
    for at, offset in sorted(held.offsets.items()):
        origins = by_target.get(at, [])
        if not origins and offset == 0:
            continue  # nothing was read of it, so it begins at its log start there too
        if not origins:
            raise CheckpointError(f"{at}: no link has published an offset map of it")
        for origin in origins:
            runs = origin.mapped.runs
            if offset > runs.target_next and offset > 0:
                raise CheckpointError(
                    f"{at}: the map of link {origin.mapped.link} reaches offset "
                    f"{runs.target_next}, and the stream has read to {offset}"
                )
            _check_topics_before(at, offset, origin.mapped)
            there, position = _arrive(at, origin.source, source_position(runs, offset), to)
            if offsets.setdefault(there, position) != position:
                raise CheckpointError(f"{there}: several partitions of the checkpoint lead to it")
    missing = sorted({at.topic for at in offsets} - to.topic_ids.keys())
    if missing:
        raise CheckpointError(f"topic {missing[0]} does not exist where the stream is to go on")
    return StreamPositions(
        cluster_id=to.cluster_id,
        topic_ids={topic: to.topic_ids[topic] for topic in {at.topic for at in offsets}},
        offsets=offsets,
    )


def _check_topics_before(at: TopicPartition, offset: int, mapped: MappedPartition) -> None:
    """Refuse a position among the copies of a topic that its source does not have any more."""
    ends = [
        int(each.runs.targets[-1] + each.runs.counts[-1]) for each in mapped.former if each.runs
    ]
    if ends and offset < ends[-1]:
        raise CheckpointError(
            f"{at}: offset {offset} is among the copies of a topic {mapped.source_topic} that was "
            f"deleted and re-created at its source; let the stream read to offset {ends[-1]} first"
        )


def source_position(runs: MapRuns, target: int) -> int:
    """Return the source offset after the last record that was copied below a target offset."""
    at = int(np.searchsorted(runs.targets, target, side="left")) - 1
    if at >= 0:
        into = min(target - int(runs.targets[at]), int(runs.counts[at]))
        return int(runs.sources[at]) + into
    return int(runs.sources[0]) if len(runs) else runs.source_next


def _arrive(
    at: TopicPartition, source: SourceId, position: int, to: Destination
) -> tuple[TopicPartition, int]:
    """Return partition and offset of a source position in the destination."""
    if to.maps is None:
        if source.cluster_id != to.cluster_id:
            raise CheckpointError(
                f"{at} is a copy of {source.topic} in cluster {source.cluster_id}, and the stream "
                f"is to go on in {to.cluster_id}"
            )
        return TopicPartition(source.topic, source.partition), position
    copies = [each for each in to.maps if each.source == source]
    if len(copies) != 1:
        raise CheckpointError(
            f"{at}: {len(copies)} links copy {source.topic}-{source.partition} of cluster "
            f"{source.cluster_id} to where the stream is to go on; exactly one is needed"
        )
    (copy,) = copies
    if sum(each.target == copy.target for each in to.maps) > 1:
        raise CheckpointError(
            f"{copy.target}: several links merge there, so one position of it "
            "is not that of one source"
        )
    runs = copy.mapped.runs
    if position > runs.source_next:
        raise LinkBehindError(
            f"{copy.target}: link {copy.mapped.link} has copied the source offsets below "
            f"{runs.source_next}, and the stream has read to {position}; wait for the link"
        )
    return copy.target, runs.targets_from(position)
