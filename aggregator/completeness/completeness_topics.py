"""The completeness topics of all links, followed from their last minutes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from aggregator.completeness.parts import PartCompleteness, by_topic, part_completeness
from aggregator.maps.catalog import Catalog
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
        """Return the copies of each merged topic.

        A link of which nothing is copied yet has no part. In a target topic into which several
        links merge, only those partitions of a source count that its link states.
        """
        stated = {link.name: by_topic(self.partitions(link.name)) for link in self._links}
        parts: dict[str, list[PartCompleteness]] = {}
        for name, merged in catalog.merged.items():
            if is_probe_topic(name):
                continue
            targets = [part.topic for part in merged.parts]
            parts[name] = [
                part_completeness(
                    link=part.link,
                    datacenter=part.datacenter,
                    source_topic=part.source_topic,
                    target_topic=part.topic,
                    partitions_count=part.partitions if targets.count(part.topic) == 1 else None,
                    known=stated[part.link].get(part.source_topic, {}),
                    now_ms=now_ms,
                )
                for part in merged.parts
            ]
        return parts


def _replay(topic: CompletenessTopic, record: Record) -> None:
    topic.replay(record.key, record.value)
