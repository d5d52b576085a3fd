"""Reads what the mirrors state about completeness: once, or each time only what is new. Shell.

A topic that cannot be read keeps what it has stated: a statement is about the past, so it stays
true while there is no news.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ClusterMetadata, TopicMetadata, TopicPartition
from local_cluster.client.reader import read_until
from local_cluster.records.batch import CorruptRecordError
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.completeness.cut import READ_BACK_MS
from mirror_maker.formats.completeness.replayed_topic import (
    CompletenessTopic,
    PartitionCompleteness,
)
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.fields import MapFormatError
from mirror_maker.formats.probe import is_probe_topic
from spark_global.addresses import ClusterAddress

Statements = Mapping[str, Mapping[tuple[str, int], PartitionCompleteness]]
"""What is stated of each source topic and partition, by the name of the link."""

log = logging.getLogger(__name__)
_MS_PER_SECOND: Final = 1_000


async def read_statements(cluster: ClusterAddress, links: Iterable[str]) -> Statements:
    """Return what these links state now. Raises KafkaError and MapFormatError."""
    followed = {link: _Followed(completeness_topic_name(link)) for link in links}
    async with cluster.client() as client:
        metadata = await client.metadata()
        for each in followed.values():
            topic = metadata.topics.get(each.topic)
            if topic is not None:
                await each.catch_up(client, topic)
    return {link: each.stated() for link, each in followed.items()}


class StatementReader:
    """Follows the completeness topics of a cluster; one call at a time."""

    def __init__(self, cluster: ClusterAddress) -> None:
        self._client = cluster.client()
        self._followed: dict[str, _Followed] = {}

    async def close(self) -> None:
        await self._client.close()

    async def poll(self, links: Iterable[str]) -> Statements:
        """Return what these links have stated so far; a link without a topic states nothing."""
        for link in sorted(set(links)):
            self._followed.setdefault(link, _Followed(completeness_topic_name(link)))
        try:
            metadata = await self._client.metadata()
            for followed in self._followed.values():
                await self._catch_up(followed, metadata)
        except KafkaError as error:
            log.warning("the completeness topics cannot be read: %s", error)
        return {link: followed.stated() for link, followed in self._followed.items()}

    async def _catch_up(self, followed: _Followed, metadata: ClusterMetadata) -> None:
        topic = metadata.topics.get(followed.topic)
        if topic is None:
            return
        try:
            await followed.catch_up(self._client, topic)
        except (CorruptRecordError, KafkaError, MapFormatError) as error:
            log.warning("%s cannot be read: %s", followed.topic, error)


class _Followed:
    """One completeness topic, and the next offset to read."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.replayed = CompletenessTopic()
        self._topic_id: uuid.UUID | None = None
        self._position: int | None = None

    def stated(self) -> Mapping[tuple[str, int], PartitionCompleteness]:
        """Return what is stated, without the link's probe."""
        found = self.replayed.partitions()
        return {
            (each.topic, each.partition): each for each in found if not is_probe_topic(each.topic)
        }

    async def catch_up(self, client: KafkaClient, found: TopicMetadata) -> None:
        """Read what was added. Raises KafkaError, CorruptRecordError and MapFormatError."""
        at = TopicPartition(self.topic, 0)
        end = await _offset(client, at, LATEST_TIMESTAMP)
        if found.topic_id != self._topic_id or end < (self._position or 0):
            # Re-created or truncated: the rest of a run of statements could be missing.
            self.replayed, self._topic_id, self._position = (
                CompletenessTopic(),
                found.topic_id,
                None,
            )
        if self._position is None:
            since_ms = round(time.time() * _MS_PER_SECOND) - READ_BACK_MS
            first = await _offset(client, at, max(0, since_ms))
            self._position = first if first >= 0 else end
        partition = found.partitions.get(0)
        if partition is None or partition.leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(at))
        batches = read_until(client, partition.leader, at, self._position, end)
        async for header, records in batches:
            for record in records:
                self.replayed.replay(record.key, record.value)
            self._position = header.next_offset


async def _offset(client: KafkaClient, at: TopicPartition, timestamp_ms: int) -> int:
    """Return the first offset of a time, -1 if there is none. Raises KafkaError."""
    listed = (await client.list_offsets({at: timestamp_ms}))[at]
    if listed.error:
        raise KafkaError(listed.error, f"ListOffsets of {at}")
    return listed.offset
