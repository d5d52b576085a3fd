"""The completeness topics of all links, followed from their last minutes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from aggregator.completeness.parts import (
    PartCompleteness,
    absent_part,
    by_topic,
    part_completeness,
)
from aggregator.maps.catalog import Catalog, is_internal
from aggregator.maps.followed_topic import Followed
from aggregator.settings import LinkSettings
from local_cluster.records.batch import Record
from mirror_maker.formats.completeness.replayed_topic import (
    CompletenessTopic,
    PartitionCompleteness,
)
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.probe import is_probe_topic

READ_BACK_MS: Final = 11 * 60_000
"""How far before its last record a topic is read: every worker writes a vector in five minutes."""


class CompletenessTopics:
    """What the links state about completeness, by link name."""

    def __init__(
        self, links: Iterable[LinkSettings], kept: CompletenessTopics | None = None
    ) -> None:
        """Links that `kept` has go on with its topics."""
        self._links = tuple(links)
        known = {} if kept is None else kept._topics
        self._topics: dict[str, Followed[CompletenessTopic]] = {
            link.name: known.get(link.name)
            or Followed(
                completeness_topic_name(link.name),
                CompletenessTopic,
                _replay,
                read_back_ms=READ_BACK_MS,
            )
            for link in self._links
        }

    def followed(self) -> Iterator[Followed[Any]]:
        """Yield every topic to follow."""
        yield from self._topics.values()

    def topic(self, link: str) -> Followed[CompletenessTopic]:
        """Return the link's topic."""
        return self._topics[link]

    def partitions(self, link: str) -> list[PartitionCompleteness]:
        """Return what a link states, without its probe; empty while its topic is unknown."""
        topic = self._topics[link].value
        found = [] if topic is None else topic.partitions()
        return [each for each in found if not is_probe_topic(each.topic)]

    def parts(self, catalog: Catalog, now_ms: int) -> dict[str, list[PartCompleteness]]:
        """Return the copies of each merged topic, with those that are listed but not copied yet.

        A source without the topic is a part too, for as long as it was listed: it may have one
        since. A link that has stated nothing has no part. In a target topic into which several
        links merge, only those partitions of a source count that its link states.
        """
        stated = {link.name: by_topic(self.partitions(link.name)) for link in self._links}
        listed = {link.name: self._listed_topics(link.name) for link in self._links}
        known = set().union(*listed.values())
        names = catalog.merged.keys() | {name for name in known if not is_internal(name)}
        speaking = [link for link in self._links if self._has_stated(link.name)]
        parts: dict[str, list[PartCompleteness]] = {}
        for name in sorted(names):
            if is_probe_topic(name):
                continue
            merged = catalog.merged.get(name)
            copies = () if merged is None else merged.parts
            targets = [part.topic for part in copies]
            found = [
                part_completeness(
                    link=part.link,
                    datacenter=part.datacenter,
                    source_topic=part.source_topic,
                    target_topic=part.topic,
                    partitions_count=part.partitions if targets.count(part.topic) == 1 else None,
                    known=stated[part.link].get(part.source_topic, {}),
                    now_ms=now_ms,
                )
                for part in copies
            ]
            copying = {part.link for part in copies}
            found += [
                self._without_copy(link, name, listed[link.name], stated[link.name], now_ms)
                for link in speaking
                if link.name not in copying
            ]
            parts[name] = sorted(found, key=lambda each: (each.datacenter, each.target_topic))
        return parts

    def _has_stated(self, link: str) -> bool:
        topic = self._topics[link].value
        return topic is not None and (topic.listed_ms is not None or bool(topic.partitions()))

    def _listed_topics(self, link: str) -> Set[str]:
        topic = self._topics[link].value
        return set() if topic is None else topic.listed_topics()

    def _without_copy(
        self,
        link: LinkSettings,
        name: str,
        listed: Set[str],
        stated: Mapping[str, Mapping[int, PartitionCompleteness]],
        now_ms: int,
    ) -> PartCompleteness:
        """Return the part of a link of which no copy is known."""
        target = link.names.target_topic(link.source, name)
        if name in listed:
            return part_completeness(
                link=link.name,
                datacenter=link.datacenter,
                source_topic=name,
                target_topic=target,
                partitions_count=None,
                known=stated.get(name, {}),
                now_ms=now_ms,
            )
        topic = self._topics[link.name].value
        assert topic is not None, "it has stated something"
        return absent_part(
            link=link.name,
            datacenter=link.datacenter,
            source_topic=name,
            target_topic=target,
            listed_ms=topic.listed_ms,
            now_ms=now_ms,
        )


def _replay(topic: CompletenessTopic, record: Record) -> None:
    topic.replay(record.key, record.value)
