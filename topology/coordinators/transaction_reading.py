"""Reads transactions and producers (KIP-664), and writes the marker that aborts a hanging one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from local_cluster.client.client import KafkaClient
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import TRANSACTION_KEY_TYPE
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import ms
from topology.admin.cluster_reading import existing_topics
from topology.coordinators.listing import ask_every_broker
from topology.problems import DeployError

JsonObject = dict[str, Any]
LIST_VERSION_MAX: Final = 1
FIND_VERSION_MAX: Final = 3
ONGOING: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
PARTITIONS_PER_REQUEST_MAX: Final = 1_000


async def list_all(client: KafkaClient) -> list[JsonObject]:
    """Return every transactional id that a coordinator knows. Raises KafkaError."""
    rows = []
    fields: JsonObject = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    listed = ask_every_broker(
        client, ApiKey.LIST_TRANSACTIONS, fields, version_max=LIST_VERSION_MAX, what="transactions"
    )
    async for node_id, answer in listed:
        rows += [
            {
                "transactional_id": each.transactional_id,
                "state": each.transaction_state,
                "producer_id": int(each.producer_id),
                "coordinator": node_id,
            }
            for each in answer.transaction_states
        ]
    return sorted(rows, key=lambda row: str(row["transactional_id"]))


async def describe(client: KafkaClient, transactional_id: str) -> JsonObject:
    """Return the state of a transactional id. Raises KafkaError, DeployError."""
    found = await client.call(
        ApiKey.FIND_COORDINATOR,
        {"key": transactional_id, "key_type": TRANSACTION_KEY_TYPE},
        version_max=FIND_VERSION_MAX,
    )
    if found.error_code:
        raise KafkaError(found.error_code, f"coordinator of {transactional_id}")
    node_id = int(found.node_id)
    answer = await client.call(
        ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": [transactional_id]}, node_id=node_id
    )
    (state,) = answer.transaction_states
    if state.error_code == ErrorCode.transactional_id_not_found:
        raise DeployError(f"there is no transactional id {transactional_id!r}")
    if state.error_code:
        raise KafkaError(state.error_code, transactional_id)
    return {
        "transactional_id": transactional_id,
        "state": state.transaction_state,
        "producer_id": int(state.producer_id),
        "producer_epoch": int(state.producer_epoch),
        "coordinator": node_id,
        "timeout_ms": _milliseconds(state.transaction_timeout),
        "started": _moment(_milliseconds(state.transaction_start_time)),
        "partitions": [
            f"{topic.topic}-{partition}" for topic in state.topics for partition in topic.partitions
        ],
    }


async def producers_of(client: KafkaClient, topic: str, partition: int) -> list[JsonObject]:
    """Return the producers that the leader of a partition knows. Raises KafkaError, DeployError."""
    found = (await existing_topics(client, [topic])).topics[topic].partitions.get(partition)
    if found is None:
        raise DeployError(f"topic {topic} has no partition {partition}")
    return (await _producers(client, found.leader, {topic: [partition]}))[topic, partition]


async def _producers(
    client: KafkaClient, leader: int, topics: dict[str, list[int]]
) -> dict[tuple[str, int], list[JsonObject]]:
    answer = await client.call(
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": name, "partition_indexes": each} for name, each in topics.items()]},
        node_id=leader,
    )
    result = {}
    for topic in answer.topics:
        for part in topic.partitions:
            at = f"{topic.name}-{part.partition_index}"
            if part.error_code:
                raise KafkaError(part.error_code, part.error_message or at)
            result[topic.name, int(part.partition_index)] = [
                {
                    "producer_id": int(each.producer_id),
                    "producer_epoch": int(each.producer_epoch),
                    "last_sequence": int(each.last_sequence),
                    "last_timestamp": _moment(_milliseconds(each.last_timestamp)),
                    "last_timestamp_ms": _milliseconds(each.last_timestamp),
                    "coordinator_epoch": int(each.coordinator_epoch),
                    "transaction_start": int(each.current_txn_start_offset)
                    if each.current_txn_start_offset >= 0
                    else None,
                }
                for each in part.active_producers
            ]
    return result


async def find_hanging(client: KafkaClient, *, older_ms: int, now_ms: int) -> list[JsonObject]:
    """Return the open transactions of all partitions that no coordinator has as ongoing.

    Open transactions are read before the coordinators' states, so one that ends in between is
    not reported. Raises KafkaError.
    """
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for name, topic in (await client.metadata(None)).topics.items():
        for index, each in topic.partitions.items():
            if each.leader >= 0:
                by_leader.setdefault(each.leader, []).append((name, index))
    candidates = []
    for leader, places in sorted(by_leader.items()):
        for start in range(0, len(places), PARTITIONS_PER_REQUEST_MAX):
            topics: dict[str, list[int]] = {}
            for name, index in places[start : start + PARTITIONS_PER_REQUEST_MAX]:
                topics.setdefault(name, []).append(index)
            for (name, index), producers in (await _producers(client, leader, topics)).items():
                candidates += [
                    {"topic": name, "partition": index, **each}
                    for each in producers
                    if each["transaction_start"] is not None
                    and now_ms - each["last_timestamp_ms"] >= older_ms
                ]
    if not candidates:
        return []
    states = {row["producer_id"]: row["state"] for row in await list_all(client)}
    return [
        {**each, "open_seconds": (now_ms - each["last_timestamp_ms"]) / 1000}
        for each in candidates
        if states.get(each["producer_id"]) not in ONGOING
    ]


async def open_producer(
    client: KafkaClient, topic: str, partition: int, start_offset: int
) -> JsonObject:
    """Return the producer whose transaction starts at an offset. Raises DeployError."""
    producers = await producers_of(client, topic, partition)
    for each in producers:
        if each["transaction_start"] == start_offset:
            return each
    open_ones = sorted(
        each["transaction_start"] for each in producers if each["transaction_start"] is not None
    )
    listed = ", ".join(map(str, open_ones)) or "none"
    raise DeployError(
        f"no transaction of {topic}-{partition} starts at offset {start_offset};"
        f" open transactions start at: {listed}"
    )


async def write_abort(
    client: KafkaClient, topic: str, partition: int, producer: JsonObject
) -> KafkaError | None:
    """Write an abort marker for a producer to the partition's leader. Return its refusal."""
    leader = (await client.metadata([topic])).topics[topic].partitions[partition].leader
    answer = await client.call(
        ApiKey.WRITE_TXN_MARKERS,
        {
            "markers": [
                {
                    "producer_id": producer["producer_id"],
                    "producer_epoch": producer["producer_epoch"],
                    "transaction_result": False,
                    "topics": [{"name": topic, "partition_indexes": [partition]}],
                    # Kafka's tool sends 0 for a transaction without an earlier marker.
                    "coordinator_epoch": max(0, producer["coordinator_epoch"]),
                }
            ]
        },
        node_id=leader,
        version_max=1,
    )
    for marker in answer.markers:
        for each in marker.topics:
            for result in each.partitions:
                if result.error_code:
                    return KafkaError(result.error_code)
    return None


def _milliseconds(value: Any) -> int:
    return value if isinstance(value, int) else ms(value)


def _moment(milliseconds: int) -> str | None:
    """Return a time as ISO 8601 in UTC; None if there is none."""
    if milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
