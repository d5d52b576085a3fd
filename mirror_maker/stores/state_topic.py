"""A topic of state on the target: one partition, compacted, read whole and appended to.

A read goes to the topic's high watermark, so that everything that was acknowledged before it
began is seen. Whatever a worker writes it believes only after it has read it back: the first in
log order holds, and another worker may have been first.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.records.batch import CorruptRecordError, NewRecord, decode_batch, encode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import crc_is_valid, iter_headers
from local_cluster.wire.constants import EARLIEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import Clock, DataSink, LogReader

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
WRITE_BYTES_MAX: Final = 512 * 1024
"""Records of one write; below the 1 MB that Kafka takes by default."""
COMPACTED: Final = {"cleanup.policy": "compact"}
Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


async def make_topics(sink: DataSink, topics: Sequence[StateTopic]) -> dict[str, KafkaError]:
    """Make those that are not there, in one request; why one could not be made, by its name.

    Raises KafkaError where nobody could be asked.
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
    """Reads one topic. Methods raise KafkaError on trouble, LinkFailedError where what is there
    cannot be trusted."""

    def __init__(
        self,
        cluster: LogReader,
        name: str,
        replay: Callable[[bytes | None, bytes | None], None],
    ) -> None:
        """`replay` takes key and value of every record, once and in log order; it may raise
        MapFormatError."""
        self.name = name
        self._cluster = cluster
        self._replay_record = replay
        self._at = TopicPartition(name, 0)
        self._topic_id: UUID | None = None
        self._leader: int | None = None
        self._next_offset: int | None = None
        self._reading = asyncio.Lock()
        self._tickets = itertools.count(1)
        self._last_read_ticket = 0

    @property
    def topic_id(self) -> UUID | None:
        """Of the topic that was read; None before, and in clusters without topic ids."""
        return self._topic_id

    async def catch_up(self) -> None:
        """Read everything that was acknowledged before this call."""
        ticket = next(self._tickets)
        async with self._reading:
            if self._last_read_ticket > ticket:
                return  # somebody else's read began after this call, so it saw all we ask for
            began = next(self._tickets)
            try:
                await self._read()
            except KafkaError:
                self._leader = None
                raise
            # Only now: who waited for a read that failed or was cancelled has seen nothing.
            self._last_read_ticket = began

    async def _read(self) -> None:
        leader = await self._find_leader()
        if self._next_offset is None:
            listed = (await self._cluster.list_offsets({self._at: EARLIEST_TIMESTAMP}))[self._at]
            if listed.error:
                raise KafkaError(listed.error, str(self._at))
            self._next_offset = listed.offset
        end: int | None = None
        while end is None or self._next_offset < end:
            fetched = (
                await self._cluster.fetch(
                    leader,
                    {self._at: FetchPosition(self._next_offset)},
                    wait_ms_max=0,
                    partition_bytes_max=FETCH_BYTES_MAX,
                )
            )[self._at]
            if fetched.error == ErrorCode.offset_out_of_range:
                raise LinkFailedError(
                    f"{self.name} no longer has offset {self._next_offset}: it was cut back"
                )
            if fetched.error:
                raise KafkaError(fetched.error, str(self._at))
            if end is None:
                end = fetched.high_watermark
            before = self._next_offset
            try:
                self._next_offset = self._replay(fetched.records, before)
            except (MapFormatError, CorruptRecordError, CompressionError) as error:
                raise LinkFailedError(f"{self.name} from offset {before}: {error}") from error
            if self._next_offset == before and before < end:
                raise KafkaError(ErrorCode.corrupt_message, f"{self._at}: stuck at {before}")

    def _replay(self, fetched: memoryview, position: int) -> int:
        """Take in what was fetched from `position`; the position after it."""
        for start, header in iter_headers(fetched):
            if header.next_offset <= position:
                continue
            if not crc_is_valid(fetched, start, header):
                raise MapFormatError(f"the batch at {header.base_offset} fails its CRC")
            if not header.is_control:
                for record in decode_batch(fetched, start, header):
                    if record.offset >= position:
                        self._replay_record(record.key, record.value)
            position = header.next_offset
        return position

    async def _find_leader(self) -> int:
        if self._leader is None:
            topic = (await self._cluster.metadata([self.name])).topics[self.name]
            if topic.error:
                raise KafkaError(topic.error, self.name)
            if self._topic_id is not None and topic.topic_id != self._topic_id:
                raise LinkFailedError(f"{self.name} was deleted and made anew")
            if 0 not in topic.partitions or topic.partitions[0].leader < 0:
                raise KafkaError(ErrorCode.leader_not_available, self.name)
            self._topic_id = topic.topic_id
            self._leader = topic.partitions[0].leader
        return self._leader


class StateTopic(StateReader):
    """Reads and writes one topic."""

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
        """`configs` are for a topic that is to be created; by default it is compacted."""
        super().__init__(sink, name, replay)
        self._configs = COMPACTED if configs is None else configs
        self._sink = sink
        self._replication_factor = replication_factor
        self._clock = clock

    async def ensure(self) -> None:
        """Make the topic if it is not there."""
        for error in (await make_topics(self._sink, [self])).values():
            raise error

    def new_topic(self) -> NewTopic:
        """What is to be made."""
        return NewTopic(
            name=self.name,
            partitions=1,
            replication_factor=self._replication_factor,
            configs=self._configs,
        )

    async def append(self, pairs: Sequence[Pair]) -> None:
        """Write (key, value or None to delete); done when acknowledged.

        On KafkaError some may be written.
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
