"""DescribeLogDirs v1-v5 (KIP-113): what lies in this broker's log directories.

Every directory in the order of the settings; one that failed has KAFKA_STORAGE_ERROR and nothing
else. Sizes are those of the segments' batches; v2 is flexible, v3 has an error for the whole
answer, v4 (KIP-827) the total and usable bytes of the volume, v5 (KIP-1066) whether the directory
is cordoned, which it never is. A replica's lag is 0, as for any leader in Kafka, and there are no
future replicas. Replicas that are offline are left out, as in Kafka.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from local_cluster.log.directory import LogDirectory
from local_cluster.replication.partition import Partition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

from .registry import Reply, RequestContext, handles
from .services import BrokerServices

UNKNOWN_BYTES: Final = -1


@handles(ApiKey.DESCRIBE_LOG_DIRS, min_version=1, max_version=5)
def describe_log_dirs(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """The directories with the replicas that were asked for, with null topics all of them."""
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        return {"error_code": ErrorCode.cluster_authorization_failed, "results": ()}
    directories = broker.log_directories
    held: dict[LogDirectory, list[Partition]] = {each: [] for each in directories.all}
    for partition in _asked(broker.replicas, request.topics):
        home = directories.of(partition.topic, partition.partition)
        if home is not None:
            held[home].append(partition)
    return {
        "error_code": ErrorCode.none,
        "results": [
            _result(directory, partitions, directories.failure(directory))
            for directory, partitions in held.items()
        ],
    }


def _result(
    directory: LogDirectory, partitions: Iterable[Partition], failure: str | None
) -> dict[str, Any]:
    total_bytes = usable_bytes = UNKNOWN_BYTES
    if failure is None:
        try:
            usage = shutil.disk_usage(directory.path)
            total_bytes, usable_bytes = usage.total, usage.free
        except OSError:
            pass  # not known, and said so
    return {
        "error_code": ErrorCode.none if failure is None else ErrorCode.kafka_storage_error,
        "log_dir": str(Path(directory.path).absolute()),
        "topics": [] if failure is not None else _topics(partitions),
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }


def _asked(replicas: Iterable[Partition], topics: Any) -> Iterable[Partition]:
    if topics is None:
        return replicas
    wanted = {(topic.topic, index) for topic in topics for index in topic.partitions}
    return [each for each in replicas if (each.topic, each.partition) in wanted]


def _topics(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(
            {
                "partition_index": partition.partition,
                "partition_size": partition.log.size_bytes,
                "offset_lag": 0,
                "is_future_key": False,
            }
        )
    return [{"name": name, "partitions": entries} for name, entries in sorted(topics.items())]
