"""AlterReplicaLogDirs v1-v2 (KIP-113): move replicas between log directories of this broker.

Answered when the move has begun; DescribeLogDirs shows the copy (`is_future_key`) and its lag. A
replica that is where it is wanted is not moved, and a move to somewhere else is given up. A replica
that is not here yet is made in the directory when it comes, and REPLICA_NOT_AVAILABLE says so: a
tool asks again. LOG_DIR_NOT_FOUND for a path that is not in the settings, as it stands there and
absolute; KAFKA_STORAGE_ERROR where the directory or any other failed (the replica might lie there),
or the replica is offline. Where a partition is named twice the last directory counts. v2 is
flexible.
"""

from __future__ import annotations

from typing import Any

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS, min_version=1, max_version=2)
def alter_replica_log_dirs(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Begin or give up moves; an error per partition."""
    wanted = {
        (topic.name, int(index)): entry.path
        for entry in request.dirs
        for topic in entry.topics
        for index in topic.partitions
    }
    is_allowed = broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster")
    results: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), path in wanted.items():
        code = ErrorCode.cluster_authorization_failed
        if is_allowed:
            code = _alter(broker, topic, index, path)
        results.setdefault(topic, []).append({"partition_index": index, "error_code": code})
    return {
        "results": [
            {"topic_name": topic, "partitions": partitions} for topic, partitions in results.items()
        ]
    }


def _alter(broker: BrokerServices, topic: str, index: int, path: str) -> ErrorCode:
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
