"""Reads topics of the aggregate into memory, and follows their ends.

One loop reads all topics with one connection per broker. A broker responds to the requests of a
connection in order, so one long poll per topic would make each topic wait for the others. For the
same reason the loop has its own client.

Guarantees: it reads only from the aggregate, never from a datacenter. A missing topic is no error.
After the loss of a broker, the state stays, and reading continues at the same offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from aggregator.maps.followed_topic import Followed, TopicState
from aggregator.ports import ClusterReader
from local_cluster.client.model import FetchedPartition, FetchPosition, ListedOffset, TopicPartition
from local_cluster.client.reader import fetched_batches
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, MAX_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError

DISCOVERY_SECONDS: Final = 1.0
"""Seconds between two checks for missing topics and leader changes."""
RETRY_SECONDS: Final = 1.0
"""Pause after a failed request to the aggregate."""
REREAD_SECONDS: Final = 30.0
"""Pause before a topic that was not readable is read again from its start."""
ERROR_PAUSE_SECONDS: Final = 0.2
"""Pause after an error of a partition, so that a permanent error does not spin."""
FETCH_WAIT_MS_MAX: Final = 500
FETCH_PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024

log = logging.getLogger(__name__)


def _start(read_back_ms: int | None, last: ListedOffset | None) -> int:
    """Return the timestamp from which to read, or that of the log's start."""
    if read_back_ms is None or last is None or last.error or last.timestamp_ms < 0:
        return EARLIEST_TIMESTAMP
    return max(0, last.timestamp_ms - read_back_ms)


@dataclass(slots=True)
class _Position:
    """The position in one topic."""

    followed: Followed[Any]
    at: TopicPartition
    topic_id: UUID | None
    leader: int
    next_offset: int = 0


class TopicFollower:
    """Keeps the followed topics up to date; `run` until cancelled."""

    def __init__(
        self,
        client: ClusterReader,
        followed: Iterable[Followed[Any]],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._client = client
        self._followed: dict[str, Followed[Any]] = {}
        self._wanted = {each.topic: each for each in followed}
        """The topics from the next step on."""
        self._monotonic = monotonic
        self._positions: dict[str, _Position] = {}
        """By topic, like the next attribute."""
        self._not_before: dict[str, float] = {}
        self._discover_at = float("-inf")

    def follow(self, followed: Iterable[Followed[Any]]) -> None:
        """Follow these topics, and no others; those that stay are read on where they are."""
        self._wanted = {each.topic: each for each in followed}

    async def run(self) -> None:
        """Follow for ever; a failure of the aggregate is logged once and retried."""
        reachable = True
        while True:
            try:
                await self.step()
                if not reachable:
                    log.info("the aggregate responds again")
                reachable = True
            except KafkaError as error:
                if reachable:
                    log.warning("the aggregate does not respond: %s", error)
                reachable = False
                for followed in self._followed.values():
                    followed.note_problem(str(error))
                self._discover_at = float("-inf")
                await asyncio.sleep(RETRY_SECONDS)

    async def step(self) -> None:
        """Discover topics when due, fetch once from each broker, apply. Raises KafkaError."""
        if self._wanted is not self._followed:
            self._take_over(self._wanted)
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
            return_exceptions=True,  # a dead broker must not leave the other fetches unowned
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _take_over(self, wanted: dict[str, Followed[Any]]) -> None:
        for topic in self._followed.keys() - wanted.keys():
            self._positions.pop(topic, None)
            self._not_before.pop(topic, None)
        self._followed, self._discover_at = wanted, float("-inf")

    async def _discover(self, now: float) -> None:
        """Start reading new topics, and forget deleted and re-created ones."""
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
        last = await self._last_records(
            [each.at for each in starting if each.followed.read_back_ms is not None]
        )
        first = await self._client.list_offsets(
            {each.at: _start(each.followed.read_back_ms, last.get(each.at)) for each in starting}
        )
        for position in starting:
            listed = first.get(position.at)
            if listed is None or listed.error or listed.offset < 0:
                continue  # it has no leader now: the next discovery retries
            position.next_offset = listed.offset
            self._positions[position.at.topic] = position
            position.followed.begin()

    async def _last_records(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ListedOffset]:
        """Return the latest record of each partition; nothing if the cluster is too old for it."""
        if not partitions:
            return {}
        try:
            return await self._client.list_offsets(dict.fromkeys(partitions, MAX_TIMESTAMP))
        except KafkaError as error:
            if error.code != ErrorCode.unsupported_version:
                raise
            return {}

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
            await asyncio.sleep(0)  # records take time to apply: let other tasks run

    def _give_up(self, position: _Position) -> None:
        """Stop reading a topic that is not readable; read it from its start after a pause."""
        topic, problem = position.at.topic, position.followed.problem
        log.error("%s is not readable, retry in %.0f s: %s", topic, REREAD_SECONDS, problem)
        self._not_before[topic] = self._monotonic() + REREAD_SECONDS
        self._positions.pop(topic, None)

    def _on_error(self, position: _Position, error: ErrorCode) -> None:
        """Follow a leader change; start over if the log no longer has the position."""
        self._discover_at = float("-inf")
        if error == ErrorCode.offset_out_of_range:
            topic = position.at.topic
            log.warning("%s no longer has our position; reading it from its start", topic)
            self._positions.pop(topic)
            position.followed.begin()

    def _apply(self, position: _Position, answer: FetchedPartition) -> None:
        for header, records in fetched_batches(answer.records, position.next_offset):
            for record in records:
                position.followed.apply(record)
            position.next_offset = header.next_offset
        position.followed.note_read(position.next_offset, answer.high_watermark, self._monotonic())
