"""Moves and deletes committed offsets, and deletes groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.admin.arguments import Place
from topology.admin.places import chosen_partitions, offset_range, place_offsets
from topology.coordinators.group_reading import WITHOUT_MEMBERS, group_state
from topology.problems import DeployError

Move = tuple[TopicPartition, int | None, int]
"""A partition, its committed offset before (None: none), and after."""


async def plan_reset(
    client: KafkaClient, group: str, wanted: Mapping[str, Sequence[int] | None], place: Place
) -> list[Move]:
    """Return the moves that change something. Raises KafkaError, DeployError.

    A group with members is refused, because its members would overwrite the offsets. A group that
    does not exist is created by the commit.
    """
    try:
        state = await group_state(client, group)
    except DeployError:
        state = None
    if state is not None and state["state"] not in WITHOUT_MEMBERS:
        hosts = sorted({f"{each['client_id']} on {each['host']}" for each in state["members"]})
        raise DeployError(f"group {group} has members ({state['state']}); stop them first", hosts)
    places = await chosen_partitions(client, wanted)
    before = await _committed(client, group)
    if place.kind == "shift":
        after = await _shifted(client, group, places, before, place.value)
    else:
        after = await place_offsets(client, places, place)
    moves = [(at, before.get(at), after[at]) for at in places]
    return [move for move in moves if move[1] != move[2]]


async def _shifted(
    client: KafkaClient,
    group: str,
    places: Sequence[TopicPartition],
    before: Mapping[TopicPartition, int],
    distance: int,
) -> dict[TopicPartition, int]:
    missing = [str(at) for at in places if at not in before]
    if missing:
        raise DeployError(
            f"group {group} has no committed offset to count from in {', '.join(missing)}"
        )
    ranges = await offset_range(client, places)
    return {at: min(max(before[at] + distance, ranges[at][0]), ranges[at][1]) for at in places}


async def committed_in(
    client: KafkaClient, group: str, wanted: Mapping[str, Sequence[int] | None]
) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group in topics; the topics need not exist."""
    return {
        at: offset
        for at, offset in (await _committed(client, group)).items()
        if at.topic in wanted
        and (wanted[at.topic] is None or at.partition in (wanted[at.topic] or ()))
    }


async def _committed(client: KafkaClient, group: str) -> dict[TopicPartition, int]:
    found = (await committed_offsets(client, [group])).get(group)
    if found is None:
        raise KafkaError(ErrorCode.coordinator_not_available, f"offsets of group {group}")
    return {at: each.offset for at, each in found.items()}


async def commit(
    client: KafkaClient, group: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None]:
    """Commit offsets of a group without members. Return the error of each partition."""
    positions = {at: CommittedOffset(offset, -1, "") for at, offset in offsets.items()}
    codes = await commit_offsets(client, group, positions)
    return {at: KafkaError(code) if code else None for at, code in codes.items()}


async def delete_group(client: KafkaClient, group: str) -> KafkaError | None:
    """Delete a group. Return the coordinator's refusal."""
    answer = await client.call_coordinator(group, ApiKey.DELETE_GROUPS, {"groups_names": [group]})
    (result,) = answer.results
    return KafkaError(result.error_code) if result.error_code else None


async def delete_offsets(
    client: KafkaClient, group: str, places: Sequence[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Delete committed offsets (KIP-496). Return the error of each partition."""
    topics: dict[str, list[dict[str, int]]] = {}
    for at in places:
        topics.setdefault(at.topic, []).append({"partition_index": at.partition})
    answer = await client.call_coordinator(
        group,
        ApiKey.OFFSET_DELETE,
        {
            "group_id": group,
            "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
        },
    )
    if answer.error_code:
        raise KafkaError(answer.error_code, f"group {group}")
    return {
        TopicPartition(topic.name, int(each.partition_index)): KafkaError(each.error_code)
        if each.error_code
        else None
        for topic in answer.topics
        for each in topic.partitions
    }
