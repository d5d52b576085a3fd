"""Where the records of a source cluster were born, told by the producer ids in batch headers.

A mirror registers its producer id in the map topic that it keeps on its target, before its first
write there (`map_store.py`). So whoever reads that cluster knows, per batch and without opening
it, whether a mirror wrote it. A link with `origin: local` leaves such batches out: that cuts every
loop, also where copies have the names of their originals.

Why an id that is not registered is no mirror's: a batch that was fetched had been written, a
mirror's registration had been acknowledged and was to be seen at every broker before that, and
the map topics are listed and read after the fetch. An id never changes its kind later, since a
cluster gives each id out once and a mirror registers a fresh one. So the copy remains a function
of the source, which `pairing.py` relies on.

A deleted map topic takes its registration with it. A cluster that does not show its map topics to
this mirror's principal cannot be read with `origin: local`, and is not; see "Security and rights"
in the README.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterable, Set
from typing import Final
from uuid import UUID

from local_cluster.client.model import FetchPosition, TopicMetadata, TopicPartition
from local_cluster.records.batch import CorruptRecordError, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    crc_is_valid,
    iter_headers,
)
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import (
    MapFormatError,
    Registration,
    decode_record,
    is_map_topic,
    map_topic_name,
)
from mirror_maker.formats.records import MAP_TOPIC_PREFIX
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import LogReader

NATIVE_IDS_MAX: Final = 100_000
"""Ids known to be no mirror's; beyond that they are forgotten, and asked about again."""
HEAD_FETCH_BYTES_MAX: Final = 64 * 1024
_LENGTH: Final = struct.Struct(">8xi")
_PRODUCER_ID: Final = struct.Struct(">43xq")
_PROBE: Final = map_topic_name("")
"""No link has this map topic."""

logger = logging.getLogger(__name__)


class Origins:
    """Tells the mirrors' producer ids of one source cluster."""

    def __init__(self, source: LogReader) -> None:
        self._source = source
        self._registered: set[int] = set()
        self._native: set[int] = {NO_PRODUCER_ID}
        self._read_topics: dict[str, UUID | None] = {}
        self._reading = asyncio.Lock()

    @property
    def foreign_ids(self) -> Set[int]:
        """Ids of mirrors: what they wrote was born elsewhere. Grows, and never shrinks."""
        return self._registered

    async def learn(self, fetched: Iterable[memoryview]) -> None:
        """Afterwards every producer id in these fetched batches is known for what it is.

        Raises KafkaError where that cannot be found out now, LinkFailedError where it never can.
        """
        unknown = {producer_id for batches in fetched for producer_id in _producer_ids(batches)}
        if unknown <= self._native or not self._unknown(unknown):
            return
        async with self._reading:
            if not self._unknown(unknown):
                return
            await self._read_registrations()
            if len(self._native) > NATIVE_IDS_MAX:
                self._native = {NO_PRODUCER_ID}
            self._native |= self._unknown(unknown)

    def _unknown(self, producer_ids: set[int]) -> set[int]:
        return producer_ids - self._native - self._registered

    async def _read_registrations(self) -> None:
        """Read the registration of every map topic that has not been read yet."""
        # One behind the other on a connection, so that no time is lost.
        _, listed = await asyncio.gather(
            self._check_that_map_topics_are_shown(), self._source.metadata(None)
        )
        topics = listed.topics
        for name, topic in topics.items():
            if not is_map_topic(name) or self._read_topics.get(name, self) == topic.topic_id:
                continue
            registration = await self._read_head(name, topic)
            if registration is not None:
                logger.info("producer id %d is of %s", registration.producer_id, name)
                self._registered.add(registration.producer_id)
                self._read_topics[name] = topic.topic_id

    async def _check_that_map_topics_are_shown(self) -> None:
        """Raises KafkaError where the mirror's principal may not see them.

        They are then not listed, as if there were none, and every record would pass for native.
        Asked for by name, a topic that is not there answers for all of the prefix.
        """
        topic = (await self._source.metadata([_PROBE])).topics[_PROBE]
        if topic.error == ErrorCode.topic_authorization_failed:
            raise KafkaError(
                topic.error, f"topics with prefix {MAP_TOPIC_PREFIX} may not be seen at the source"
            )

    async def _read_head(self, name: str, topic: TopicMetadata) -> Registration | None:
        """The first registration of a map topic, which is the one that holds; None without any."""
        if topic.error:
            raise KafkaError(topic.error, name)
        if 0 not in topic.partitions or topic.partitions[0].leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, name)
        at = TopicPartition(name, 0)
        position, end = [
            await self._list_offset(at, which) for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        ]
        while position < end:
            fetched = (
                await self._source.fetch(
                    topic.partitions[0].leader,
                    {at: FetchPosition(position)},
                    wait_ms_max=0,
                    partition_bytes_max=HEAD_FETCH_BYTES_MAX,
                )
            )[at]
            if fetched.error:
                raise KafkaError(fetched.error, name)
            before = position
            try:
                for start, header in iter_headers(fetched.records):
                    if not crc_is_valid(fetched.records, start, header):
                        raise MapFormatError(f"the batch at {header.base_offset} fails its CRC")
                    for record in decode_batch(fetched.records, start, header):
                        if record.key is None or record.value is None:
                            continue
                        found = decode_record(record.key, record.value)
                        if isinstance(found, Registration):
                            return found
                    position = header.next_offset
            except (MapFormatError, CorruptRecordError, CompressionError) as error:
                raise LinkFailedError(f"who wrote {name} cannot be read: {error}") from error
            if position == before:
                raise KafkaError(ErrorCode.offset_not_available, name)
        return None

    async def _list_offset(self, at: TopicPartition, which: int) -> int:
        listed = (await self._source.list_offsets({at: which}))[at]
        if listed.error:
            raise KafkaError(listed.error, str(at))
        return listed.offset


def _producer_ids(fetched: memoryview) -> set[int]:
    """The producer ids of every batch. Looks at two fields of each header and no more.

    A length too small for a header ends the walk, as it ends `select_batches`.
    """
    found = set()
    position = 0
    while position + HEADER_BYTES <= len(fetched):
        size_bytes = _LENGTH.unpack_from(fetched, position)[0] + LOG_OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES:
            break
        found.add(_PRODUCER_ID.unpack_from(fetched, position)[0])
        position += size_bytes
    return found
