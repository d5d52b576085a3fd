"""One log directory in Kafka's layout: its logs, and the files about all of them.

    meta.properties  .lock  .kafka_cleanshutdown  recovery-point-offset-checkpoint
    replication-offset-checkpoint  log-start-offset-checkpoint  cleaner-offset-checkpoint
    <topic>-<partition>/  with partition.metadata and the files of its log
    <topic>-<partition>.<topic id>-delete/  to be deleted
    <topic>-<partition>.<topic id>-stray/   set aside: assigned to no replica of this broker
    <topic>-<partition>.<topic id>-future/  a copy of a replica that moves here

Guarantees:
- One process at a time uses the directory, Kafka included.
- A partition's directory is deleted only after `delete_log` renamed it, or long after `set_aside`.
- The marker of a clean shutdown is written only if every log is whole. It is removed as soon as
  the directory is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

from local_cluster.clock import Clock
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.clean_shutdown import close_logs, take_marker, write_marker
from local_cluster.log.directory.future_logs import FutureLogs
from local_cluster.log.directory.log_table import LogTable
from local_cluster.log.directory.offset_checkpoints import Checkpoint, OffsetCheckpoints
from local_cluster.log.directory.owner import DirectoryOwner
from local_cluster.log.directory.stray_logs import StrayLogs
from local_cluster.log.disk.disk_health import PROBE_NAME, DiskState, Probe, is_out_of_space
from local_cluster.log.disk.disk_work import Deletion, LogDirectoryError
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    parse_log_name,
)
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.checkpoints import CheckpointCorruptError, Key
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


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
        """`on_failed` is called once, with the error, when the disk refuses every write."""
        self.path = str(path)
        self._on_failed = on_failed
        self.disk = DiskState(self.path, self._disk_failed)
        self._files = files
        self._clock = clock
        self._owner = DirectoryOwner(files, self.path, broker_id)
        self.offsets = OffsetCheckpoints(files, self.path)
        self._table = LogTable(files, self.path, clock, self.disk, self.offsets)
        self.offline: Mapping[Key, str] = self._table.offline
        """Partitions that could not be opened, and why."""
        self.strays = StrayLogs(files, self.path, clock)
        self.futures = FutureLogs(files, self.path, self.disk)
        self._released: set[Key] = set()
        """Partitions that moved to another directory, whose files are still here."""
        self._garbage: list[str] = []
        self.was_clean = False
        self._is_checkpoint_due = False
        """Whether the checkpoints must be written before anything is appended."""
        self._is_open = False
        """Whether this broker may write here: a clean stop would replace another's checkpoints."""

    # -- opening and closing ----------------------------------------------------------------

    def open(
        self,
        *,
        cluster_id: str | None = None,
        config: LogConfig | None = None,
        flushes: bool = True,
    ) -> None:
        """Open or create the directory and recover every log in it. Blocks.

        - `cluster_id` may be bound later.
        - `config` is the config of the logs until `LogState.update_config`.
        - `flushes`: the broker acknowledges only what is on the disk. Then everything below a
          checkpointed high watermark must be whole.

        Raises DirectoryNotOursError where it belongs to another owner or is in use,
        LogDirectoryError where the disk fails.
        """
        self._table.config = config or LogConfig()
        self._table.flushes = flushes
        try:
            self._files.make_dir(self.path)
            self._owner.lock()
            self._owner.claim(cluster_id)
            self._open_logs()
            self._is_open = True
        except (OSError, CheckpointCorruptError) as error:
            raise LogDirectoryError(f"{self.path} cannot be opened: {error}") from error

    def bind_cluster_id(self, cluster_id: str) -> None:
        """Bind the directory to a cluster, if it has no owner yet. Blocks.

        Raises DirectoryNotOursError where it belongs to another owner, LogDirectoryError.
        """
        self._owner.claim(cluster_id)

    def close(
        self, *, clean: bool = True, high_watermarks: Mapping[Key, int] | None = None
    ) -> None:
        """Close every log. With `clean` the next start trusts what it finds. Blocks.

        A directory that is not open may belong to another owner: nothing is written there.
        A log that cannot be closed is logged and makes the stop an unclean one. Raises
        LogDirectoryError; the lock is released all the same.
        """
        try:
            if clean and self._is_open:
                self._close_logs(high_watermarks)
        except OSError as error:
            raise LogDirectoryError(f"{self.path} cannot be closed: {error}") from error
        finally:
            self._is_open = False
            self._table.logs.clear()
            self._owner.unlock()

    def fail(self, reason: str) -> None:
        """Fail every log here: the disk cannot be trusted any more."""
        for each in self:
            each.state.fail(reason)
        self.futures.fail(reason)

    def reopen_offline(self) -> None:
        """Open again what is offline or failed: the disk may have been full. Blocks."""
        if self._table.reload():
            self._is_checkpoint_due = True
        try:
            self._write_due_checkpoint()
        except OSError as error:
            # Nothing is appended on a full disk; the next call comes when there is space.
            self.disk.note(error)

    def _disk_failed(self, error: OSError) -> None:
        self.fail(f"the disk failed: {error}")
        if self._on_failed is not None:
            self._on_failed(self, error)

    def _open_logs(self) -> None:
        self.offsets.load()
        self.was_clean = take_marker(self._files, self.path)
        for name in self._files.list_dir(self.path):
            if self._files.is_dir(f"{self.path}/{name}"):
                self._found(name)
        self.offsets.keep({*self._table.logs, *self.offline})
        try:
            self._write_due_checkpoint()
        except OSError as error:
            if not is_out_of_space(error):
                raise
            self.disk.note(error)

    def _found(self, name: str) -> None:
        """Take in a directory that a former process left."""
        if name.endswith(DELETE_SUFFIX):
            self._files.remove_tree(f"{self.path}/{name}")
        elif name.endswith(STRAY_SUFFIX):
            self.strays.found(name)
        elif name.endswith(FUTURE_SUFFIX):
            self.futures.found(name)
        elif (key := parse_log_name(name)) is not None:
            self._table.load(key, is_clean=self.was_clean)
        else:
            log.warning("%s/%s is no partition and is left alone", self.path, name)

    def _close_logs(self, high_watermarks: Mapping[Key, int] | None) -> None:
        close_logs(self)
        self.checkpoint(high_watermarks)
        try:
            self.strays.prepare_notes().run()
        except OSError as error:
            log.warning("the strays in %s are kept for longer: %s", self.path, error)
        unfit = [each for each in self if each.failure or each.corruption]
        if unfit or self.offline:
            log.warning("no clean stop: %s", ", ".join(map(str, unfit)) or self.offline)
            return
        write_marker(self._files, self.path)

    # -- its logs ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._table)

    @property
    def partitions_count(self) -> int:
        """The number of partitions here, with those that are offline or move here."""
        return len(self._table.logs) + len(self.offline) + len(self.futures)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition; None if there is none here."""
        return self._table.logs.get((topic, partition))

    def get_or_create(
        self, topic: str, topic_id: UUID, partition: int, config: LogConfig
    ) -> PartitionLog:
        """Return the log of a partition, created if it does not exist.

        Blocks where a log of that name was deleted a moment ago, until the checkpoints do not
        name it any more. Raises KafkaError: inconsistent_topic_id where another incarnation of the
        topic is still here (it is deleted only when the metadata says so), kafka_storage_error.
        """
        key = (topic, partition)
        known = self._table.find(key, topic_id, config)
        if known is not None:
            return known
        self._require_own_offsets(key)
        if self.strays.has(topic, partition, topic_id):
            return self._bring_back(topic, partition, topic_id)
        return self._table.create(key, topic_id, config)

    def delete_topic(self, topic: str, topic_id: UUID) -> None:
        """Take out every log of one incarnation of a topic; `collect_garbage` has the files.

        Raises KafkaError(kafka_storage_error).
        """
        for each in self:
            if each.topic == topic and each.topic_id == topic_id:
                self.delete_replica(topic, each.partition)

    def delete_replica(self, topic: str, partition: int) -> None:
        """Take out one log; `collect_garbage` has the files.

        Raises KafkaError(kafka_storage_error).
        """
        self._garbage += self.delete_log(topic, partition).trees

    def delete_log(self, topic: str, partition: int) -> Deletion:
        """Take out a log; its files go when the deletion runs, or at the next start.

        Nothing happens for a log that is not here. Raises KafkaError(kafka_storage_error).
        """
        deleted = self._table.logs.get((topic, partition))
        if deleted is None:
            return Deletion(port=self._files)
        deletion = self._table.rename_deleted(deleted)
        del self._table.logs[topic, partition]
        self.offsets.forget((topic, partition))
        return deletion

    def collect_garbage(self) -> Deletion:
        """Return the deletion of everything that was taken out, to be run by a worker."""
        trees, self._garbage = self._garbage, []
        return Deletion(trees=trees, port=self._files)

    def _require_own_offsets(self, key: Key) -> None:
        """Write the checkpoints if they still name a former log of this name. Blocks then."""
        if self.offsets.names_former(key):
            # Rare: a name is used again right after its log was deleted.
            try:
                self.checkpoint()
            except OSError as error:
                self.disk.note(error)
                raise LogDirectoryError(str(error)) from error

    # -- checkpoints and space --------------------------------------------------------------

    def prepare_checkpoint(self, high_watermarks: Mapping[Key, int] | None = None) -> Checkpoint:
        """Return the checkpoints as they are, to be written by a worker.

        `high_watermarks` replace the known ones of the partitions that they name.
        """
        return self.offsets.prepare(
            self._table.logs,
            {*self.offline, *self._released},
            high_watermarks or {},
            only_flushed=self._table.flushes,
        )

    def checkpoint(self, high_watermarks: Mapping[Key, int] | None = None) -> None:
        """Write the checkpoints. Blocks. Raises OSError."""
        self.prepare_checkpoint(high_watermarks).run()

    def prepare_probe(self) -> Probe:
        """Return the work that shows whether a full disk has space again."""
        return Probe(self._files, f"{self.path}/{PROBE_NAME}")

    def sync(self) -> None:
        """Make the renames of directories durable. Blocks. Raises LogDirectoryError."""
        try:
            self._files.open_for_sync(self.path).sync()
        except OSError as error:
            raise LogDirectoryError(f"{self.path}: {error}") from error

    def _write_due_checkpoint(self) -> None:
        """Write the checkpoints if they are due. Blocks. Raises OSError."""
        # A crash may have come between a truncation and its checkpoint.
        self._is_checkpoint_due |= self.offsets.bound_cleaned(self._table.logs)
        if self._is_checkpoint_due:
            self.checkpoint()
            self._is_checkpoint_due = False

    # -- strays -----------------------------------------------------------------------------

    def set_aside(self, topic: str, partition: int) -> str:
        """Take out a log that no replica of this broker uses; keep its files; return their path.

        `get_or_create` brings them back. Blocks until the offsets of its checkpoints lie beside
        it. Raises KafkaError(kafka_storage_error).
        """
        key = (topic, partition)
        stray = self._table.logs[key]
        try:
            # First: no checkpoint names a log under another name.
            self.offsets.leave_in(stray.directory, key, stray)
        except OSError as error:
            self.disk.note(error)
            raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
        path = self.strays.add(stray)
        del self._table.logs[key]
        self.offsets.forget(key)
        return path

    def drop_old_strays(self, older_than_ms: int) -> None:
        """Give up the strays kept for that long; `collect_garbage` has the files.

        Time in which no broker ran does not count.
        """
        self._garbage += self.strays.take_old(older_than_ms)

    def _bring_back(self, topic: str, partition: int, topic_id: UUID) -> PartitionLog:
        key = (topic, partition)
        path = self.strays.path(topic, partition, topic_id)
        try:
            # Before the rename: a log opened without these offsets would be shortened.
            self.offsets.take_from(path, key)
            self.strays.bring_back(topic, partition, topic_id)
        except (OSError, CheckpointCorruptError) as error:
            self.offsets.forget(key)
            raise KafkaError(ErrorCode.kafka_storage_error, f"{path}: {error}") from error
        self._table.load(key, is_clean=False)
        return self._table.require(key)

    # -- moves between log directories (KIP-113) --------------------------------------------

    def create_future(
        self, topic: str, topic_id: UUID, partition: int, config: LogConfig
    ) -> PartitionLog:
        """Create the empty copy of a replica. Blocks as `get_or_create` does.

        Raises KafkaError: kafka_storage_error, invalid_topic_exception.
        """
        self._require_own_offsets((topic, partition))
        return self.futures.create((topic, partition), topic_id, config, self._clock.now_ms())

    def promote_future(self, topic: str, partition: int) -> None:
        """Make the copy the replica. Raises KafkaError(kafka_storage_error)."""
        self._table.logs[topic, partition] = self.futures.promote((topic, partition))

    def drop_future(self, topic: str, partition: int) -> None:
        """Give up the copy of a replica, if there is one; `collect_garbage` has the files.

        Raises KafkaError(kafka_storage_error).
        """
        self._garbage += self.futures.drop((topic, partition))

    def release(self, topic: str, partition: int) -> PartitionLog:
        """Hand over a log that another directory has replaced.

        Its files and its checkpointed offsets stay until `discard`: a start that does not find
        the other copy needs them.
        """
        released = self._table.logs.pop((topic, partition))
        self.offsets.note((topic, partition), released)
        self._released.add((topic, partition))
        return released

    def discard(self, released: PartitionLog) -> None:
        """Take out the files of a log that was released; `collect_garbage` has them.

        Raises KafkaError(kafka_storage_error).
        """
        self._garbage += self._table.rename_deleted(released).trees
        self._released.discard((released.topic, released.partition))
        self.offsets.forget((released.topic, released.partition))
