"""Reads what several commands show: topics with offsets and sizes, and the brokers' log dirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ClusterMetadata, TopicMetadata, TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get
from topology.problems import DeployError, nearest_name

JsonObject = dict[str, Any]
_NOT_REPORTED = -1


class LogDirReplica(NamedTuple):
    """One replica in a log directory of a broker."""

    broker: int
    log_dir: str
    at: TopicPartition
    size_bytes: int
    is_future: bool


async def existing_topics(client: KafkaClient, names: Sequence[str]) -> ClusterMetadata:
    """Return the metadata of topics that must exist. Raises DeployError that names the others."""
    found = await client.metadata(list(names))
    missing = [name for name in names if found.topics[name].error]
    if missing:
        everything = (await client.metadata(None)).topics
        details = []
        for name in missing:
            near = nearest_name(name, everything)
            hint = f"; did you mean {near!r}?" if near and near != name else ""
            details.append(f"topic {name!r}: {found.topics[name].error.name.upper()}{hint}")
        raise DeployError("not every topic can be read", details)
    return found


async def offsets_of(
    client: KafkaClient, topics: Iterable[TopicMetadata]
) -> dict[TopicPartition, tuple[int | None, int | None]]:
    """Return (log start offset, high watermark) of every partition; None is unknown."""
    places = [
        TopicPartition(topic.name, index) for topic in topics for index in sorted(topic.partitions)
    ]
    starts = await known_offsets(client, places, EARLIEST_TIMESTAMP)
    ends = await known_offsets(client, places, LATEST_TIMESTAMP)
    return {at: (starts.get(at), ends.get(at)) for at in places}


async def known_offsets(
    client: KafkaClient, places: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return the offset for a timestamp, where a leader answers. Past the last record: missing."""
    wanted = dict.fromkeys(places, timestamp)
    if not wanted:
        return {}
    listed = await client.list_offsets(wanted)
    return {at: each.offset for at, each in listed.items() if not each.error and each.offset >= 0}


async def log_dirs(
    client: KafkaClient, node_id: int
) -> tuple[list[JsonObject], list[LogDirReplica]]:
    """Return the log directories of a broker, and the replicas in them. Raises KafkaError."""
    answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node_id=node_id)
    top_level = get(answer, "error_code", ErrorCode.none)
    if top_level:
        raise KafkaError(top_level, f"log directories of broker {node_id}")
    directories, replicas = [], []
    for found in answer.results:
        held = [
            LogDirReplica(
                node_id,
                found.log_dir,
                TopicPartition(topic.name, int(each.partition_index)),
                int(each.partition_size),
                bool(each.is_future_key),
            )
            for topic in found.topics
            for each in topic.partitions
        ]
        replicas += held
        directories.append(
            {
                "log_dir": found.log_dir,
                "error": ErrorCode(found.error_code).name.upper() if found.error_code else None,
                "replicas": len(held),
                "size_bytes": sum(each.size_bytes for each in held),
                "total_bytes": _known(get(found, "total_bytes", _NOT_REPORTED)),
                "usable_bytes": _known(get(found, "usable_bytes", _NOT_REPORTED)),
            }
        )
    return directories, replicas


async def replica_sizes(
    client: KafkaClient, node_ids: Iterable[int]
) -> dict[tuple[int, TopicPartition], int]:
    """Return the size of every replica by broker, where the broker answers the question."""
    sizes = {}
    for node_id in node_ids:
        try:
            _, replicas = await log_dirs(client, node_id)
        except KafkaError:
            continue  # without the right to describe the cluster, sizes are unknown
        for each in replicas:
            if not each.is_future:
                sizes[node_id, each.at] = each.size_bytes
    return sizes


def topic_row(topic: TopicMetadata) -> JsonObject:
    """Return the row of a topic in a list."""
    parts = topic.partitions.values()
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in parts), default=0),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in parts),
        "offline": sum(each.leader < 0 for each in parts),
        "internal": topic.is_internal,
        "error": topic.error.name.upper() if topic.error else None,
    }


def partition_rows(
    topic: TopicMetadata,
    offsets: Mapping[TopicPartition, tuple[int | None, int | None]],
    sizes: Mapping[tuple[int, TopicPartition], int],
) -> list[JsonObject]:
    """Return the rows of a topic's partitions; the size is that of the leader's replica."""
    rows = []
    for index, each in sorted(topic.partitions.items()):
        at = TopicPartition(topic.name, index)
        start, end = offsets.get(at, (None, None))
        rows.append(
            {
                "partition": index,
                "leader": each.leader if each.leader >= 0 else None,
                "leader_epoch": each.leader_epoch if each.leader_epoch >= 0 else None,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "log_start_offset": start,
                "end_offset": end,
                "size_bytes": sizes.get((each.leader, at)),
            }
        )
    return rows


def _known(value: int) -> int | None:
    return int(value) if value >= 0 else None
