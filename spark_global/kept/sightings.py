"""Until when a table is complete, per datacenter. Pure.

A mirror states: every record that its source committed before T is on the aggregate, or left out,
and its copy has come to source offset P. The offset map has the end of the copies below P, so a
table whose positions have reached that end is complete through T. If the map is behind P, the end
is the last stable offset, read after the statement. A leader that was cut off could give a smaller
one; then the map must be behind too.

A sighting is such a statement with the ends to reach.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.replayed_topic import PartitionCompleteness
from spark_global.cut.statements import Statements
from spark_global.kept.said import Through
from spark_global.links import MirrorLink
from spark_global.source.coverage import ReadTopic
from spark_global.source.maps import MappedPartition, Maps
from spark_global.source.provenance import MapRuns
from spark_global.streaming.positions import StreamPositions

SIGHTINGS_MAX: Final = 256
"""Sightings of a job that catches up. If there are more, every second one is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What was stated of a datacenter, and the ends that a table must have reached."""

    stated: Through
    ends: Mapping[TopicPartition, int]


class Sightings:
    """The sightings that matter for a table, oldest first."""

    def __init__(self) -> None:
        self._kept: list[Mapping[str, Sighting]] = []

    def add(self, found: Mapping[str, Sighting]) -> None:
        """Note the sightings of one moment, by datacenter."""
        self._kept.append(found)
        if len(self._kept) > SIGHTINGS_MAX:
            self._kept = [*self._kept[:-1:2], self._kept[-1]]

    def reached(self, positions: StreamPositions) -> dict[str, Through]:
        """Return the newest statement about each datacenter that holds at these positions.

        A datacenter whose sightings are all ahead of the positions is absent.
        """
        found: dict[str, Through] = {}
        oldest_needed = 0
        for index in reversed(range(len(self._kept))):
            reached_here = 0
            for datacenter, sighting in self._kept[index].items():
                if not _has_reached(positions, sighting.ends):
                    continue
                reached_here += 1
                found.setdefault(datacenter, sighting.stated)
            if reached_here == len(self._kept[index]):
                oldest_needed = index  # positions never go back: nothing older matters
                break
        del self._kept[:oldest_needed]
        return found


def sightings_of(
    copies: Mapping[str, Sequence[ReadTopic]],
    partitions: Mapping[str, Sequence[int]],
    ends: Mapping[TopicPartition, int],
    statements: Statements,
    maps: Maps,
) -> dict[str, Sighting]:
    """Return a sighting of each datacenter about whose every partition there is a statement.

    `copies` and `partitions` are by topic of the aggregate. `ends` has the last stable offset of
    each partition that can be read. The statements must be older than the ends.
    """
    stated: dict[str, list[Through]] = {}
    unknown: set[str] = set()
    seen: dict[str, dict[TopicPartition, int]] = {}
    for topic, origins in copies.items():
        for each in origins:
            datacenter = each.origin.datacenter
            if datacenter is None:
                continue
            link = None if each.link is None else each.link.name
            known = {
                partition: found
                for (name, partition), found in statements.get(link or "", {}).items()
                if name == each.origin.topic
            }
            # Where links merge, a datacenter has the partitions that its own link states or maps.
            mapped = _mapped(partitions[topic], topic, maps, link, each.origin.topic)
            expected = set(known) | (mapped if len(origins) > 1 else set(partitions[topic]))
            places = [TopicPartition(topic, partition) for partition in sorted(expected)]
            whole = bool(expected) and expected == set(known) and all(at in ends for at in places)
            if not whole:
                unknown.add(datacenter)
                continue
            stated.setdefault(datacenter, []).append(_through(known.values(), link))
            to_reach = seen.setdefault(datacenter, {})
            for at in places:
                runs = _runs(maps.get(at, ()), link, each.origin.topic)
                end = _end(known[at.partition], runs, ends[at])
                to_reach[at] = max(end, to_reach.get(at, 0))
    return {
        name: Sighting(stated=_least(found), ends=seen[name])
        for name, found in sorted(stated.items())
        if name not in unknown
    }


def sightings_without_copies(
    copies: Mapping[str, Sequence[ReadTopic]],
    links: Iterable[MirrorLink],
    statements: Statements,
    topic: str | None,
    *,
    reads_all: bool = False,
) -> dict[str, Sighting]:
    """Return a sighting of each datacenter whose links state a topic that they have no copy of.

    A copy would have been there before its records were stated, so there is nothing to reach. With
    topic None any topic counts. Of a link with copies only new topics count, which its source has
    and nobody copies yet, and these only if `reads_all` topics.
    """
    copied = {
        (each.link.name, each.origin.topic)
        for origins in copies.values()
        for each in origins
        if each.link
    }
    with_copies = {name for name, _ in copied}
    found: dict[str, list[Through]] = {}
    for link in links:
        own = [
            each
            for (name, _), each in statements.get(link.name or "", {}).items()
            if topic in (None, name)
        ]
        if link.name in with_copies:
            own = [
                each
                for each in own
                if reads_all and not each.is_stated and (link.name, each.topic) not in copied
            ]
        if own:
            found.setdefault(link.datacenter, []).append(_through(own, link.name))
    return {name: Sighting(stated=_least(each), ends={}) for name, each in sorted(found.items())}


def with_more_links(
    found: Mapping[str, Sighting],
    more: Mapping[str, Sighting],
    with_copies: Collection[str],
) -> dict[str, Sighting]:
    """Return sightings of datacenters, some links of which have no copies yet.

    `found` is of the links with copies, `more` of the others. A datacenter of `with_copies` about
    which nothing was found stays unknown.
    """
    united = {
        name: replace(each, stated=_least([each.stated, more[name].stated]))
        if name in more
        else each
        for name, each in found.items()
    }
    return united | {name: each for name, each in more.items() if name not in with_copies}


def datacenters_of(copies: Mapping[str, Sequence[ReadTopic]]) -> set[str]:
    """Return the datacenters that have copies."""
    return {
        each.origin.datacenter
        for origins in copies.values()
        for each in origins
        if each.origin.datacenter is not None
    }


def _mapped(
    partitions: Iterable[int], topic: str, maps: Maps, link: str | None, source_topic: str
) -> set[int]:
    """Return the partitions of a copy that the map of a link has."""
    return {
        partition
        for partition in partitions
        if _runs(maps.get(TopicPartition(topic, partition), ()), link, source_topic) is not None
    }


def _runs(maps: Sequence[MappedPartition], link: str | None, topic: str) -> MapRuns | None:
    found = (each.runs for each in maps if (each.link, each.source_topic) == (link, topic))
    return next(found, None)


def _end(found: PartitionCompleteness, runs: MapRuns | None, stable_end: int) -> int:
    """Return the end of the copies that a statement is about."""
    if runs is None or runs.source_next < found.position:
        return stable_end
    # What lies below the first run may be copies of a source topic that was re-created since.
    first = int(runs.targets[0]) if len(runs) else runs.target_next
    return max(first, runs.targets_before(found.position))


def _has_reached(positions: StreamPositions, ends: Mapping[TopicPartition, int]) -> bool:
    return all(positions.offsets.get(at, -1) >= end for at, end in ends.items())


def _through(known: Iterable[PartitionCompleteness], link: str | None) -> Through:
    about = () if link is None else (link,)
    return _least(
        [
            Through(each.complete_through_ms, each.proved_through_ms, each.gaps, about)
            for each in known
        ]
    )


def _least(found: Sequence[Through]) -> Through:
    return Through(
        _least_or_none([each.through_ms for each in found]),
        _least_or_none([each.proved_ms for each in found]),
        sum(each.gaps for each in found),
        tuple(sorted({link for each in found for link in each.links})),
    )


def _least_or_none(times: Sequence[int | None]) -> int | None:
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None
