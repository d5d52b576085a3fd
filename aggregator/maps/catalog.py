"""The catalog of merged topics: `flights` on the aggregate is `ewr.flights`, `jfk.flights`, ...

Which topic of the aggregate is a mirror of what is decided by evidence first: the offset maps name
(link, source topic, aggregate topic). Where no map speaks yet, the links' naming decides, the
longest matching alias first; dots inside aliases and topics are then never guessed at, because
only the aliases of the settings are tried.

A topic that several links are merged into is a part of each of them.

Guarantees: each aggregate topic is in one place per link that fills it, or local; a count that
nobody told is None, not 0.
Not here: metadata requests; names of internal topics are left out as MirrorMaker 2 leaves them out.
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


class MappedTopic(NamedTuple):
    """What an offset map proves: this topic of the link's source is that topic here."""

    link: str
    source_topic: str
    target_topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopic:
    """One topic of the aggregate that a link fills."""

    topic: str
    link: str
    datacenter: str
    source: str
    source_topic: str
    partitions: int | None
    """None where the aggregate does not show the topic (yet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTopic:
    """All topics of the aggregate that are the same topic in different datacenters."""

    name: str
    parts: tuple[MirroredTopic, ...]
    """Ordered by datacenter, then by aggregate topic."""

    @property
    def partitions(self) -> int | None:
        """Partitions of all topics together; None as soon as one of them is unknown."""
        counts = list({part.topic: part.partitions for part in self.parts}.values())
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The topics of one aggregate cluster, by what they are."""

    merged: Mapping[str, MergedTopic]
    local: Mapping[str, int]
    """Topics born on the aggregate, with their partition counts."""

    def part(self, link: str, source_topic: str) -> MirroredTopic | None:
        """The aggregate's topic of a link's source topic, or None."""
        merged = self.merged.get(source_topic)
        if merged is None:
            return None
        return next((part for part in merged.parts if part.link == link), None)

    def parts_of(self, target_topic: str) -> tuple[MirroredTopic, ...]:
        """What an aggregate topic is a mirror of: one part per link that fills it."""
        return tuple(
            part
            for merged in self.merged.values()
            for part in merged.parts
            if part.topic == target_topic
        )


def is_internal(topic: str) -> bool:
    """Whether a topic is bookkeeping of Kafka or of mirrors, by MirrorMaker 2's rule."""
    return _INTERNAL.fullmatch(topic) is not None


def build_catalog(
    links: Iterable[LinkSettings],
    partition_counts: Mapping[str, int],
    mapped: Iterable[MappedTopic] = (),
) -> Catalog:
    """The catalog of an aggregate with these topics (name: partition count)."""
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
    """The known name that a mistyped one most likely means, or None."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return found[0] if found else None


def _by_naming(by_alias: Iterable[LinkSettings], topic: str) -> list[MappedTopic]:
    for link in by_alias:
        source_topic = link.source_topic(topic)
        if source_topic is not None:
            return [MappedTopic(link.name, source_topic, topic)]
    return []
