"""The offset-map topic of one link, read and written: registration, openings, blocks.

Shell over `formats`. A read goes to the topic's high watermark, so that everything that was
acknowledged before it began is seen. Whatever this worker writes it believes only after it has
read it back: the first in log order holds, and another worker may have been first.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import (
    CorruptRecordError,
    NewRecord,
    decode_batch,
    encode_batch,
)
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import crc_is_valid, iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError

from .formats import MapFormatError, MapTopic, Registration, encode_record, map_topic_name
from .formats.records import MapRecord
from .ports import Clock, DataSink

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
WRITE_BYTES_MAX: Final = 512 * 1024
"""Records of one write; below the 1 MB that Kafka takes by default."""
_EARLIEST: Final = -2

logger = logging.getLogger(__name__)


class LinkFailedError(Exception):
    """The link must stop: its map cannot be trusted."""


class MapStore:
    """Reads and writes one link's map topic. Methods raise KafkaError on trouble."""

    def __init__(
        self,
        sink: DataSink,
        *,
        link: str,
        worker_id: str,
        replication_factor: int,
        clock: Clock,
        random: Random,
    ) -> None:
        self.state = MapTopic()
        self.topic = map_topic_name(link)
        self._link = link
        self._sink = sink
        self._worker_id = worker_id
        self._replication_factor = replication_factor
        self._clock = clock
        self._random = random
        self._at = TopicPartition(self.topic, 0)
        self._topic_id: UUID | None = None
        self._leader: int | None = None
        self._next_offset: int | None = None
        self._registration: Registration | None = None
        self._reading = asyncio.Lock()
        self._tickets = itertools.count(1)
        self._last_read_ticket = 0

    @property
    def registration(self) -> Registration:
        """Who the link writes as. Only after `open`."""
        assert self._registration is not None, "the map store is not open"
        return self._registration

    @property
    def is_open(self) -> bool:
        return self._registration is not None

    def new_nonce(self) -> int:
        return self._random.getrandbits(63)

    async def open(self, source_cluster_id: str | None) -> None:
        """Make the topic if need be, read it, and have the link registered.

        Raises LinkFailedError where the link was registered for another source cluster.
        """
        await self._ensure_topic()
        await self.catch_up()
        if self.state.registration is None:
            await self._register(source_cluster_id or "")
        registration = self.state.registration
        if registration is None:
            raise LinkFailedError(f"{self.topic} does not keep what is written to it")
        self._registration = registration
        self.check_source(source_cluster_id)

    def check_source(self, source_cluster_id: str | None) -> None:
        """Raises LinkFailedError where the source is not the cluster that was registered."""
        registered = self.registration.source_cluster_id
        if source_cluster_id and registered and source_cluster_id != registered:
            raise LinkFailedError(
                f"link {self._link} was registered for source cluster {registered}, "
                f"but its bootstrap address leads to {source_cluster_id}"
            )

    async def catch_up(self) -> None:
        """Read everything that was acknowledged before this call."""
        ticket = next(self._tickets)
        async with self._reading:
            if self._last_read_ticket > ticket:
                return  # somebody else's read began after this call, so it saw all we ask for
            self._last_read_ticket = next(self._tickets)
            try:
                await self._read()
            except KafkaError:
                self._leader = None
                raise

    async def append(self, records: Sequence[MapRecord], deleted: Sequence[bytes] = ()) -> None:
        """Write records, then tombstones for the deleted keys; done when acknowledged.

        On KafkaError some may be written. To write a record again does no harm.
        """
        pairs: list[tuple[bytes, bytes | None]] = [encode_record(record) for record in records]
        pairs += [(key, None) for key in deleted]
        chunk: list[NewRecord] = []
        size_bytes = 0
        now_ms = self._clock.now_ms()
        for key, value in pairs:
            chunk.append(NewRecord(now_ms, key, value))
            size_bytes += len(key) + len(value or b"")
            if size_bytes >= WRITE_BYTES_MAX:
                await self._write(chunk)
                chunk, size_bytes = [], 0
        if chunk:
            await self._write(chunk)

    async def _write(self, records: Sequence[NewRecord]) -> None:
        try:
            leader = await self._find_leader()
            answers = await self._sink.produce(leader, {self._at: encode_batch(records)})
            answer = answers[self._at]
            if answer.error:
                raise KafkaError(answer.error, f"{self._at}: {answer.error_message or ''}")
        except KafkaError:
            self._leader = None
            raise

    async def _read(self) -> None:
        leader = await self._find_leader()
        if self._next_offset is None:
            listed = (await self._sink.list_offsets({self._at: _EARLIEST}))[self._at]
            if listed.error:
                raise KafkaError(listed.error, str(self._at))
            self._next_offset = listed.offset
        end: int | None = None
        while end is None or self._next_offset < end:
            fetched = (
                await self._sink.fetch(
                    leader,
                    {self._at: FetchPosition(self._next_offset)},
                    wait_ms_max=0,
                    partition_bytes_max=FETCH_BYTES_MAX,
                )
            )[self._at]
            if fetched.error == ErrorCode.offset_out_of_range:
                raise LinkFailedError(
                    f"{self.topic} no longer has offset {self._next_offset}: it was cut back"
                )
            if fetched.error:
                raise KafkaError(fetched.error, str(self._at))
            if end is None:
                end = fetched.high_watermark
            before = self._next_offset
            try:
                self._next_offset = self._replay(fetched.records, before)
            except (MapFormatError, CorruptRecordError, CompressionError) as error:
                raise LinkFailedError(f"{self.topic} from offset {before}: {error}") from error
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
                        self.state.replay(record.key, record.value)
            position = header.next_offset
        return position

    async def _find_leader(self) -> int:
        if self._leader is None:
            topic = (await self._sink.metadata([self.topic])).topics[self.topic]
            if topic.error:
                raise KafkaError(topic.error, self.topic)
            if self._topic_id is not None and topic.topic_id != self._topic_id:
                raise LinkFailedError(f"{self.topic} was deleted and made anew")
            if 0 not in topic.partitions or topic.partitions[0].leader < 0:
                raise KafkaError(ErrorCode.leader_not_available, self.topic)
            self._topic_id = topic.topic_id
            self._leader = topic.partitions[0].leader
        return self._leader

    async def _ensure_topic(self) -> None:
        found = (await self._sink.metadata([self.topic])).topics.get(self.topic)
        if found is not None and not found.error:
            return
        new = NewTopic(
            name=self.topic,
            partitions=1,
            replication_factor=self._replication_factor,
            configs={"cleanup.policy": "compact"},
        )
        error = (await self._sink.create_topics([new])).get(self.topic)
        if error is not None and error.code != ErrorCode.topic_already_exists:
            raise error

    async def _register(self, source_cluster_id: str) -> None:
        target_cluster_id = (await self._sink.metadata([])).cluster_id or ""
        producer_id, producer_epoch = await self._sink.init_producer_id()
        registration = Registration(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            link=self._link,
            source_cluster_id=source_cluster_id,
            target_cluster_id=target_cluster_id,
            registered_at_ms=self._clock.now_ms(),
            worker_id=self._worker_id,
        )
        await self.append([registration])
        await self.catch_up()
        logger.info("link %s writes as producer %s", self._link, self.state.registration)
