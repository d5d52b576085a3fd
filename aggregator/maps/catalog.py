"""The merged topics: `flights` on the aggregate is `ewr.flights`, `jfk.flights`, ... Pure.

The offset maps prove which source topic an aggregate topic is a copy of. Without a map the links'
naming decides, the longest matching alias first. Only the aliases of the settings are tried, so
dots in aliases and topics are never guessed at.

A topic into which several links merge is a part of each of these links.

Guarantees: each aggregate topic is listed once per link that fills it, or as local. An unknown
count is None, not 0. Internal topics are excluded by MirrorMaker 2's rule.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from aggregator.settings import LinkSettings

_INTERNAL: Final = re.compile(r"__.*|.*[-.]internal|.*\.replica")
"""MirrorMaker 2's default `topics.exclude`."""
NAME_CHARACTERS_MAX: Final = 255
"""No topic and no link has a longer name."""


class MappedTopic(NamedTuple):
    """A proof from an offset map: the copy of a source topic of a link."""

    link: str
    source_topic: str
    target_topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopic:
    """A topic of the aggregate that a link fills."""

    topic: str
    link: str
    datacenter: str
    source: str
    source_topic: str
    partitions: int | None
    """None if the aggregate does not list the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTopic:
    """The topics of the aggregate that are copies of one topic in several datacenters."""

    name: str
    parts: tuple[MirroredTopic, ...]
    """Ordered by datacenter, then by aggregate topic."""

    @property
    def partitions(self) -> int | None:
        """Partitions of all its topics; None if one of them is unknown."""
        counts = list({part.topic: part.partitions for part in self.parts}.values())
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The topics of one aggregate cluster: merged and local."""

    merged: Mapping[str, MergedTopic]
    local: Mapping[str, int]
    """Partition counts of the topics that are no copies."""

    def part(self, link: str, source_topic: str) -> MirroredTopic | None:
        """Return the copy of a link's source topic, or None."""
        merged = self.merged.get(source_topic)
        if merged is None:
            return None
        return next((part for part in merged.parts if part.link == link), None)

    def parts_of(self, target_topic: str) -> tuple[MirroredTopic, ...]:
        """Return one part per link that fills an aggregate topic."""
        return tuple(
            part
            for merged in self.merged.values()
            for part in merged.parts
            if part.topic == target_topic
        )


def is_internal(topic: str) -> bool:
    """Return whether a topic is internal to Kafka or to mirrors, by MirrorMaker 2's rule."""
    return _INTERNAL.fullmatch(topic) is not None


def build_catalog(
    links: Iterable[LinkSettings],
    partition_counts: Mapping[str, int],
    mapped: Iterable[MappedTopic] = (),
) -> Catalog:
    """Return the catalog of an aggregate with these topics (name: partition count)."""
    by_name = {link.name: link for link in links}
    proven: dict[str, list[MappedTopic]] = defaultdict(list)
    for each in mapped:
        if each.link in by_name:
            proven[each.target_topic].append(each)
    by_alias = sorted(by_name.values(), key=lambda link: len(link.source), reverse=True)
    parts: dict[str, list[MirroredTopic]] = defaultdict(list)
    local: dict[str, int] = {}
    for topic in sorted(partition_counts.keys() | proven.keys()):
        entries = proven.get(topic, [])
        if not entries:
            if is_internal(topic):
                continue
            entries = _by_naming(by_alias, topic)
        if not entries:
            local[topic] = partition_counts[topic]
        for entry in entries:
            link = by_name[entry.link]
            parts[entry.source_topic].append(
                MirroredTopic(
                    topic=topic,
                    link=link.name,
                    datacenter=link.datacenter,
                    source=link.source,
                    source_topic=entry.source_topic,
                    partitions=partition_counts.get(topic),
                )
            )
    merged = {
        name: MergedTopic(
            name=name, parts=tuple(sorted(found, key=lambda part: (part.datacenter, part.topic)))
        )
        for name, found in sorted(parts.items())
    }
    return Catalog(merged=merged, local=local)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name, or None. A body may have a name of a megabyte."""
    if len(name) > NAME_CHARACTERS_MAX:
        return None
    found = difflib.get_close_matches(name, list(known), n=1)
    return found[0] if found else None


def _by_naming(by_alias: Iterable[LinkSettings], topic: str) -> list[MappedTopic]:
    for link in by_alias:
        source_topic = link.source_topic(topic)
        if source_topic is not None:
            return [MappedTopic(link.name, source_topic, topic)]
    return []
