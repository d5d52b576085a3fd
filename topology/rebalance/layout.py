"""A cluster's replicas, their sizes and the running reassignments, as its brokers report them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import BrokerAddress, TopicPartition
from local_cluster.controller.decisions.placement import Site, site_of
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.rebalance.planner import PartitionLayout

ASK_TIMEOUT_MS = 30_000


class ClusterCalls(Protocol):
    """The calls of moves and throttles; `KafkaClient` implements them. They raise KafkaError."""

    async def call(
        self, api: ApiKey, fields: Mapping[str, Any], *, node_id: int | None = None
    ) -> Any: ...

    async def call_controller(self, api: ApiKey, fields: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of a cluster at one moment."""

    sites: tuple[Site, ...]
    """The live brokers."""
    partitions: Mapping[TopicPartition, PartitionLayout]
    """Replicas after the running reassignments."""
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    """Replicas now, including those that reassignments add and remove."""
    under_way: Mapping[TopicPartition, tuple[int, ...]]
    """The replicas that are being added, for each partition with a running reassignment."""

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(site.broker_id for site in self.sites)


async def read_layout(client: KafkaClient) -> Layout:
    """Read the layout of a cluster. Raises KafkaError."""
    # Metadata comes from the controller too: other brokers may lag behind its reassignments.
    controller_id = (await client.metadata([])).controller_id
    moving = await list_moves(client)
    cluster = await client.metadata(node_id=controller_id)
    sizes = await _sizes(client, cluster.brokers)
    replicas = {
        TopicPartition(name, index): partition.replicas
        for name, topic in cluster.topics.items()
        for index, partition in topic.partitions.items()
    }
    partitions = {}
    for key, ids in replicas.items():
        removing = moving[key][1] if key in moving else ()
        target = tuple(replica for replica in ids if replica not in removing)
        partitions[key] = PartitionLayout(replicas=target, size_bytes=sizes.get(key))
    return Layout(
        sites=tuple(
            site_of(broker.node_id, broker.rack, broker.host)
            for broker in sorted(cluster.brokers.values())
        ),
        partitions=partitions,
        replicas=replicas,
        under_way={key: adding for key, (adding, _) in moving.items()},
    )


async def list_moves(
    client: ClusterCalls,
) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (adding, removing) of every running reassignment. Raises KafkaError."""
    answer = await client.call_controller(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout": ASK_TIMEOUT_MS, "topics": None}
    )
    if answer.error_code:
        raise KafkaError(answer.error_code, answer.error_message or "")
    return {
        TopicPartition(topic.name, int(each.partition_index)): (
            tuple(map(int, each.adding_replicas)),
            tuple(map(int, each.removing_replicas)),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


async def _sizes(
    client: KafkaClient, brokers: Mapping[int, BrokerAddress]
) -> dict[TopicPartition, int]:
    """Return the size of the largest replica of each partition; some may be unknown."""
    sizes: dict[TopicPartition, int] = {}
    for node_id in brokers:
        try:
            answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node_id=node_id)
        except KafkaError:
            continue  # unknown sizes are shown as unknown
        for key, size_bytes in _reported_sizes(answer):
            sizes[key] = max(size_bytes, sizes.get(key, 0))
    return sizes


def _reported_sizes(answer: Any) -> Iterator[tuple[TopicPartition, int]]:
    for directory in answer.results:
        if directory.error_code != ErrorCode.none:
            continue
        for topic in directory.topics:
            for each in topic.partitions:
                if not each.is_future_key:
                    key = TopicPartition(topic.name, int(each.partition_index))
                    yield key, int(each.partition_size)
