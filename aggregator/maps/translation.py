"""Offset translation between sources and aggregate: the offset maps of all links. Pure.

`LinkMaps` holds the published map of every link and how much of it was read. Each published record
is a true statement by itself. So further records never make an answer false: they only turn
`pending` into `exact` or `inexact`.

States of one answer (`TranslationState`):

    exact     the offset on the other side is known
    inexact   to the aggregate: a safe offset, from which nothing is skipped and some records may be
              read again; None if others copied the records there. From the aggregate: the record is
              or may be a copy, and its source offset is in a known range
    pending   the link has not reached the offset, or nothing of the partition is mapped
    unmapped  the record at the aggregate's offset is no copy that the map has (reverse only)
    shared    the copy may also hold records of other origins (groups only)

Guarantees: an `exact` offset is right, an `inexact` one is safe. An unknown one is None, never 0.
Not here: reading the topics (`topic_follower`), the format (`link_map`), HTTP (`web`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from aggregator.maps.catalog import MappedTopic
from aggregator.maps.followed_topic import Followed
from aggregator.maps.link_map import NO_TOPIC_IDS, LinkMap, MapAnswer, TopicIds, TranslationState
from mirror_maker.formats import MapFormatError, map_topic_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedOffset:
    """One offset on both sides of a link."""

    link: str
    datacenter: str
    topic: str | None
    """Source topic."""
    partition: int
    offset: int | None
    """Source offset."""
    state: TranslationState
    target_topic: str | None
    target_offset: int | None
    source_hole: tuple[int, int] | None = None
    """With INEXACT from the aggregate: the possible source offsets [start, end)."""


class LinkMaps:
    """The maps of all links of an aggregate, by link name."""

    def __init__(self, datacenters: Mapping[str, str], kept: LinkMaps | None = None) -> None:
        """`datacenters` has the datacenter of each link's source, by link name.

        Links that `kept` has go on with its maps.
        """
        self._datacenters = dict(datacenters)
        known = {} if kept is None else kept._topics
        self._topics: dict[str, Followed[LinkMap]] = {
            link: known.get(link) or Followed(map_topic_name(link), LinkMap, LinkMap.apply)
            for link in datacenters
        }
        self._target_ids: TopicIds = {} if kept is None else kept._target_ids

    # -- reads; KeyError for an unknown link, MapFormatError for a contradictory map ------------

    def topic(self, link: str) -> Followed[LinkMap]:
        """Return the link's map topic."""
        return self._topics[link]

    def topics(self) -> Iterator[tuple[str, Followed[LinkMap]]]:
        """Yield (link, map topic) in the order of the settings."""
        yield from self._topics.items()

    def mapped_topics(self) -> Iterator[MappedTopic]:
        """Yield every name that a map proves."""
        for link, followed in self._topics.items():
            if followed.value is not None:
                for source_topic, target_topic in followed.value.topics():
                    yield MappedTopic(link, source_topic, target_topic)

    def mirrored_end(self, link: str, topic: str, partition: int) -> int | None:
        """Return the end of the mapped source offsets; None without a map."""
        return self._ask(
            link, lambda found: found.mirrored_end(topic, partition, self._target_ids), None
        )

    def translate(
        self,
        link: str,
        topic: str,
        partition: int,
        offset: int,
        source_ids: TopicIds = NO_TOPIC_IDS,
    ) -> TranslatedOffset:
        """Translate a source offset to the aggregate.

        With `source_ids` only the topic with that id counts; without them the link's own topic.
        """
        answer = self._ask(
            link,
            lambda found: found.translate(topic, partition, offset, self._target_ids, source_ids),
            _NOTHING,
        )
        return TranslatedOffset(
            link=link,
            datacenter=self._datacenters[link],
            topic=topic,
            partition=partition,
            offset=offset,
            state=answer.state,
            target_topic=answer.topic,
            target_offset=answer.offset,
        )

    def reverse(
        self, link: str, target_topic: str, partition: int, offset: int
    ) -> TranslatedOffset:
        """Translate an aggregate offset to the source."""
        answer = self._ask(
            link,
            lambda found: found.reverse(target_topic, partition, offset, self._target_ids),
            _NOTHING,
        )
        return self._answered(link, target_topic, partition, offset, answer)

    def source_position(
        self, link: str, target_topic: str, partition: int, offset: int
    ) -> TranslatedOffset | None:
        """Translate a reader's position on the aggregate to the source; None if the link has no
        copies in the partition.
        """
        answer = self._ask(
            link,
            lambda found: found.source_position(target_topic, partition, offset, self._target_ids),
            None,
        )
        if answer is None:
            return None
        return self._answered(link, target_topic, partition, offset, answer)

    def _answered(
        self, link: str, target_topic: str, partition: int, offset: int, answer: MapAnswer
    ) -> TranslatedOffset:
        """Return the answer about an aggregate offset."""
        return TranslatedOffset(
            link=link,
            datacenter=self._datacenters[link],
            topic=answer.topic,
            partition=partition,
            offset=answer.offset,
            state=answer.state,
            target_topic=target_topic,
            target_offset=offset,
            source_hole=answer.hole,
        )

    def _ask(self, link: str, question: Callable[[LinkMap], T], otherwise: T) -> T:
        found = self._topics[link].value
        if found is None:
            return otherwise
        try:
            return question(found)
        except MapFormatError as error:
            # A map is built at its first use, so contradictory records show only here. The
            # follower reads a failed map again from its start.
            self._topics[link].set_failed(str(error))
            raise

    # -- updates --------------------------------------------------------------------------------

    @property
    def target_ids(self) -> TopicIds:
        """The current topic ids of the aggregate."""
        return self._target_ids

    def set_target_ids(self, target_ids: TopicIds) -> None:
        """Set the current topic ids of the aggregate."""
        self._target_ids = dict(target_ids)


_NOTHING = MapAnswer(TranslationState.PENDING, None, None)
