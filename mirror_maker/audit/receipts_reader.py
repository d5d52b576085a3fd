"""Reads the receipts topic of a link from any offset on. Shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import crc_is_valid, iter_headers
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.formats import MapFormatError
from mirror_maker.ports import DataSource

FETCH_BYTES_MAX: Final = 256 * 1024
"""In one fetch."""


class ReceiptsFetch(NamedTuple):
    """What one fetch brought."""

    fetched: FetchedPartition
    is_gone: bool
    """The topic does not have the position any more, or not yet again."""


class ReceiptsReader:
    """The receipts topic on the target: where it is led, where it begins and ends."""

    def __init__(self, context: LinkContext, reader: DataSource) -> None:
        self.topic_id: UUID | None = None
        self.start_offset = 0
        self.end_offset = 0
        """As of the last fetch whose position was gone."""
        self.at_end_ms = self.read_to = 0
        """When the topic was last read to its end, wall clock, and where that was; 0 before."""
        self._context = context
        self._reader = reader
        self._at = TopicPartition(context.audit_topics.receipts_name, 0)
        self._leader: int | None = None

    @property
    def name(self) -> str:
        """Of the topic."""
        return self._at.topic

    @property
    def is_found(self) -> bool:
        """Whether the leader is known: `fetch` needs it."""
        return self._leader is not None

    def lose_leader(self) -> None:
        """Look for the leader before the next fetch."""
        self._leader = None

    async def find(self) -> bool:
        """Find the leader and the start; whether it is another topic than before. KafkaError."""
        name = self._at.topic
        topic = (await self._context.sink.metadata([name])).topics.get(name)
        partition = None if topic is None or topic.error else topic.partitions.get(0)
        if topic is None or partition is None or partition.leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(self._at))
        self._leader = partition.leader
        self.start_offset = await self._bound(EARLIEST_TIMESTAMP)
        is_another = topic.topic_id != self.topic_id
        self.topic_id = topic.topic_id
        return is_another

    async def fetch(self, position: int) -> ReceiptsFetch:
        """What the topic, once found, has from the position on. Raises KafkaError."""
        assert self._leader is not None
        wanted = {self._at: FetchPosition(position)}
        fetched = (
            await self._reader.fetch(
                self._leader, wanted, wait_ms_max=0, partition_bytes_max=FETCH_BYTES_MAX
            )
        )[self._at]
        if fetched.error == ErrorCode.offset_out_of_range:
            # Retention took receipts that nobody had compared, or the log was cut back.
            self.end_offset = await self._bound(LATEST_TIMESTAMP)
            return ReceiptsFetch(fetched, is_gone=True)
        if fetched.error:
            raise KafkaError(fetched.error, str(self._at))
        return ReceiptsFetch(fetched, is_gone=False)

    def take(
        self, fetched: FetchedPartition, position: int, take_record: Callable[[Record], None]
    ) -> int:
        """Give every record from the position on; the offset behind them. Raises MapFormatError."""
        behind = position
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
            behind = header.next_offset
        if behind >= fetched.high_watermark:
            self.at_end_ms, self.read_to = self._context.clock.now_ms(), behind
        return behind

    async def _bound(self, which: int) -> int:
        listed = (await self._context.sink.list_offsets({self._at: which}))[self._at]
        if listed.error:
            raise KafkaError(listed.error, str(self._at))
        return listed.offset
