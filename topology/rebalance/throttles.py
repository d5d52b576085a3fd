"""Kafka's replication throttles (KIP-73): set before replicas move, removed afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import AlterOperation, ConfigResourceType
from local_cluster.wire.errors import KafkaError
from topology.rebalance.layout import ClusterCalls

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


async def set_throttles(
    client: ClusterCalls,
    broker_ids: Iterable[int],
    moving: Mapping[TopicPartition, tuple[Iterable[int], Iterable[int]]],
    bytes_per_second: int,
) -> None:
    """Throttle the moving partitions: (replicas that send, replicas to fill) of each.

    Raises KafkaError.
    """
    topics: dict[str, tuple[list[str], list[str]]] = {}
    for key, (sending, filled) in sorted(moving.items()):
        leaders, followers = topics.setdefault(key.topic, ([], []))
        leaders += [f"{key.partition}:{replica}" for replica in sending]
        followers += [f"{key.partition}:{replica}" for replica in filled]
    rates = [(name, AlterOperation.SET, str(bytes_per_second)) for name in RATES]
    for broker_id in sorted(broker_ids):
        await _alter(
            client, [_resource(ConfigResourceType.BROKER, str(broker_id), rates)], broker_id
        )
    named = [
        _resource(
            ConfigResourceType.TOPIC,
            topic,
            [
                (LEADERS, AlterOperation.SET, ",".join(leaders)),
                (FOLLOWERS, AlterOperation.SET, ",".join(followers)),
            ],
        )
        for topic, (leaders, followers) in topics.items()
    ]
    await _alter(client, named, None)


async def remove_throttles(
    client: ClusterCalls, broker_ids: Iterable[int], topics: Iterable[str]
) -> bool:
    """Remove every throttle; return whether there was one. Raises KafkaError."""
    found = False
    for broker_id in sorted(broker_ids):
        (rates,) = (
            await _described(client, ConfigResourceType.BROKER, [str(broker_id)], RATES, broker_id)
        ).values()
        if rates:
            found = True
            gone = [(name, AlterOperation.DELETE, None) for name in rates]
            await _alter(
                client, [_resource(ConfigResourceType.BROKER, str(broker_id), gone)], broker_id
            )
    asked = (LEADERS, FOLLOWERS)
    throttled = await _described(client, ConfigResourceType.TOPIC, sorted(topics), asked, None)
    resources = [
        _resource(
            ConfigResourceType.TOPIC, topic, [(name, AlterOperation.DELETE, None) for name in names]
        )
        for topic, names in throttled.items()
        if names
    ]
    await _alter(client, resources, None)
    return found or bool(resources)


def _resource(
    kind: int, name: str, changes: Iterable[tuple[str, int, str | None]]
) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": config, "config_operation": operation, "value": value}
            for config, operation, value in changes
        ],
    }


async def _alter(
    client: ClusterCalls, resources: list[dict[str, Any]], node_id: int | None
) -> None:
    if not resources:
        return
    fields = {"resources": resources, "validate_only": False}
    answer = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields, node_id=node_id)
    for each in answer.responses:
        if each.error_code:
            words = f"configs of {each.resource_name}: {each.error_message or ''}"
            raise KafkaError(each.error_code, words)


async def _described(
    client: ClusterCalls, kind: int, names: list[str], configs: Iterable[str], node_id: int | None
) -> dict[str, list[str]]:
    """Return the names of the given configs that are set, by resource."""
    if not names:
        return {}
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": list(configs)}
        for name in names
    ]
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, {"resources": resources}, node_id=node_id)
    for each in answer.results:
        if each.error_code:
            raise KafkaError(each.error_code, each.error_message or "")
    return {
        each.resource_name: [entry.name for entry in each.configs if entry.value]
        for each in answer.results
    }
