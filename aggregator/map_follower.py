"""Reads the links' offset-map topics on the aggregate, and follows their ends.

One loop for all links and one connection per broker: a long poll per link would make each link
wait for the others, since a broker answers a connection in order. The client is this loop's own
for the same reason.

State of a link's map (`translation.MapState`):

    loading --topic missing--> pending --topic appears--> loading --read to its end--> ready
    any     --topic re-created, deleted, trimmed past us or cut back--> loading with an empty map
    any     --a record that is not the published format--> failed (tried again from the start)

Guarantees: only the aggregate is asked, never a datacenter; a missing topic is no error; a lost
broker keeps what was read and goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records.batch import CorruptRecordError, iter_records
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import crc_is_valid, iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError

from .link_map import LinkMap
from .ports import ClusterReader
from .translation import LinkMaps, MapState

DISCOVERY_SECONDS: Final = 1.0
"""How often missing map topics and moved leaders are looked for."""
RETRY_SECONDS: Final = 1.0
"""Pause after the aggregate did not answer."""
REREAD_SECONDS: Final = 30.0
"""Pause before a map that could not be read is read again from its start."""
ERROR_PAUSE_SECONDS: Final = 0.2
"""Pause after a partition was refused, so that a lasting refusal does not spin."""
FETCH_WAIT_MS_MAX: Final = 500
FETCH_PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
_EARLIEST: Final = -2

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Position:
    """How far one link's map topic was read."""

    at: TopicPartition
    topic_id: UUID | None
    leader: int
    map: LinkMap
    next_offset: int = 0


class MapFollower:
    """Keeps a `LinkMaps` up to date; `run` until cancelled."""

    def __init__(
        self,
        client: ClusterReader,
        maps: LinkMaps,
        topics: dict[str, str],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        """`topics`: link name -> name of its map topic on the aggregate."""
        self._client = client
        self._maps = maps
        self._topics = topics
        self._monotonic = monotonic
        self._positions: dict[str, _Position] = {}
        self._not_before: dict[str, float] = {}
        self._discover_at = float("-inf")

    async def run(self) -> None:
        """Follow for ever; trouble with the aggregate is logged once and retried."""
        reachable = True
        while True:
            try:
                await self.step()
                if not reachable:
                    logger.info("the aggregate answers again")
                reachable = True
            except KafkaError as error:
                if reachable:
                    logger.warning("the aggregate does not answer: %s", error)
                reachable = False
                self._maps.note_problem(str(error))
                self._discover_at = float("-inf")
                await asyncio.sleep(RETRY_SECONDS)

    async def step(self) -> None:
        """One round: look for topics when due, one fetch per broker, apply. Raises KafkaError."""
        now = self._monotonic()
        if now >= self._discover_at:
            await self._discover(now)
            self._discover_at = now + DISCOVERY_SECONDS
        by_leader: dict[int, list[str]] = defaultdict(list)
        for link, position in self._positions.items():
            if position.leader >= 0:
                by_leader[position.leader].append(link)
        if not by_leader:
            await asyncio.sleep(max(0.0, self._discover_at - self._monotonic()))
            return
        outcomes = await asyncio.gather(
            *(self._fetch(leader, links) for leader, links in by_leader.items()),
            return_exceptions=True,  # one dead broker must not leave the other fetches unowned
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _discover(self, now: float) -> None:
        """Start reading topics that appeared, forget those that went or were re-created."""
        cluster = await self._client.metadata(sorted(self._topics.values()))
        starting: dict[str, _Position] = {}
        for link, topic in self._topics.items():
            found = cluster.topics.get(topic)
            partition = found.partitions.get(0) if found is not None and not found.error else None
            position = self._positions.get(link)
            if found is None or partition is None:
                if found is None or found.error == ErrorCode.unknown_topic_or_partition:
                    self._positions.pop(link, None)
                    self._maps.set_missing(link)
                continue
            if position is not None and self._maps.status(link).state is MapState.FAILED:
                self._give_up(link)
            elif position is not None and position.topic_id == found.topic_id:
                position.leader = partition.leader
            elif now >= self._not_before.get(link, now):
                starting[link] = _Position(
                    TopicPartition(topic, 0), found.topic_id, partition.leader, LinkMap()
                )
        await self._start_reading(starting)

    async def _start_reading(self, starting: dict[str, _Position]) -> None:
        if not starting:
            return
        first = await self._client.list_offsets(
            {position.at: _EARLIEST for position in starting.values()}
        )
        for link, position in starting.items():
            listed = first.get(position.at)
            if listed is None or listed.error:
                continue  # no leader at the moment: the next discovery tries again
            position.next_offset = listed.offset
            self._positions[link] = position
            self._maps.set_loading(link, position.map)

    async def _fetch(self, leader: int, links: Sequence[str]) -> None:
        wanted = {
            self._positions[link].at: FetchPosition(self._positions[link].next_offset)
            for link in links
        }
        fetched = await self._client.fetch(
            leader,
            wanted,
            wait_ms_max=FETCH_WAIT_MS_MAX,
            bytes_max=FETCH_BYTES_MAX,
            partition_bytes_max=FETCH_PARTITION_BYTES_MAX,
        )
        for link in links:
            position = self._positions[link]
            answer = fetched.get(position.at)
            if answer is None or answer.error:
                if answer is not None:
                    self._on_error(link, answer.error)
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
                continue
            try:
                self._apply(link, position, answer)
            except (MapFormatError, CorruptRecordError, CompressionError) as error:
                self._maps.set_failed(link, f"{position.at}: {error}")
                self._give_up(link)
            await asyncio.sleep(0)  # applying is work on the loop: let others in between links

    def _give_up(self, link: str) -> None:
        """Stop reading a map that is not readable; it is read anew after a pause."""
        problem = self._maps.status(link).problem
        logger.error("%s: map not readable, next try in %.0f s: %s", link, REREAD_SECONDS, problem)
        self._not_before[link] = self._monotonic() + REREAD_SECONDS
        self._positions.pop(link, None)

    def _on_error(self, link: str, error: ErrorCode) -> None:
        """Follow a moved leader; begin anew where the position is no longer in the log."""
        self._discover_at = float("-inf")
        if error == ErrorCode.offset_out_of_range:
            logger.warning("%s: the map topic no longer has our position, reading it anew", link)
            self._positions.pop(link)
            self._maps.set_loading(link, LinkMap())

    def _apply(self, link: str, position: _Position, answer: FetchedPartition) -> None:
        next_offset = position.next_offset
        for place, header in iter_headers(answer.records):
            if not crc_is_valid(answer.records, place, header):
                raise MapFormatError(f"batch at offset {header.base_offset} fails its CRC")
            next_offset = max(next_offset, header.next_offset)
        for record in iter_records(answer.records):
            # A fetch answers whole batches, so that the first may begin before the position.
            if record.offset >= position.next_offset:
                position.map.apply(record)
        position.next_offset = next_offset
        self._maps.note_read(link, next_offset, answer.high_watermark, self._monotonic())
