"""Reads the brokers of a cluster, plans and requests leader elections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicMetadata, TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.admin.cluster_reading import replica_sizes

ELECTION_TIMEOUT_MS: Final = 10_000
PREFERRED: Final = 0
UNCLEAN: Final = 1

Election = tuple[TopicPartition, int | None, int | None]
"""A partition, its leader before, and the leader to elect; None if the controller chooses."""


async def read_brokers(client: KafkaClient) -> dict[str, Any]:
    """Return every registered broker, and the ids of brokers that only replicas name."""
    found = await client.metadata(None)
    parts = [each for topic in found.topics.values() for each in topic.partitions.values()]
    leaders = Counter(each.leader for each in parts)
    replicas = Counter(replica for each in parts for replica in each.replicas)
    out_of_sync = Counter(
        replica for each in parts for replica in set(each.replicas) - set(each.isr)
    )
    sizes: Counter[int] = Counter()
    measured = await replica_sizes(client, found.brokers)
    for (broker, _), size in measured.items():
        sizes[broker] += size
    answered = {broker for broker, _ in measured}
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller_id if found.controller_id >= 0 else None,
        "brokers": [
            {
                "id": broker,
                "host": at.host,
                "port": at.port,
                "rack": at.rack,
                "is_controller": broker == found.controller_id,
                "leaders": leaders[broker],
                "replicas": replicas[broker],
                "out_of_sync": out_of_sync[broker],
                "size_bytes": sizes[broker] if broker in answered or not replicas[broker] else None,
            }
            for broker, at in sorted(found.brokers.items())
        ],
        "missing": sorted(set(replicas) - set(found.brokers)),
    }


def elections(
    topics: Iterable[TopicMetadata], named: Collection[TopicPartition] | None, *, unclean: bool
) -> list[Election]:
    """Return the elections that change something.

    A preferred election needs its first replica in sync. An unclean one is only for partitions
    without a leader.
    """
    found: list[Election] = []
    for topic in topics:
        for index, each in sorted(topic.partitions.items()):
            at = TopicPartition(topic.name, index)
            if named is not None and at not in named:
                continue
            before = each.leader if each.leader >= 0 else None
            preferred = each.replicas[0] if each.replicas else None
            if unclean:
                if before is None:
                    found.append((at, None, None))
            elif preferred is not None and before != preferred and preferred in each.isr:
                found.append((at, before, preferred))
    return sorted(found, key=lambda election: election[0])


async def elect(
    client: KafkaClient, places: Sequence[TopicPartition], *, unclean: bool
) -> dict[TopicPartition, KafkaError | None]:
    """Request the elections. Return the error of each partition that the controller lists."""
    topics: dict[str, list[int]] = {}
    for at in places:
        topics.setdefault(at.topic, []).append(at.partition)
    answer = await client.call_controller(
        ApiKey.ELECT_LEADERS,
        {
            "election_type": UNCLEAN if unclean else PREFERRED,
            "topic_partitions": [
                {"topic": name, "partitions": partitions} for name, partitions in topics.items()
            ],
            "timeout": ELECTION_TIMEOUT_MS,
        },
    )
    if answer.error_code:
        raise KafkaError(answer.error_code, "ElectLeaders")
    return {
        TopicPartition(result.topic, int(each.partition_id)): KafkaError(
            each.error_code, each.error_message or ""
        )
        if each.error_code not in (ErrorCode.none, ErrorCode.election_not_needed)
        else None
        for result in answer.replica_election_results
        for each in result.partition_result
    }
