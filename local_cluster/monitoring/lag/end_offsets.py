"""High watermarks of partitions that other brokers lead, for the lag of groups.

They are requested at a scrape, from each leader at once, and only for partitions with committed
offsets. A leader that does not answer in time leaves its partitions unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from local_cluster.controller.model.cluster_image import NO_LEADER
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.groups.offsets import TopicPartition
from local_cluster.monitoring.sliced import Slices
from local_cluster.replication.partition import Partition
from local_cluster.transactions.broker_connections import BrokerCalls
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

PARTITIONS_PER_REQUEST_MAX: Final = 200
"""More would hold the leader's event loop for longer than a scrape may."""
RESPONSE_WAIT_MS_MAX: Final = 1_000
LIST_OFFSETS_VERSION: Final = 5
LATEST: Final = -1

log = logging.getLogger(__name__)


class LocalReplicas(Protocol):
    """The replicas of this broker."""

    def get(self, topic: str, partition: int) -> Partition | None: ...


class EndOffsets:
    """The high watermarks that a scrape needs."""

    def __init__(
        self, replicas: LocalReplicas, metadata: MetadataCache, peers: BrokerCalls, broker_id: int
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._peers = peers
        self._broker_id = broker_id

    async def find(
        self, partitions: Iterable[TopicPartition], slices: Slices
    ) -> Mapping[TopicPartition, int]:
        """Return the high watermarks that are known here, or answered in time."""
        found: dict[TopicPartition, int] = {}
        remote: dict[int, dict[TopicPartition, None]] = {}
        async for key in slices.over(partitions):
            replica = self._replicas.get(*key)
            if replica is not None and replica.is_leader:
                found[key] = replica.high_watermark
                continue
            state = self._metadata.partition(*key)
            if state is not None and state.leader not in (NO_LEADER, self._broker_id):
                remote.setdefault(state.leader, {})[key] = None
        requests = [
            self._ask(leader, keys[start : start + PARTITIONS_PER_REQUEST_MAX])
            for leader, of_leader in remote.items()
            for keys in (tuple(of_leader),)
            for start in range(0, len(keys), PARTITIONS_PER_REQUEST_MAX)
        ]
        for answered in await asyncio.gather(*requests):
            found.update(answered)
        return found

    async def _ask(
        self, leader: int, keys: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        topics: dict[str, list[messages.Fields]] = {}
        for topic, partition in keys:
            topics.setdefault(topic, []).append(
                {"partition_index": partition, "current_leader_epoch": -1, "timestamp": LATEST}
            )
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": name, "partitions": of} for name, of in topics.items()],
        }
        try:
            async with asyncio.timeout(RESPONSE_WAIT_MS_MAX / 1000):
                response = await self._peers.call(
                    leader, ApiKey.LIST_OFFSETS, fields, LIST_OFFSETS_VERSION
                )
        except (KafkaError, OSError, TimeoutError) as error:
            log.debug("the end offsets of broker %d are unknown: %s", leader, error)
            return {}
        return {
            (topic.name, partition.partition_index): partition.offset
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code == ErrorCode.none
        }
