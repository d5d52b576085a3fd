"""AlterReplicaLogDirs v1-v2 (KIP-113): move replicas between log directories of this broker.

The response comes when the moves have started; DescribeLogDirs shows the copies (`is_future_key`)
and their lag. For a replica that is already in the directory, a move in progress is cancelled. A
replica that this broker does not have yet will be created in the directory; it is
REPLICA_NOT_AVAILABLE, which tools retry. If a partition occurs twice, its last directory counts. v2
is flexible. Errors:

- LOG_DIR_NOT_FOUND: the path is not in the settings, as written there or absolute.
- KAFKA_STORAGE_ERROR: the replica is offline, the directory failed, or any other directory failed,
  which may hold the replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest

    from local_cluster.wire.responses.topics import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsResponse,
    )


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS, min_version=1, max_version=2)
def alter_replica_log_dirs(
    broker: BrokerServices, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Start or cancel moves."""
    paths: dict[tuple[str, int], str] = {
        (topic.name, index): entry.path
        for entry in request.dirs
        for topic in entry.topics
        for index in topic.partitions
    }
    is_allowed = broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster")
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), path in paths.items():
        code = ErrorCode.cluster_authorization_failed
        if is_allowed:
            code = _move(broker, topic, index, path)
        results.setdefault(topic, []).append({"partition_index": index, "error_code": code})
    return {
        "results": [
            {"topic_name": topic, "partitions": partitions} for topic, partitions in results.items()
        ]
    }


def _move(broker: BrokerServices, topic: str, index: int, path: str) -> ErrorCode:
    directories, moves = broker.log_directories, broker.log_dir_moves
    target = directories.find(path)
    if target is None:
        return ErrorCode.log_dir_not_found
    try:
        if target not in directories.live:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{path} failed")
        if broker.replicas.is_offline(topic, index):
            raise KafkaError(ErrorCode.kafka_storage_error, "the replica is offline")
        partition = broker.replicas.get(topic, index)
        if partition is None:
            directories.prefer(topic, index, target)
            return ErrorCode.replica_not_available
        if directories.of(topic, index) is target:
            moves.cancel(topic, index)
            return ErrorCode.none
        if len(directories.live) < len(directories.all) or partition.log.corruption is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, "the replica may be elsewhere")
        moves.begin(partition, target)
    except KafkaError as error:
        return error.code
    return ErrorCode.none
