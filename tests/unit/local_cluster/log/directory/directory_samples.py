"""Log directories for tests: opened on a stopped clock, with logs of topic `t`."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID


class StandingClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


def opened(
    path: Path, *, broker_id: int = 1, cluster_id: str = "c", files: OsFiles | None = None
) -> LogDirectory:
    directory = LogDirectory(path, files or OsFiles(), broker_id=broker_id, clock=StandingClock())
    directory.open(cluster_id=cluster_id)
    return directory


def made(directory: LogDirectory, partition: int = 0, topic_id: UUID = TOPIC_ID) -> PartitionLog:
    return directory.get_or_create("t", topic_id, partition, LogConfig())
