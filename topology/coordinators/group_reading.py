"""Reads groups: state, members with assignments, committed offsets, lag."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from local_cluster.client.admin.group_offsets import CommittedOffset, committed_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.admin.cluster_reading import known_offsets
from topology.coordinators.assignments import decode_assignment
from topology.coordinators.listing import ask_every_broker
from topology.coordinators.unread_times import unread_times
from topology.problems import DeployError, nearest_name

JsonObject = dict[str, Any]
CONSUMER_DESCRIBE_VERSION_MAX: Final = 1
LIST_GROUPS_VERSION_MAX: Final = 5
WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})


async def list_all_groups(client: KafkaClient) -> list[JsonObject]:
    """Return every group with its state, protocol and coordinator. Raises KafkaError."""
    rows = []
    fields: JsonObject = {"states_filter": [], "types_filter": []}
    listed = ask_every_broker(
        client, ApiKey.LIST_GROUPS, fields, version_max=LIST_GROUPS_VERSION_MAX, what="groups"
    )
    async for node_id, answer in listed:
        rows += [
            {
                "group": each.group_id,
                "state": getattr(each, "group_state", None) or None,
                "type": getattr(each, "group_type", None) or None,
                "protocol": each.protocol_type or None,
                "coordinator": node_id,
            }
            for each in answer.groups
        ]
    return sorted(rows, key=lambda row: str(row["group"]))


async def describe_group(client: KafkaClient, group_id: str) -> JsonObject:
    """Return a group with members, committed offsets and lag. Raises KafkaError, DeployError."""
    state = await group_state(client, group_id)
    positions = (await committed_offsets(client, [group_id])).get(group_id)
    if positions is None:
        raise KafkaError(ErrorCode.coordinator_not_available, f"offsets of group {group_id}")
    owners = {
        (topic, partition): member["client_id"]
        for member in state["members"]
        for topic, partition in member["assignment"] or ()
    }
    places = sorted({*positions, *(TopicPartition(*at) for at in owners)})
    ends = await known_offsets(client, places, LATEST_TIMESTAMP)
    rows = lag_rows(places, positions, ends, owners)
    lagging = {
        TopicPartition(row["topic"], row["partition"]): row["committed"]
        for row in rows
        if row["lag"]
    }
    times = await unread_times(client, lagging)
    rows = with_seconds(rows, times, time.time_ns() // 1_000_000)
    return {
        **state,
        "lag": _combined(sum, [row["lag"] for row in rows]),
        "lag_seconds": _combined(max, [row["lag_seconds"] for row in rows]),
        "partitions": rows,
    }


def lag_rows(
    places: Sequence[TopicPartition],
    positions: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
    owners: Mapping[tuple[str, int], str],
) -> list[JsonObject]:
    """Return one row per partition. Lag is unknown without a committed offset, or without an end.

    A committed offset above the end has a lag of 0, as Kafka's tool shows it.
    """
    rows = []
    for at in places:
        committed = positions[at].offset if at in positions else None
        end = ends.get(at)
        is_known = committed is not None and end is not None
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "committed": committed,
                "end": end,
                "lag": max(0, (end or 0) - (committed or 0)) if is_known else None,
                "client": owners.get((at.topic, at.partition)),
                "metadata": positions[at].metadata or None if at in positions else None,
            }
        )
    return rows


def with_seconds(
    rows: Sequence[JsonObject], times: Mapping[TopicPartition, int | None], now_ms: int
) -> list[JsonObject]:
    """Return the rows with their lag in seconds: the age of the first record that is not read.

    0 if there is none; `times` has those of the partitions with a lag, None for nothing to read.
    """
    done = []
    for row in rows:
        at = TopicPartition(row["topic"], row["partition"])
        seconds = 0.0 if row["lag"] == 0 else None
        if row["lag"] and at in times:
            time_ms = times[at]
            seconds = 0.0 if time_ms is None else max(now_ms - time_ms, 0) / 1000
        done.append({**row, "lag_seconds": seconds})
    return done


def _combined(
    combine: Callable[[Iterable[float]], float], values: Sequence[float | None]
) -> float | None:
    """Return the sum or the maximum; None if one is unknown, 0 of nothing."""
    known = [each for each in values if each is not None]
    return None if len(known) < len(values) else combine(known) if known else 0


async def group_state(client: KafkaClient, group_id: str) -> JsonObject:
    """Return the state and the members of a group of either protocol.

    Raises KafkaError, and DeployError if there is no such group.
    """
    answer = await client.call_coordinator(
        group_id,
        ApiKey.DESCRIBE_GROUPS,
        {"groups": [group_id], "include_authorized_operations": False},
    )
    (group,) = answer.groups
    is_missing = group.error_code == ErrorCode.group_id_not_found or group.group_state == "Dead"
    if group.error_code and not is_missing:
        raise KafkaError(group.error_code, f"group {group_id}")
    if not is_missing:
        return {
            "group": group_id,
            "state": group.group_state,
            "protocol": group.protocol_type or None,
            "assignor": group.protocol_data or None,
            "members": [
                {
                    "member_id": each.member_id,
                    "instance_id": getattr(each, "group_instance_id", None),
                    "client_id": each.client_id,
                    "host": each.client_host.rpartition("/")[2],
                    "assignment": _pairs(decode_assignment(bytes(each.member_assignment))),
                }
                for each in group.members
            ],
        }
    return await _consumer_group(client, group_id)


async def _consumer_group(client: KafkaClient, group_id: str) -> JsonObject:
    """Return a group of the consumer protocol (KIP-848). Raises as `group_state`."""
    try:
        answer = await client.call_coordinator(
            group_id,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            {"group_ids": [group_id], "include_authorized_operations": False},
            version_max=CONSUMER_DESCRIBE_VERSION_MAX,
        )
    except KafkaError as error:
        if error.code == ErrorCode.unsupported_version:
            raise await _missing(client, group_id) from error
        raise
    (group,) = answer.groups
    if group.error_code == ErrorCode.group_id_not_found:
        raise await _missing(client, group_id)
    if group.error_code:
        raise KafkaError(group.error_code, group.error_message or f"group {group_id}")
    return {
        "group": group_id,
        "state": group.group_state,
        "protocol": "consumer",
        "assignor": group.assignor_name or None,
        "members": [
            {
                "member_id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.client_host.rpartition("/")[2],
                "assignment": [
                    [topic.topic_name, int(partition)]
                    for topic in each.assignment.topic_partitions
                    for partition in topic.partitions
                ],
            }
            for each in group.members
        ],
    }


async def _missing(client: KafkaClient, group_id: str) -> DeployError:
    known = [str(row["group"]) for row in await list_all_groups(client)]
    near = nearest_name(group_id, known)
    hint = f"; did you mean {near!r}?" if near and near != group_id else ""
    return DeployError(f"there is no group {group_id!r}{hint}")


def _pairs(assignment: list[tuple[str, int]] | None) -> list[list[Any]] | None:
    return None if assignment is None else [list(each) for each in assignment]
