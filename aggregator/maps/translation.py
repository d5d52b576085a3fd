"""Where a source offset lies on the aggregate, and back: the offset maps of all links, in memory.

`LinkMaps` holds what every link has published and how far each was read, and answers without I/O.
Each published record is by itself true, so that an answer never turns false while more records
come in: only `pending` turns into `exact` or `inexact`.

States of one answer (`TranslationState`):

    exact     the offset on the other side is known, and given
    inexact   to the aggregate: a safe offset is given; reading on from there skips nothing, and may
              give records again. Without one, others copied what lies there. From the aggregate:
              the record is, or may be, a copy; its source offset lies in a known range
    pending   the link has not got there yet, or nothing of the partition is mapped yet
    unmapped  the record at the aggregate's offset is no copy that the map knows (reverse only)
    shared    a position where other origins may have records too (groups only)

Guarantees: an offset of the other side is right with `exact` and safe with `inexact`; unknown is
None, never 0.
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
    """With INEXACT from the aggregate: the source offsets [start, end) that come into question."""


class LinkMaps:
    """The maps of all links of an aggregate, by link name."""

    def __init__(self, datacenters: Mapping[str, str]) -> None:
        """`datacenters`: link name -> datacenter of its source."""
        self._datacenters = dict(datacenters)
        self._topics = {
            link: Followed(map_topic_name(link), LinkMap, LinkMap.apply) for link in datacenters
        }
        self._target_ids: TopicIds = {}

    # -- questions: KeyError for an unknown link, MapFormatError for a contradictory map --------

    def topic(self, link: str) -> Followed[LinkMap]:
        """The link's map topic."""
        return self._topics[link]

    def topics(self) -> Iterator[tuple[str, Followed[LinkMap]]]:
        """(link, map topic) in the order of the settings."""
        yield from self._topics.items()

    def mapped_topics(self) -> Iterator[MappedTopic]:
        """Everything that the maps prove about names."""
        for link, followed in self._topics.items():
            if followed.value is not None:
                for source_topic, target_topic in followed.value.topics():
                    yield MappedTopic(link, source_topic, target_topic)

    def mirrored_end(self, link: str, topic: str, partition: int) -> int | None:
        """The source offset up to which everything is accounted for; None without a map."""
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
        """A source offset on the aggregate. `source_ids`: of which topic, if not just of that name
        as the link knows it."""
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
        """An aggregate offset at the source."""
        answer = self._ask(
            link,
            lambda found: found.reverse(target_topic, partition, offset, self._target_ids),
            _NOTHING,
        )
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
            # Maps are put together when first asked for; records that contradict each other
            # show only here. The follower reads a failed map again from its start.
            self._topics[link].set_failed(str(error))
            raise

    # -- what the watchers report ---------------------------------------------------------------

    @property
    def target_ids(self) -> TopicIds:
        """The present topic ids of the aggregate, as far as they are known."""
        return self._target_ids

    def set_target_ids(self, target_ids: TopicIds) -> None:
        """The present topic ids of the aggregate."""
        self._target_ids = dict(target_ids)


_NOTHING = MapAnswer(TranslationState.PENDING, None, None)
