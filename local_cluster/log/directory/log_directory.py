"""One log directory in Kafka's layout: its logs, and what is kept about all of them.

    meta.properties  .lock  .kafka_cleanshutdown  recovery-point-offset-checkpoint
    replication-offset-checkpoint  log-start-offset-checkpoint  cleaner-offset-checkpoint
    <topic>-<partition>/  with partition.metadata and the files of its log
    <topic>-<partition>.<topic id>-delete/  on its way out
    <topic>-<partition>.<topic id>-stray/   set aside: nobody assigns it to this broker
    <topic>-<partition>.<topic id>-future/  a copy of a replica that moves here

Guarantees: one process at a time (Kafka included); a directory is deleted only after `delete_log`
renamed it, or long after `set_aside` did; the clean-shutdown marker is written only if every
log is whole, and is gone as soon as the directory is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

from local_cluster.clock import Clock
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.closing import close_logs
from local_cluster.log.directory.future_logs import FutureLogs
from local_cluster.log.directory.offset_checkpoints import Checkpoint, OffsetCheckpoints
from local_cluster.log.directory.owner import DirectoryOwner
from local_cluster.log.directory.stray_logs import StrayLogs, StrayNotes
from local_cluster.log.disk.disk_health import PROBE_NAME, DiskState, Probe, is_out_of_space
from local_cluster.log.disk.disk_work import Deletion, DirectoryNotOursError, LogDirectoryError
from local_cluster.log.disk.files import Files, LogFile
from local_cluster.log.partition.partition_directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    MOVED_HERE,
    STRAY_SUFFIX,
    deleted_name,
    load_topic_id,
    parse_log_name,
)
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state import checkpoints as c
from local_cluster.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)


class LogDirectory:
    """One log directory of a broker: `open` it first, `close` it last."""

    def __init__(
        self,
        path: Path,
        files: Files,
        *,
        broker_id: int,
        clock: Clock,
        on_failed: Callable[[LogDirectory, OSError], None] | None = None,
    ) -> None:
        """`on_failed` is called once, with the error, when the disk can not be written any more."""
        self.path = str(path)
        self._on_failed = on_failed
        self.disk = DiskState(self.path, self._disk_failed)
        self._files = files
        self._owner = DirectoryOwner(files, self.path, broker_id)
        self._clock = clock
        self._lock: LogFile | None = None
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._offsets = OffsetCheckpoints(files, self.path)
        self._config = LogConfig()
        self._flushes = True
        self._garbage: list[str] = []
        self._strays = StrayLogs(files, self.path, clock)
        self.futures = FutureLogs(files, self.path, self.disk)
        self.offline: dict[tuple[str, int], str] = {}
        """Partitions that could not be opened, and why."""
        self._released: set[tuple[str, int]] = set()
        """Partitions that moved to another directory, whose files are still here."""
        self.was_clean = False
        self._is_checkpoint_due = False
        """Whether a log was opened of which the checkpoints say what may not be believed for long:
        they are written before anything is appended to it."""
        self._is_open = False
        """Only then is it ours to write: a clean stop would replace the checkpoints of others."""

    def open(
        self,
        *,
        cluster_id: str | None = None,
        config: LogConfig | None = None,
        flushes: bool = True,
    ) -> None:
        """Open or make the directory and recover every log in it. Blocks.

        `cluster_id` may be bound later; `config` is what the logs go by until `update_config`.
        `flushes` says whether the broker acknowledges only what is on the disk: then everything
        below a checkpointed high watermark must be whole.
        Raises DirectoryNotOursError where it belongs to someone else or is in use,
        LogDirectoryError where the disk fails.
        """
        try:
            self._files.make_dir(self.path)
            self._lock = self._files.lock(f"{self.path}/.lock")
            self._owner.claim(cluster_id)
            self._open_logs(config or LogConfig(), flushes)
            self._is_open = True
        except BlockingIOError as error:
            raise DirectoryNotOursError(f"{self.path} is in use by another process") from error
        except LogDirectoryError:
            raise
        except (OSError, c.CheckpointCorruptError) as error:
            raise LogDirectoryError(f"{self.path} cannot be opened: {error}") from error

    def bind_cluster_id(self, cluster_id: str) -> None:
        """Make this the directory of a cluster, if it is nobody's yet. Blocks.

        Raises LogDirectoryError where it is another cluster's or broker's.
        """
        self._owner.claim(cluster_id)

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    @property
    def partitions_count(self) -> int:
        """How many partitions lie here, those that cannot be opened or move here among them."""
        return len(self._logs) + len(self.offline) + len(self.futures)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, None if there is none here."""
        return self._logs.get((topic, partition))

    def high_watermark(self, topic: str, partition: int) -> int:
        """As it was checkpointed last, 0 if it never was."""
        return self._offsets.high_watermark((topic, partition))

    def cleaned_offset(self, topic: str, partition: int) -> int:
        """How far the log was compacted, 0 if it never was."""
        return self._offsets.cleaned((topic, partition))

    def set_cleaned_offset(self, topic: str, partition: int, offset: int) -> None:
        """Note how far the log was compacted; the swap must be on the disk. Written by the next
        checkpoint."""
        if (topic, partition) in self._logs:
            self._offsets.set_cleaned((topic, partition), offset)

    def get_or_create(
        self, topic: str, topic_id: UUID, partition: int, config: LogConfig
    ) -> PartitionLog:
        """The log of a partition, made if it is not there. Blocks where a log of that name was
        there a moment ago, until the checkpoints do not tell of it any more.

        Raises KafkaError: inconsistent_topic_id where another incarnation of the topic is still
        here (it is deleted only when the metadata says so), kafka_storage_error.
        """
        key = (topic, partition)
        if key in self.offline:
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline[key])
        log = self._logs.get(key)
        if log is not None:
            if log.topic_id is None:
                # Its partition.metadata is missing: without an id nobody could delete it.
                log.adopt_topic_id(topic_id)
            if log.topic_id != topic_id:
                raise KafkaError(
                    ErrorCode.inconsistent_topic_id, f"{log} is of topic id {log.topic_id}"
                )
            log.update_config(config)
            return log
        self._require_own_offsets(key)
        if self.has_stray(topic, partition, topic_id):
            return self._bring_back(topic, partition, topic_id)
        log = PartitionLog.create(
            self._files,
            f"{self.path}/{topic}-{partition}",
            topic,
            partition,
            config,
            now_ms=self._clock.now_ms(),
            topic_id=topic_id,
            disk=self.disk,
        )
        self._logs[key] = log
        return log

    def delete_topic(self, topic: str, topic_id: UUID) -> None:
        """Take out every log of one incarnation of a topic; `collect_garbage` has the files.

        Raises KafkaError(kafka_storage_error).
        """
        for log in self:
            if log.topic == topic and log.topic_id == topic_id:
                self._garbage += self.delete_log(topic, log.partition).trees

    def delete_replica(self, topic: str, partition: int) -> None:
        """Take out one log that was moved to other brokers; `collect_garbage` has the files.

        Raises KafkaError(kafka_storage_error).
        """
        self._garbage += self.delete_log(topic, partition).trees

    def has_stray(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether this very replica was set aside here."""
        return self._strays.has(topic, partition, topic_id)

    def set_aside(self, topic: str, partition: int) -> str:
        """Take out a log that nobody assigns to this broker, and keep its files for a while.

        The path where they are; `get_or_create` brings them back. Blocks until what the checkpoints
        know of it lies beside it. Raises KafkaError(kafka_storage_error).
        """
        key = (topic, partition)
        log = self._logs[key]
        try:
            # First: no checkpoint tells of what bears another name.
            self._offsets.leave_in(log.directory, key, log)
        except OSError as error:
            self.disk.note(error)
            raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        path = self._strays.add(log)
        del self._logs[key]
        self._offsets.forget(key)
        return path

    def drop_old_strays(self, older_than_ms: int) -> None:
        """Give up what was kept for that long; `collect_garbage` has the files.

        The time in which no broker ran does not count.
        """
        self._garbage += self._strays.take_old(older_than_ms)

    def prepare_stray_notes(self) -> StrayNotes:
        """For how long what was set aside is kept by now, to be written by a worker."""
        return self._strays.prepare_notes()

    # -- moves between log directories --------------------------------------------------------

    def drop_future(self, topic: str, partition: int) -> None:
        """Give up the copy of a replica, if there is one; `collect_garbage` has the files.

        Raises KafkaError(kafka_storage_error).
        """
        self._garbage += self.futures.drop((topic, partition))

    def create_future(
        self, topic: str, topic_id: UUID, partition: int, config: LogConfig
    ) -> PartitionLog:
        """Begin a copy of a replica. Blocks as `get_or_create` does.

        Raises KafkaError: kafka_storage_error, invalid_topic_exception.
        """
        self._require_own_offsets((topic, partition))
        return self.futures.create((topic, partition), topic_id, config, self._clock.now_ms())

    def promote_future(self, topic: str, partition: int) -> None:
        """The copy is the replica from now on. Raises KafkaError(kafka_storage_error)."""
        self._logs[topic, partition] = self.futures.promote((topic, partition))

    def release(self, topic: str, partition: int) -> PartitionLog:
        """Have a log no more that is somewhere else by now; its files, and what the checkpoints
        tell of it, stay until `discard`: it is what a start finds that does not find the other."""
        log = self._logs.pop((topic, partition))
        self._offsets.note((topic, partition), log)
        self._released.add((topic, partition))
        return log

    def discard(self, log: PartitionLog) -> None:
        """Take out the files of a log that was released; `collect_garbage` has them.

        Raises KafkaError(kafka_storage_error).
        """
        self._garbage += self._take_out(log).trees
        self._released.discard((log.topic, log.partition))
        self._offsets.forget((log.topic, log.partition))

    def was_moved_here(self, topic: str, partition: int) -> bool:
        """Whether the log that lies here replaced one in another directory, which may be left."""
        return self._files.exists(f"{self.path}/{topic}-{partition}/{MOVED_HERE}")

    def sync(self) -> None:
        """Have the renaming of directories on the disk. Blocks. Raises LogDirectoryError."""
        try:
            self._files.open_for_sync(self.path).sync()
        except OSError as error:
            raise LogDirectoryError(f"{self.path}: {error}", error.errno) from error

    def collect_garbage(self) -> Deletion:
        """What was taken out and is to be removed, by a worker."""
        trees, self._garbage = self._garbage, []
        return Deletion(trees=trees, port=self._files)

    def delete_log(self, topic: str, partition: int) -> Deletion:
        """Take a log out; its files go when the deletion is run, or at the next start.

        Nothing to do for a log that is not here. Raises KafkaError(kafka_storage_error).
        """
        log = self._logs.get((topic, partition))
        if log is None:
            return Deletion(port=self._files)
        deletion = self._take_out(log)
        del self._logs[topic, partition]
        self._offsets.forget((topic, partition))
        return deletion

    def _take_out(self, log: PartitionLog) -> Deletion:
        new_path = f"{self.path}/{deleted_name(log.topic, log.partition, log.topic_id)}"
        if self._files.exists(new_path):
            # Left from a deletion of the same incarnation that did not finish.
            try:
                self._files.remove_tree(new_path)
            except OSError as error:
                raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        return log.delete(new_path)

    def prepare_checkpoint(
        self, high_watermarks: Mapping[tuple[str, int], int] | None = None
    ) -> Checkpoint:
        """The checkpoints as of now, to be written by a worker.

        `high_watermarks` replace those known for the partitions they name.
        """
        return self._offsets.prepare(
            self._logs,
            {*self.offline, *self._released},
            high_watermarks or {},
            only_flushed=self._flushes,
        )

    def prepare_probe(self) -> Probe:
        """What tells whether a full disk has space again, to be run by a worker."""
        return Probe(self._files, f"{self.path}/{PROBE_NAME}")

    def checkpoint(self, high_watermarks: Mapping[tuple[str, int], int] | None = None) -> None:
        """Write the checkpoints. Blocks. Raises LogDirectoryError."""
        self.prepare_checkpoint(high_watermarks).run()

    def reopen_offline(self) -> None:
        """Try again to open what could not be opened, or ended when a change of its files was
        refused: the disk may have been full. Blocks."""
        for key, log in list(self._logs.items()):
            if log.failure is not None:
                # Not closed: a flush of it may be under way.
                self._offsets.note(key, log)
                # Its recovery point may lie beyond its end, if it ended in a cut.
                self._is_checkpoint_due = True
                del self._logs[key]
                self._set_offline(key, log.failure)
        for key in list(self.offline):
            del self.offline[key]
            self._open_log(key, is_clean=False)
        try:
            self._write_due_checkpoint()
        except LogDirectoryError as error:
            # Nothing is appended on a full disk; the next call comes when there is space.
            self.disk.note(error)

    def fail(self, reason: str) -> None:
        """End every log here: the disk cannot be trusted any more."""
        for log in self._logs.values():
            log.fail(reason)
        self.futures.fail(reason)

    def close(
        self, *, clean: bool = True, high_watermarks: Mapping[tuple[str, int], int] | None = None
    ) -> None:
        """Close every log. With `clean` the next start trusts what it finds. Blocks.

        Nothing is written where it is not open: it may be somebody else's.

        A log that cannot be closed is noted and makes the stop an unclean one. Raises
        LogDirectoryError; the directory is given back all the same.
        """
        try:
            if clean and self._is_open:
                self._close_logs(high_watermarks)
        finally:
            self._is_open = False
            self._logs.clear()
            if self._lock is not None:
                self._lock.close()

    def _close_logs(self, high_watermarks: Mapping[tuple[str, int], int] | None) -> None:
        close_logs(list(self._logs.values()))
        self.checkpoint(high_watermarks)
        try:
            self.prepare_stray_notes().run()
        except OSError as error:
            _log.warning("what is set aside in %s is kept for longer: %s", self.path, error)
        unfit = [log for log in self._logs.values() if log.failure or log.corruption]
        if unfit or self.offline:
            _log.warning("no clean stop: %s", ", ".join(map(str, unfit)) or self.offline)
            return
        try:
            path = f"{self.path}/{c.CLEAN_SHUTDOWN}"
            self._files.replace(path, c.encode_clean_shutdown(), durable=True)
        except OSError as error:
            raise LogDirectoryError(f"clean stop cannot be noted: {error}") from error

    def _disk_failed(self, error: OSError) -> None:
        self.fail(f"the disk failed: {error}")
        if self._on_failed is not None:
            self._on_failed(self, error)

    def _open_logs(self, config: LogConfig, flushes: bool) -> None:
        self._config, self._flushes = config, flushes
        self._offsets.load()
        marker = f"{self.path}/{c.CLEAN_SHUTDOWN}"
        self.was_clean = self._files.exists(marker)
        if self.was_clean:
            # Gone before the first append, or a crash later would be taken for a clean stop.
            self._files.remove(marker)
            self._files.open_for_sync(self.path).sync()
        for name in self._files.list_dir(self.path):
            path = f"{self.path}/{name}"
            if not self._files.is_dir(path):
                continue
            if name.endswith(DELETE_SUFFIX):
                self._files.remove_tree(path)
                continue
            if name.endswith(STRAY_SUFFIX):
                self._strays.found(name)
                continue
            if name.endswith(FUTURE_SUFFIX):
                self.futures.found(name)
                continue
            key = parse_log_name(name)
            if key is None:
                _log.warning("%s is no partition and is left alone", path)
                continue
            self._open_log(key, self.was_clean)
        self._offsets.keep({*self._logs, *self.offline})
        try:
            self._write_due_checkpoint()
        except LogDirectoryError as error:
            if not is_out_of_space(error):
                raise
            self.disk.note(error)

    def _write_due_checkpoint(self) -> None:
        """Blocks, where one is due. Raises LogDirectoryError."""
        # A crash may have come between a truncation and its checkpoint.
        self._is_checkpoint_due |= self._offsets.bound_cleaned(self._logs)
        if self._is_checkpoint_due:
            self.checkpoint()
            self._is_checkpoint_due = False

    def _open_log(self, key: tuple[str, int], is_clean: bool) -> None:
        path = f"{self.path}/{key[0]}-{key[1]}"
        try:
            # It may have been brought back, and no checkpoint been written since.
            self._offsets.take_from(path, key)
        except (OSError, c.CheckpointCorruptError) as error:
            self._set_offline(key, f"{path}: {error}")
            return
        recovery_point = durable_offset = self._offsets.recovery_point(key)
        # After a crash the recovery point may lie beyond a truncation. The high watermark never
        # does, but for an unclean leader's: then the replica is fetched anew, as it has to be.
        end_offset_min = recovery_point if is_clean else 0
        if self._flushes:
            high_watermark = self._offsets.high_watermark(key)
            durable_offset = max(recovery_point, high_watermark)
            end_offset_min = end_offset_min or high_watermark
        try:
            topic_id = load_topic_id(self._files, path)
        except OSError as error:
            self._set_offline(key, f"{path}: {error}")
            return
        except KafkaError as error:
            # The first flush of a log makes its partition.metadata durable before anything counts.
            if durable_offset:
                self._set_offline(key, str(error))
            else:
                self._make_anew(key, path, error)
            return
        try:
            self._logs[key] = PartitionLog.open(
                self._files,
                path,
                *key,
                self._config,
                now_ms=self._clock.now_ms(),
                topic_id=topic_id,
                recovery_point=recovery_point,
                durable_offset=durable_offset,
                end_offset_min=end_offset_min,
                log_start_offset=self._offsets.log_start(key),
                is_clean=is_clean,
                disk=self.disk,
            )
        except KafkaError as error:
            self._set_offline(key, str(error))

    def _require_own_offsets(self, key: tuple[str, int]) -> None:
        """Have no checkpoint tell of another log that had this name. Blocks, where one does."""
        if self._offsets.tells_of_former(key):
            # Rarely: a name is used again right after its log went.
            try:
                self.checkpoint()
            except LogDirectoryError as error:
                self.disk.note(error)
                raise

    def _bring_back(self, topic: str, partition: int, topic_id: UUID) -> PartitionLog:
        key = (topic, partition)
        path = self._strays.path(topic, partition, topic_id)
        try:
            # Before it has its name back: opened without these offsets it would be shortened.
            self._offsets.take_from(path, key)
            self._strays.bring_back(topic, partition, topic_id)
        except (OSError, c.CheckpointCorruptError) as error:
            self._offsets.forget(key)
            raise KafkaError(ErrorCode.kafka_storage_error, f"{path}: {error}") from error
        self._open_log(key, is_clean=False)
        log = self._logs.get(key)
        if log is None:
            raise KafkaError(ErrorCode.kafka_storage_error, self.offline[key])
        return log

    def _set_offline(self, key: tuple[str, int], reason: str) -> None:
        _log.error("partition is offline: %s", reason)
        self.offline[key] = reason

    def _make_anew(self, key: tuple[str, int], path: str, reason: KafkaError) -> None:
        _log.warning("%s was never flushed and is made anew: %s", path, reason)
        try:
            self._files.remove_tree(path)
        except OSError as error:
            self._set_offline(key, f"{path}: {error}")
