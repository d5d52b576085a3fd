"""Finds offsets for places: the start, the end, an offset, a time. Deletes records below one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.admin.arguments import Place
from topology.admin.cluster_reading import existing_topics
from topology.problems import DeployError


async def chosen_partitions(
    client: KafkaClient, wanted: Mapping[str, Sequence[int] | None]
) -> list[TopicPartition]:
    """Return the partitions that were named, all of a topic for None. Raises DeployError."""
    found = (await existing_topics(client, list(wanted))).topics
    places = []
    for topic, partitions in wanted.items():
        known = sorted(found[topic].partitions)
        unknown = sorted(set(partitions or ()) - set(known))
        if unknown:
            listed = ", ".join(map(str, unknown))
            raise DeployError(f"topic {topic} has {len(known)} partitions; there is no {listed}")
        places += [TopicPartition(topic, each) for each in partitions or known]
    return places


async def offset_range(
    client: KafkaClient, places: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return (log start offset, high watermark) of each partition. Raises KafkaError."""
    places = list(places)
    starts = await _list(client, dict.fromkeys(places, EARLIEST_TIMESTAMP))
    ends = await _list(client, dict.fromkeys(places, LATEST_TIMESTAMP))
    return {at: (starts[at], ends[at]) for at in places}


async def place_offsets(
    client: KafkaClient, places: Iterable[TopicPartition], place: Place
) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition; a distance counts from the end.

    A time past the last record is the end. Raises KafkaError.
    """
    places = list(places)
    ranges = await offset_range(client, places)
    if place.kind == "time":
        listed = await _list(client, dict.fromkeys(places, place.value))
        return {at: listed[at] if listed[at] >= 0 else ranges[at][1] for at in places}
    if place.kind == "start":
        return {at: ranges[at][0] for at in places}
    if place.kind == "offset":
        return {at: min(max(place.value, ranges[at][0]), ranges[at][1]) for at in places}
    shift = place.value if place.kind == "shift" else 0
    return {at: min(max(ranges[at][1] + shift, ranges[at][0]), ranges[at][1]) for at in places}


async def _list(
    client: KafkaClient, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if not timestamps:
        return {}
    listed = await client.list_offsets(timestamps)
    for at, each in listed.items():
        if each.error:
            raise KafkaError(each.error, str(at))
    return {at: each.offset for at, each in listed.items()}


async def delete_records(
    client: KafkaClient, offsets: Mapping[TopicPartition, int], *, timeout_ms: int
) -> dict[TopicPartition, KafkaError | None]:
    """Delete the records below the offsets, at the leaders. Return the error of each partition."""
    topics = (await client.metadata(sorted({at.topic for at in offsets}))).topics
    by_leader: dict[int, dict[str, list[dict[str, int]]]] = {}
    results: dict[TopicPartition, KafkaError | None] = {}
    for at, offset in offsets.items():
        found = topics[at.topic].partitions.get(at.partition)
        if found is None or found.leader < 0:
            results[at] = KafkaError(ErrorCode.leader_not_available)
            continue
        entry = {"partition_index": at.partition, "offset": offset}
        by_leader.setdefault(found.leader, {}).setdefault(at.topic, []).append(entry)
    for leader, by_topic in by_leader.items():
        response = await client.call(
            ApiKey.DELETE_RECORDS,
            {
                "topics": [{"name": name, "partitions": each} for name, each in by_topic.items()],
                "timeout": timeout_ms,
            },
            node_id=leader,
        )
        for topic in response.topics:
            for each in topic.partitions:
                at = TopicPartition(topic.name, int(each.partition_index))
                results[at] = KafkaError(each.error_code) if each.error_code else None
    return results
