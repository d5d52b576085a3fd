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

States of one map (`MapState`): loading, pending (no map topic: the link did not start), ready,
failed (not the published format).

Guarantees: an offset of the other side is right with `exact` and safe with `inexact`; unknown is
None, never 0.
Not here: reading the topics (`map_follower`), the format (`link_map`), HTTP (`web`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from mirror_maker.formats import MapFormatError

from .catalog import MappedTopic
from .link_map import NO_TOPIC_IDS, LinkMap, MapAnswer, TopicIds, TranslationState

T = TypeVar("T")


class MapState(StrEnum):
    """How far a link's map was read."""

    LOADING = "loading"
    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStatus:
    """How far one link's map topic was read."""

    state: MapState = MapState.LOADING
    map: LinkMap | None = None
    next_offset: int | None = None
    """Offset in the map topic that is read next; None before the first read."""
    high_watermark: int | None = None
    read_at: float | None = None
    """Monotonic seconds of the last answer; None before the first."""
    problem: str | None = None
    """Why the map is not being read, in words; None while all is well."""

    @property
    def lag_records(self) -> int | None:
        """Offsets of the map topic that were not read yet; None before the first read."""
        if self.next_offset is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.next_offset)


class LinkMaps:
    """The maps of all links of an aggregate, by link name."""

    def __init__(self, datacenters: Mapping[str, str]) -> None:
        """`datacenters`: link name -> datacenter of its source."""
        self._datacenters = dict(datacenters)
        self._statuses = {link: MapStatus() for link in datacenters}
        self._target_ids: TopicIds = {}

    # -- questions: KeyError for an unknown link, MapFormatError for a contradictory map --------

    def status(self, link: str) -> MapStatus:
        """How far the link's map was read."""
        return self._statuses[link]

    def statuses(self) -> Iterator[tuple[str, MapStatus]]:
        """(link, status) in the order of the settings."""
        yield from self._statuses.items()

    def mapped_topics(self) -> Iterator[MappedTopic]:
        """Everything that the maps prove about names."""
        for link, status in self._statuses.items():
            if status.map is not None:
                for source_topic, target_topic in status.map.topics():
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
        found = self._statuses[link].map
        if found is None:
            return otherwise
        try:
            return question(found)
        except MapFormatError as error:
            # Maps are put together when first asked for; records that contradict each other
            # show only here. The follower reads a failed map again from its start.
            self.set_failed(link, str(error))
            raise

    # -- what the watchers report ---------------------------------------------------------------

    def set_target_ids(self, target_ids: TopicIds) -> None:
        """The present topic ids of the aggregate."""
        self._target_ids = dict(target_ids)

    def set_loading(self, link: str, empty: LinkMap) -> None:
        """The map topic is being read from its start into this map."""
        self._statuses[link] = MapStatus(state=MapState.LOADING, map=empty)

    def set_missing(self, link: str) -> None:
        """The map topic does not exist: the link has not started, or was removed."""
        self._statuses[link] = MapStatus(state=MapState.PENDING)

    def set_failed(self, link: str, problem: str) -> None:
        """The map topic is not readable; what was read is not served on."""
        self._statuses[link] = MapStatus(state=MapState.FAILED, problem=problem)

    def note_read(self, link: str, next_offset: int, high_watermark: int, now: float) -> None:
        """The topic answered; ready as soon as its end was reached once."""
        status = self._statuses[link]
        if status.state is MapState.FAILED:
            return
        at_end = next_offset >= high_watermark
        self._statuses[link] = replace(
            status,
            state=MapState.READY if at_end else status.state,
            next_offset=next_offset,
            high_watermark=high_watermark,
            read_at=now,
            problem=None,
        )

    def note_problem(self, problem: str) -> None:
        """The aggregate does not answer; what was read stays served, since it stays true."""
        for link, status in self._statuses.items():
            if status.state is not MapState.FAILED:
                self._statuses[link] = replace(status, problem=problem)


_NOTHING = MapAnswer(TranslationState.PENDING, None, None)
