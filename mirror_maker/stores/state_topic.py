"""A topic of state on the target: one partition, compacted, read from its start and appended to.

A read goes to the high watermark, so it returns every record that was acknowledged before it
began. A worker believes its own write only after it has read it back: the first record in log order
holds, and another worker may have been first.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.client.reader import read_until
from local_cluster.records.batch import CorruptRecordError, NewRecord, encode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import Clock, DataSink, LogReader

WRITE_BYTES_MAX: Final = 512 * 1024
"""Bytes of the records of one write; below the 1 MB that Kafka accepts by default."""
COMPACTED: Final = {"cleanup.policy": "compact"}
Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


async def create_missing_topics(
    sink: DataSink, topics: Sequence[StateTopic]
) -> dict[str, KafkaError]:
    """Create the topics that do not exist, in one request; return the refusals by topic name.

    Raises KafkaError if the cluster does not answer.
    """
    found = (await sink.metadata([topic.name for topic in topics])).topics
    missing = [topic for topic in topics if topic.name not in found or found[topic.name].error]
    if not missing:
        return {}
    answers = await sink.create_topics([topic.new_topic() for topic in missing])
    return {
        name: error
        for name, error in answers.items()
        if error is not None and error.code != ErrorCode.topic_already_exists
    }


class StateReader:
    """The reader of one topic of state.

    Methods raise KafkaError, and LinkFailedError if the content cannot be trusted.
    """

    def __init__(
        self,
        cluster: LogReader,
        name: str,
        replay: Callable[[bytes | None, bytes | None], None],
    ) -> None:
        """`replay` receives key and value of every record, once and in log order; it may raise
        MapFormatError."""
        self.name = name
        self._cluster = cluster
        self._replay = replay
        self._at = TopicPartition(name, 0)
        self._topic_id: UUID | None = None
        self._leader: int | None = None
        self._next_offset: int | None = None
        self._reading = asyncio.Lock()
        self._tickets = itertools.count(1)
        self._last_read_ticket = 0

    @property
    def topic_id(self) -> UUID | None:
        """Return the id of the topic that was read; None before, and without topic ids."""
        return self._topic_id

    async def catch_up(self) -> None:
        """Read every record that was acknowledged before this call."""
        ticket = next(self._tickets)
        async with self._reading:
            if self._last_read_ticket > ticket:
                return  # another caller's read began after this call, so it is recent enough
            began = next(self._tickets)
            try:
                await self._read()
            except KafkaError:
                self._leader = None
                raise
            # Set only after success: callers that wait for a failed read have seen nothing.
            self._last_read_ticket = began

    async def _read(self) -> None:
        leader = await self._find_leader()
        if self._next_offset is None:
            self._next_offset = await self._list_offset(leader, EARLIEST_TIMESTAMP)
        begin = self._next_offset
        # A new leader answers fetches with a high watermark that lags behind what was acknowledged.
        # ListOffsets refuses until it has caught up (KIP-207).
        end = await self._list_offset(leader, LATEST_TIMESTAMP)
        if end < begin:
            raise LinkFailedError(f"{self.name} was truncated to {end} below offset {begin}")
        try:
            async for header, records in read_until(self._cluster, leader, self._at, begin, end):
                for record in records:
                    self._replay(record.key, record.value)
                self._next_offset = header.next_offset
        except KafkaError as error:
            if error.code != ErrorCode.offset_out_of_range:
                raise
            raise LinkFailedError(
                f"{self.name} does not have offset {self._next_offset} any more"
            ) from error
        except (MapFormatError, CorruptRecordError, CompressionError) as error:
            raise LinkFailedError(f"{self.name} from offset {begin}: {error}") from error

    async def _list_offset(self, leader: int, timestamp: int) -> int:
        listed = (await self._cluster.list_offsets_of(leader, {self._at: timestamp}))[self._at]
        if listed.error:
            raise KafkaError(listed.error, str(self._at))
        return listed.offset

    async def _find_leader(self) -> int:
        if self._leader is None:
            topic = (await self._cluster.metadata([self.name])).topics[self.name]
            if topic.error:
                raise KafkaError(topic.error, self.name)
            if self._topic_id is not None and topic.topic_id != self._topic_id:
                raise LinkFailedError(f"{self.name} was deleted and re-created")
            if 0 not in topic.partitions or topic.partitions[0].leader < 0:
                raise KafkaError(ErrorCode.leader_not_available, self.name)
            self._topic_id = topic.topic_id
            self._leader = topic.partitions[0].leader
        return self._leader


class StateTopic(StateReader):
    """One topic of state, read and written."""

    def __init__(
        self,
        sink: DataSink,
        name: str,
        *,
        replication_factor: int,
        clock: Clock,
        replay: Callable[[bytes | None, bytes | None], None],
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """`configs` apply when the topic is created; the default makes it compacted."""
        super().__init__(sink, name, replay)
        self._configs = COMPACTED if configs is None else configs
        self._sink = sink
        self._replication_factor = replication_factor
        self._clock = clock

    async def ensure(self) -> None:
        """Create the topic if it does not exist."""
        for error in (await create_missing_topics(self._sink, [self])).values():
            raise error

    def new_topic(self) -> NewTopic:
        """Return the topic to create."""
        return NewTopic(
            name=self.name,
            partitions=1,
            replication_factor=self._replication_factor,
            configs=self._configs,
        )

    async def append(self, pairs: Sequence[Pair]) -> None:
        """Write (key, value or None to delete); return when the records are acknowledged.

        If it raises KafkaError, some of the records may have been written.
        """
        chunk: list[NewRecord] = []
        size_bytes = 0
        now_ms = self._clock.now_ms()
        for key, value in pairs:
            chunk.append(NewRecord(now_ms, key, value))
            size_bytes += len(key or b"") + len(value or b"")
            if size_bytes >= WRITE_BYTES_MAX:
                await self._write(chunk)
                chunk, size_bytes = [], 0
        if chunk:
            await self._write(chunk)

    async def _write(self, records: Sequence[NewRecord]) -> None:
        try:
            leader = await self._find_leader()
            answers = await self._sink.produce(
                leader, ProduceBatches((self._at, encode_batch(records)))
            )
            answer = answers[self._at]
            if answer.error:
                raise KafkaError(answer.error, f"{self._at}: {answer.error_message or ''}")
        except KafkaError:
            self._leader = None
            raise
