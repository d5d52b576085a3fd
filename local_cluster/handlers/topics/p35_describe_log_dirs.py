"""DescribeLogDirs v1-v5 (KIP-113): the log directories of this broker and their replicas.

Directories are in the order of the settings; one that failed has KAFKA_STORAGE_ERROR and nothing
else. Sizes are those of the segments' batches. v2 is flexible, v3 has a top-level error, v4
(KIP-827) the total and usable bytes of the volume. v5 (KIP-1066) has whether the directory is
cordoned, which it never is. A replica's lag is 0, as for a leader in Kafka; the lag of a copy that
moves to another directory (`is_future_key`) is the number of offsets that it lacks. Offline
replicas are left out, as in Kafka.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.partition import Partition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

    from local_cluster.wire.responses.topics import (
        DescribeLogDirsPartition,
        DescribeLogDirsResponse,
        DescribeLogDirsResult,
        DescribeLogDirsTopic,
    )

UNKNOWN_BYTES: Final = -1


class _HeldLog(NamedTuple):
    """A log in a directory."""

    log: PartitionLog
    offset_lag: int
    is_future: bool


@handles(ApiKey.DESCRIBE_LOG_DIRS, min_version=1, max_version=5)
def describe_log_dirs(
    broker: BrokerServices, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Return the directories with the requested replicas; null topics stand for all."""
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        return {"error_code": ErrorCode.cluster_authorization_failed, "results": ()}
    directories = broker.log_directories
    held: dict[LogDirectory, list[_HeldLog]] = {each: [] for each in directories.all}
    for partition in _requested(broker.replicas, request):
        key = (partition.topic, partition.partition)
        home, target = directories.of(*key), directories.future_home(*key)
        if home is not None:
            held[home].append(_HeldLog(partition.log, 0, False))
        copy = None if target is None else target.futures.get(key)
        if target is not None and copy is not None:
            lag = max(partition.log.log_end_offset - copy.log_end_offset, 0)
            held[target].append(_HeldLog(copy, lag, True))
    return {
        "error_code": ErrorCode.none,
        "results": [
            _result(directory, logs, directories.failure(directory))
            for directory, logs in held.items()
        ],
    }


def _result(
    directory: LogDirectory, logs: Iterable[_HeldLog], failure: str | None
) -> DescribeLogDirsResult:
    total_bytes = usable_bytes = UNKNOWN_BYTES
    if failure is None:
        try:
            usage = shutil.disk_usage(directory.path)
            total_bytes, usable_bytes = usage.total, usage.free
        except OSError:
            pass  # the response says that it is unknown
    return {
        "error_code": ErrorCode.none if failure is None else ErrorCode.kafka_storage_error,
        "log_dir": str(Path(directory.path).absolute()),
        "topics": [] if failure is not None else _topics(logs),
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }


def _requested(
    replicas: Iterable[Partition], request: DescribeLogDirsRequest
) -> Iterable[Partition]:
    if request.topics is None:
        return replicas
    wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [each for each in replicas if (each.topic, each.partition) in wanted]


def _topics(logs: Iterable[_HeldLog]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log, offset_lag, is_future in logs:
        topics.setdefault(log.topic, []).append(
            {
                "partition_index": log.partition,
                "partition_size": log.segments.size_bytes,
                "offset_lag": offset_lag,
                "is_future_key": is_future,
            }
        )
    return [{"name": name, "partitions": entries} for name, entries in sorted(topics.items())]
