"""Reads topics of the aggregate into memory, and follows their ends.

One loop for all topics and one connection per broker: a long poll per topic would make each wait
for the others, since a broker answers a connection in order. The client is this loop's own for the
same reason.

Guarantees: only the aggregate is asked, never a datacenter; a missing topic is no error; a lost
broker keeps what was read and goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from aggregator.maps.followed_topic import Followed, TopicState
from aggregator.ports import ClusterReader
from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records.batch import CorruptRecordError, iter_records
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import crc_is_valid, iter_headers
from local_cluster.wire.constants import EARLIEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError

DISCOVERY_SECONDS: Final = 1.0
"""How often missing topics and moved leaders are looked for."""
RETRY_SECONDS: Final = 1.0
"""Pause after the aggregate did not answer."""
REREAD_SECONDS: Final = 30.0
"""Pause before a topic that could not be read is read again from its start."""
ERROR_PAUSE_SECONDS: Final = 0.2
"""Pause after a partition was refused, so that a lasting refusal does not spin."""
FETCH_WAIT_MS_MAX: Final = 500
FETCH_PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Position:
    """How far one topic was read."""

    followed: Followed[Any]
    at: TopicPartition
    topic_id: UUID | None
    leader: int
    next_offset: int = 0


class TopicFollower:
    """Keeps what is followed up to date; `run` until cancelled."""

    def __init__(
        self,
        client: ClusterReader,
        followed: Iterable[Followed[Any]],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._client = client
        self._followed = {each.topic: each for each in followed}
        self._monotonic = monotonic
        self._positions: dict[str, _Position] = {}
        """By topic, as everything below."""
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
                for followed in self._followed.values():
                    followed.note_problem(str(error))
                self._discover_at = float("-inf")
                await asyncio.sleep(RETRY_SECONDS)

    async def step(self) -> None:
        """One round: look for topics when due, one fetch per broker, apply. Raises KafkaError."""
        now = self._monotonic()
        if now >= self._discover_at:
            await self._discover(now)
            self._discover_at = now + DISCOVERY_SECONDS
        by_leader: dict[int, list[str]] = defaultdict(list)
        for topic, position in self._positions.items():
            if position.leader >= 0:
                by_leader[position.leader].append(topic)
        if not by_leader:
            await asyncio.sleep(max(0.0, self._discover_at - self._monotonic()))
            return
        outcomes = await asyncio.gather(
            *(self._fetch(leader, topics) for leader, topics in by_leader.items()),
            return_exceptions=True,  # one dead broker must not leave the other fetches unowned
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _discover(self, now: float) -> None:
        """Start reading topics that appeared, forget those that were deleted or re-created."""
        cluster = await self._client.metadata(sorted(self._followed))
        starting: list[_Position] = []
        for topic, followed in self._followed.items():
            found = cluster.topics.get(topic)
            partition = found.partitions.get(0) if found is not None and not found.error else None
            position = self._positions.get(topic)
            if found is None or partition is None:
                if found is None or found.error == ErrorCode.unknown_topic_or_partition:
                    self._positions.pop(topic, None)
                    followed.set_missing()
                continue
            if position is not None and followed.state is TopicState.FAILED:
                self._give_up(position)
            elif position is not None and position.topic_id == found.topic_id:
                position.leader = partition.leader
            elif now >= self._not_before.get(topic, now):
                at = TopicPartition(topic, 0)
                starting.append(_Position(followed, at, found.topic_id, partition.leader))
        await self._start_reading(starting)

    async def _start_reading(self, starting: Sequence[_Position]) -> None:
        if not starting:
            return
        first = await self._client.list_offsets(
            {position.at: EARLIEST_TIMESTAMP for position in starting}
        )
        for position in starting:
            listed = first.get(position.at)
            if listed is None or listed.error:
                continue  # no leader at the moment: the next discovery tries again
            position.next_offset = listed.offset
            self._positions[position.at.topic] = position
            position.followed.begin()

    async def _fetch(self, leader: int, topics: Sequence[str]) -> None:
        wanted = {
            self._positions[topic].at: FetchPosition(self._positions[topic].next_offset)
            for topic in topics
        }
        fetched = await self._client.fetch(
            leader,
            wanted,
            wait_ms_max=FETCH_WAIT_MS_MAX,
            bytes_max=FETCH_BYTES_MAX,
            partition_bytes_max=FETCH_PARTITION_BYTES_MAX,
        )
        for topic in topics:
            position = self._positions[topic]
            answer = fetched.get(position.at)
            if answer is None or answer.error:
                if answer is not None:
                    self._on_error(position, answer.error)
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
                continue
            try:
                self._apply(position, answer)
            except (MapFormatError, CorruptRecordError, CompressionError) as error:
                position.followed.set_failed(f"{position.at}: {error}")
                self._give_up(position)
            await asyncio.sleep(0)  # applying is work on the loop: let others in between topics

    def _give_up(self, position: _Position) -> None:
        """Stop reading a topic that is not readable; it is read from its start after a pause."""
        topic, problem = position.at.topic, position.followed.problem
        logger.error("%s is not readable, next try in %.0f s: %s", topic, REREAD_SECONDS, problem)
        self._not_before[topic] = self._monotonic() + REREAD_SECONDS
        self._positions.pop(topic, None)

    def _on_error(self, position: _Position, error: ErrorCode) -> None:
        """Follow a moved leader; begin again where the position is no longer in the log."""
        self._discover_at = float("-inf")
        if error == ErrorCode.offset_out_of_range:
            topic = position.at.topic
            logger.warning("%s no longer has our position, reading it from its start", topic)
            self._positions.pop(topic)
            position.followed.begin()

    def _apply(self, position: _Position, answer: FetchedPartition) -> None:
        next_offset = position.next_offset
        for place, header in iter_headers(answer.records):
            if not crc_is_valid(answer.records, place, header):
                raise MapFormatError(f"batch at offset {header.base_offset} fails its CRC")
            next_offset = max(next_offset, header.next_offset)
        for record in iter_records(answer.records):
            # A fetch answers whole batches, so that the first may begin before the position.
            if record.offset >= position.next_offset:
                position.followed.apply(record)
        position.next_offset = next_offset
        position.followed.note_read(next_offset, answer.high_watermark, self._monotonic())
