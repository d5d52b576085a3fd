"""The origin of the records of a source cluster, by the producer ids in batch headers.

A mirror registers its producer id in the map topic on its target, before its first write there
(`stores/map_store.py`). A reader of that cluster therefore knows for each batch, without opening
it, whether a mirror wrote it. A link with `origin: local` does not copy such batches. That cuts
every loop, even if copies have the names of their originals.

An id that is not registered belongs to no mirror:

- The batch had been written when it was fetched.
- A mirror's registration had been acknowledged before that, and every broker listed its map topic.
- The map topics are listed and read after the fetch.

An id never changes its kind later: a cluster assigns each id once, and a mirror registers a fresh
one. So the copy remains a function of the source, which `resume/pairing.py` relies on.

A deleted map topic takes its registration with it. A cluster that hides its map topics from this
mirror's principal cannot be read with `origin: local` (`docs/operations/rights.md`).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterable, Set
from typing import Final
from uuid import UUID

from local_cluster.client.reader import read_batches
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, NO_PRODUCER_ID
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
"""Native ids that are kept; beyond this number all are forgotten and looked up again."""
HEAD_FETCH_BYTES_MAX: Final = 64 * 1024
_LENGTH: Final = struct.Struct(">8xi")
_PRODUCER_ID: Final = struct.Struct(">43xq")
_PROBE: Final = map_topic_name("")
"""A map topic that no link has."""

log = logging.getLogger(__name__)


class Origins:
    """The producer ids of one source cluster, told apart by origin."""

    def __init__(self, source: LogReader) -> None:
        self._source = source
        self._registered: set[int] = set()
        self._native: set[int] = {NO_PRODUCER_ID}
        self._read_topics: dict[str, UUID | None] = {}
        self._reading = asyncio.Lock()

    @property
    def foreign_ids(self) -> Set[int]:
        """Return the ids of mirrors, whose batches come from elsewhere. The set only grows."""
        return self._registered

    async def learn(self, fetched: Iterable[memoryview]) -> None:
        """Classify every producer id in these fetched batches.

        Raises KafkaError if that is impossible at present, LinkFailedError if it is for ever.
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
        """Read the registration of every map topic that was not read yet."""
        # Both requests are pipelined on one connection, so the check costs no round trip.
        _, listed = await asyncio.gather(
            self._check_map_topics_are_visible(), self._source.metadata(None)
        )
        topics = listed.topics
        for name, topic in topics.items():
            if not is_map_topic(name) or self._read_topics.get(name, self) == topic.topic_id:
                continue
            registration = await self._read_head(name)
            if registration is not None:
                log.info("producer id %d belongs to %s", registration.producer_id, name)
                self._registered.add(registration.producer_id)
                self._read_topics[name] = topic.topic_id

    async def _check_map_topics_are_visible(self) -> None:
        """Raise KafkaError if the mirror's principal may not describe map topics.

        A cluster does not list hidden topics, so every record would pass for native. A lookup by
        name of a topic that does not exist is refused like all topics of the prefix.
        """
        topic = (await self._source.metadata([_PROBE])).topics[_PROBE]
        if topic.error == ErrorCode.topic_authorization_failed:
            raise KafkaError(
                topic.error,
                f"may not describe topics with prefix {MAP_TOPIC_PREFIX} at the source",
            )

    async def _read_head(self, name: str) -> Registration | None:
        """Return the first registration of a map topic, which is the one that holds, if any."""
        batches = read_batches(self._source, name, partition_bytes_max=HEAD_FETCH_BYTES_MAX)
        try:
            async for _, records in batches:
                for record in records:
                    if record.key is None or record.value is None:
                        continue
                    found = decode_record(record.key, record.value)
                    if isinstance(found, Registration):
                        return found
        except (MapFormatError, CorruptRecordError, CompressionError) as error:
            raise LinkFailedError(f"cannot read who writes {name}: {error}") from error
        return None


def _producer_ids(fetched: memoryview) -> set[int]:
    """Return the producer ids of every batch; reads only two fields of each header.

    A length too small for a header ends the walk, as in `select_batches`.
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
