"""Reads the receipts topic of a link from any offset on. Shell."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, NamedTuple
from uuid import UUID

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import crc_is_valid, iter_headers
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError
from mirror_maker.ports import Clock, DataSource, LogReader

FETCH_BYTES_MAX: Final = 256 * 1024
"""Of one fetch."""


class ReceiptsFetch(NamedTuple):
    """The response to one fetch."""

    fetched: FetchedPartition
    is_gone: bool
    """Whether the topic does not have the position any more, or not yet again."""


class ReceiptsReader:
    """The receipts topic on the target: its leader, its start and its end."""

    def __init__(self, topic: str, sink: LogReader, reader: DataSource, clock: Clock) -> None:
        self.topic_id: UUID | None = None
        self.start_offset = 0
        self.end_offset = 0
        """At the last fetch whose position was gone."""
        self.at_end_ms = self.read_to = 0
        """When the topic was last read to its end (wall clock), and that end; 0 before."""
        self._sink = sink
        self._reader = reader
        self._clock = clock
        self._at = TopicPartition(topic, 0)
        self._leader: int | None = None
        self._asked_at_ms = 0
        """When the last fetch was sent: what is written later is not in its response."""

    @property
    def name(self) -> str:
        """Name of the topic."""
        return self._at.topic

    @property
    def is_found(self) -> bool:
        """Whether the leader is known: `fetch` needs it."""
        return self._leader is not None

    def lose_leader(self) -> None:
        """Look for the leader before the next fetch."""
        self._leader = None

    async def find(self) -> bool:
        """Find the leader and the start; return whether it is another topic than before.

        Raises KafkaError.
        """
        name = self._at.topic
        topic = (await self._sink.metadata([name])).topics.get(name)
        partition = None if topic is None or topic.error else topic.partitions.get(0)
        if topic is None or partition is None or partition.leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(self._at))
        self._leader = partition.leader
        self.start_offset = await self._bound(EARLIEST_TIMESTAMP)
        is_another = topic.topic_id != self.topic_id
        self.topic_id = topic.topic_id
        return is_another

    async def fetch(self, position: int) -> ReceiptsFetch:
        """Fetch from the topic, which was found before. Raises KafkaError."""
        assert self._leader is not None
        wanted = {self._at: FetchPosition(position)}
        self._asked_at_ms = self._clock.now_ms()
        fetched = (
            await self._reader.fetch(
                self._leader, wanted, wait_ms_max=0, partition_bytes_max=FETCH_BYTES_MAX
            )
        )[self._at]
        if fetched.error == ErrorCode.offset_out_of_range:
            # Retention took receipts that nobody compared, or the log was truncated.
            self.end_offset = await self._bound(LATEST_TIMESTAMP)
            return ReceiptsFetch(fetched, is_gone=True)
        if fetched.error:
            raise KafkaError(fetched.error, str(self._at))
        return ReceiptsFetch(fetched, is_gone=False)

    def take(
        self, fetched: FetchedPartition, position: int, take_record: Callable[[Record], None]
    ) -> Generator[None, None, int]:
        """Hand over every record from the position on, in pieces; return the offset after them.

        Raises MapFormatError.
        """
        next_offset = position
        for place, header in iter_headers(fetched.records):
            if header.next_offset <= position:
                continue
            if not crc_is_valid(fetched.records, place, header):
                raise MapFormatError(f"{self._at}: {header.base_offset} fails its CRC")
            if not header.is_control:
                try:
                    records = decode_batch(fetched.records, place, header)
                except (CompressionError, CorruptRecordError) as error:
                    raise MapFormatError(f"{self._at}: {error}") from error
                for record in records:
                    if record.offset >= position:
                        take_record(record)
                        yield
            next_offset = header.next_offset
        if next_offset >= fetched.high_watermark:
            self.at_end_ms, self.read_to = self._asked_at_ms, next_offset
        return next_offset

    async def _bound(self, which: int) -> int:
        listed = (await self._sink.list_offsets({self._at: which}))[self._at]
        if listed.error:
            raise KafkaError(listed.error, str(self._at))
        return listed.offset
