"""Batches, logs and failing disks for the tests of the log."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.files import LogFile, OsFiles, Syncable
from local_cluster.log.partition.batch_checks import check_produced
from local_cluster.log.partition.partition_log import AppendResult, PartitionLog
from local_cluster.records.batch import NewRecord, Record, encode_batch, iter_records
from tests.unit.local_cluster.log.faulty_files import WrappedFile

TOPIC_ID = UUID(int=7)
NOW_MS = 1_700_000_000_000


def batch(
    count: int = 1,
    *,
    timestamp_ms: int = NOW_MS,
    value: bytes = b"value",
    key: bytes | None = b"key",
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
) -> bytearray:
    """Return a produced batch; record i has the timestamp `timestamp_ms + i`."""
    return encode_batch(
        [NewRecord(timestamp_ms + index, key, value) for index in range(count)],
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        attributes=attributes,
    )


def append(
    log: PartitionLog, *batches: bytearray, epoch: int = 0, now_ms: int = NOW_MS
) -> AppendResult:
    """Check and append as Produce does; the given batches stay unchanged."""
    buffer = bytearray(b"".join(batches))
    headers = check_produced(buffer, batches_max=len(batches), allow_transactional=True)
    return log.as_leader.append(buffer, headers, leader_epoch=epoch, now_ms=now_ms)


def create(
    directory: Path,
    files: OsFiles | None = None,
    config: LogConfig | None = None,
    disk: DiskState | None = None,
) -> PartitionLog:
    return PartitionLog.create(
        files or OsFiles(),
        f"{directory}/t-0",
        "t",
        0,
        config or LogConfig(),
        now_ms=NOW_MS,
        topic_id=TOPIC_ID,
        disk=disk,
    )


def reopen(
    directory: Path,
    *,
    config: LogConfig | None = None,
    recovery_point: int = 0,
    durable_offset: int = 0,
    log_start_offset: int = 0,
    is_clean: bool = False,
) -> PartitionLog:
    """Open the files of a log, by default as after a crash."""
    return PartitionLog.open(
        OsFiles(),
        f"{directory}/t-0",
        "t",
        0,
        config or LogConfig(),
        now_ms=NOW_MS,
        topic_id=TOPIC_ID,
        recovery_point=recovery_point,
        durable_offset=durable_offset,
        log_start_offset=log_start_offset,
        is_clean=is_clean,
    )


def read_all(log: PartitionLog, bytes_max: int = 1 << 20) -> bytes:
    """Read everything from the start to the end, slice by slice."""
    parts = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.reader.read(
            offset,
            bytes_max=bytes_max,
            offset_limit=log.log_end_offset,
            at_least_one_batch=True,
        )
        assert piece.next_offset > offset, "a read must advance"
        parts.append(piece.read())
        assert len(parts[-1]) == piece.size_bytes
        offset = piece.next_offset
    return b"".join(parts)


def records_of(log: PartitionLog) -> list[Record]:
    return list(iter_records(read_all(log)))


def offsets_of(log: PartitionLog) -> list[int]:
    return [record.offset for record in records_of(log)]


def flush(log: PartitionLog) -> None:
    ticket = log.flusher.begin_flush()
    assert ticket is not None
    ticket.run()
    log.flusher.complete_flush(ticket)


class FailingFile(WrappedFile):
    """A file whose next write or sync fails as its disk says."""

    def __init__(self, file: LogFile, disk: FailingFiles, name: str) -> None:
        super().__init__(file)
        self._disk = disk
        self._name = name

    def write(self, buffer: bytes | bytearray | memoryview, /) -> int | None:
        disk = self._disk
        disk.writes.append(self._name)
        if disk.fits_bytes is None:
            return super().write(buffer)
        fits, disk.fits_bytes = disk.fits_bytes, None
        written = super().write(bytes(buffer)[:fits])
        if disk.error:
            # Some of it reaches the file before the error does.
            raise OSError(disk.error, "injected")
        return written

    def truncate(self, size_bytes: int, /) -> int:
        if self._disk.truncate_fails:
            raise OSError(errno.EIO, "injected")
        return super().truncate(size_bytes)

    def sync(self) -> None:
        self._disk.synced.append(self._name)
        if self._disk.sync_fails:
            raise OSError(errno.EIO, "injected")
        super().sync()


class FailingFiles(OsFiles):
    """The real file system, with writes and syncs that can be made to fail."""

    def __init__(self) -> None:
        self.fits_bytes: int | None = None
        """The next write takes only so many bytes."""
        self.error = 0
        """... and then raises this errno; 0 for a short write."""
        self.sync_fails = False
        self.truncate_fails = False
        self.create_fails = False
        self.writes: list[str] = []
        self.synced: list[str] = []

    def open(self, path: str, *, create: bool = False) -> LogFile:
        if create and self.create_fails and path.endswith(".log"):
            raise OSError(errno.ENOSPC, "injected")
        return FailingFile(super().open(path, create=create), self, Path(path).name)

    def open_for_sync(self, path: str) -> Syncable:
        self.synced.append(Path(path).name)
        return super().open_for_sync(path)


def bases(paths: Sequence[Path]) -> list[int]:
    return sorted(int(path.stem) for path in paths)
