"""The log directories of one broker as one place (JBOD, KIP-112): who has what, who is lost.

    new partition     the live directory with the fewest partitions (Kafka's rule), the first of
                      several; one whose disk is full only where all are
    failed directory  its logs are over until a restart, and nothing is made in its stead: what it
                      held is not here any more, but on a disk that may come back
    failed at start   what it holds is not known (`has_unread`); the others are used
    two copies        of one partition in two directories: the one that was moved here is right
                      and the other one goes; where that is not said nobody knows which to believe,
                      and the broker does not start

Guarantees: a directory fails once and for all until a restart; `on_failed` is told once for each.
Not here: what becomes of the replicas (replication/replica_set.py).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from local_cluster.clock import Clock
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.disk_work import DirectoryNotOursError, LogDirectoryError
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.wire.errors import ErrorCode, KafkaError

PREFERRED_MAX: Final = 100_000
"""Partitions that are not here, and of which is remembered where somebody wants them."""

_log = logging.getLogger(__name__)


class LogStore:
    """Every log directory of a broker: `open` first, `close` each that is live last."""

    def __init__(
        self,
        paths: Sequence[Path],
        files: Files,
        *,
        broker_id: int,
        clock: Clock,
        on_failed: Callable[[LogDirectory, BaseException], None] | None = None,
    ) -> None:
        """`on_failed` is told of a directory that cannot be used any more, after its logs ended."""
        assert paths, "a broker has a log directory"
        self._on_failed = on_failed
        self.all = tuple(
            LogDirectory(path, files, broker_id=broker_id, clock=clock, on_failed=self.fail)
            for path in paths
        )
        """In the order of the settings, those that failed among them."""
        self._failed: dict[LogDirectory, str] = {}
        self._homes: dict[str, dict[int, LogDirectory]] = {}
        """Where each partition of a topic is, also where that directory failed since."""
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        """Where somebody wants partitions that are not here yet."""
        self.has_unread = False
        """Whether a directory could not be read at the start: nobody knows what it holds."""

    @property
    def live(self) -> tuple[LogDirectory, ...]:
        """Those that can be used."""
        return tuple(each for each in self.all if each not in self._failed)

    def failure(self, directory: LogDirectory) -> str | None:
        """Why a directory cannot be used, None while it can."""
        return self._failed.get(directory)

    def open(
        self,
        *,
        cluster_id: str | None = None,
        config: LogConfig | None = None,
        flushes: bool = True,
    ) -> None:
        """Open every directory; see LogDirectory.open. Blocks.

        One whose disk fails is left out. Raises LogDirectoryError where all of them fail, where
        one is in use or another broker's, or where two hold the same partition.
        """
        last: LogDirectoryError | None = None
        try:
            for directory in self.all:
                try:
                    directory.open(cluster_id=cluster_id, config=config, flushes=flushes)
                except DirectoryNotOursError:
                    raise
                except LogDirectoryError as error:
                    last = error
                    self._leave_out(directory, error)
                else:
                    self._take_in(directory)
            if last is not None and not self.live:
                raise last
            self._end_moves()
        except LogDirectoryError:
            for directory in self.all:
                directory.close(clean=False)
            raise

    def bind_cluster_id(self, cluster_id: str) -> None:
        """Make all of them directories of a cluster. Blocks.

        Raises LogDirectoryError where one is another cluster's, or the last one fails.
        """
        for directory in self.live:
            try:
                directory.bind_cluster_id(cluster_id)
            except DirectoryNotOursError:
                raise
            except LogDirectoryError as error:
                self.fail(directory, error)
                if not self.live:
                    raise

    def fail(self, directory: LogDirectory, error: BaseException) -> None:
        """A directory cannot be trusted any more: its logs are over, the others go on."""
        if directory in self._failed:
            return
        self._failed[directory] = str(error)
        directory.fail(f"the log directory failed: {error}")
        if self._on_failed is not None:
            self._on_failed(directory, error)

    # -- logs -------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PartitionLog]:
        for directory in self.live:
            yield from directory

    def of(self, topic: str, partition: int) -> LogDirectory | None:
        """The directory that has a partition, None where none has; it may have failed since."""
        return self._homes.get(topic, {}).get(partition)

    def partitions_of(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic that some directory has."""
        return tuple(self._homes.get(topic, ()))

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, None if there is none in a live directory."""
        directory = self.of(topic, partition)
        if directory is None or directory in self._failed:
            return None
        return directory.get(topic, partition)

    def get_or_create(
        self, topic: str, topic_id: UUID, partition: int, config: LogConfig
    ) -> PartitionLog:
        """The log of a partition, made if it is nowhere. Raises as LogDirectory.get_or_create."""
        directory = self.of(topic, partition)
        if directory is not None and directory in self._failed:
            raise KafkaError(ErrorCode.kafka_storage_error, self._failed[directory])
        if directory is None:
            directory = self._stray_home(topic, partition, topic_id) or self._choose(
                (topic, partition)
            )
        log = directory.get_or_create(topic, topic_id, partition, config)
        self._homes.setdefault(topic, {})[partition] = directory
        self._preferred.pop((topic, partition), None)
        return log

    def high_watermark(self, topic: str, partition: int) -> int:
        """As it was checkpointed last, 0 if it never was."""
        directory = self.of(topic, partition)
        return 0 if directory is None else directory.high_watermark(topic, partition)

    def cleaned_offset(self, topic: str, partition: int) -> int:
        """How far the log was compacted, 0 if it never was."""
        directory = self.of(topic, partition)
        return 0 if directory is None else directory.cleaned_offset(topic, partition)

    def set_cleaned_offset(self, topic: str, partition: int, offset: int) -> None:
        """See LogDirectory.set_cleaned_offset."""
        directory = self.of(topic, partition)
        if directory is not None:
            directory.set_cleaned_offset(topic, partition, offset)

    def reopen_offline(self) -> None:
        """Try again to open what could not be opened. Blocks."""
        for directory in self.live:
            directory.reopen_offline()

    def delete_topic(self, topic: str, topic_id: UUID) -> bool:
        """Take out every log of one incarnation of a topic; whether nothing is left of it.

        What lies in a directory that failed stays there, and is deleted when it is back.
        Raises KafkaError(kafka_storage_error).
        """
        for directory in self.live:
            for key in directory.futures.keys_of(topic_id):
                directory.drop_future(*key)
            directory.delete_topic(topic, topic_id)
        kept = False
        for index, directory in list(self._homes.get(topic, {}).items()):
            if directory in self._failed:
                kept = True
            elif directory.get(topic, index) is None and (topic, index) not in directory.offline:
                self._forget(topic, index)
        return not kept and not self.has_unread

    def delete_replica(self, topic: str, partition: int) -> None:
        """Take out one log that was moved to other brokers.

        Raises KafkaError(kafka_storage_error).
        """
        directory = self.of(topic, partition)
        if directory is not None and directory not in self._failed:
            self.drop_future(topic, partition)
            directory.delete_replica(topic, partition)
            self._forget(topic, partition)

    def set_aside(self, topic: str, partition: int) -> str:
        """Take out one log of a topic that is no more: where its files are now. See
        LogDirectory.set_aside.

        Raises KafkaError(kafka_storage_error).
        """
        self.drop_future(topic, partition)
        path = self._homes[topic][partition].set_aside(topic, partition)
        self._forget(topic, partition)
        return path

    # -- moves between log directories (KIP-113) ---------------------------------------------

    def find(self, path: str) -> LogDirectory | None:
        """The directory with an absolute path, None where the settings name none."""
        return next((each for each in self.all if str(Path(each.path).absolute()) == path), None)

    def prefer(self, topic: str, partition: int, directory: LogDirectory) -> None:
        """Make a partition that is not here in this directory, should it come. Forgotten by a
        restart."""
        if len(self._preferred) >= PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[topic, partition] = directory

    def future_home(self, topic: str, partition: int) -> LogDirectory | None:
        """The directory where a copy of a replica is made, None where none is."""
        return next((each for each in self.live if each.futures.get((topic, partition))), None)

    def interrupted_moves(self) -> list[tuple[tuple[str, int], UUID, LogDirectory]]:
        """(partition, topic id, directory) of copies that a former run did not finish."""
        return [
            (key, topic_id, directory)
            for directory in self.live
            for key, topic_id in directory.futures.interrupted.items()
        ]

    def drop_future(self, topic: str, partition: int) -> None:
        """Give up any copy of a replica. Raises KafkaError(kafka_storage_error)."""
        for directory in self.live:
            directory.drop_future(topic, partition)

    def swap(self, topic: str, partition: int) -> tuple[LogDirectory, PartitionLog]:
        """Have the copy of a replica in its place; the replica that it replaces, and where it is.

        What is acknowledged from now on is in the copy, whose next flush covers its renaming. The
        other one's files are to be discarded when that is done, and not before.
        Raises KafkaError(kafka_storage_error): everything is as it was.
        """
        home, target = self._homes[topic][partition], self.future_home(topic, partition)
        assert target is not None, "there is a copy"
        target.promote_future(topic, partition)
        self._homes[topic][partition] = target
        return home, home.release(topic, partition)

    # -- inside -----------------------------------------------------------------------------

    def _forget(self, topic: str, partition: int) -> None:
        partitions = self._homes[topic]
        del partitions[partition]
        if not partitions:
            del self._homes[topic]

    def _stray_home(self, topic: str, partition: int, topic_id: UUID) -> LogDirectory | None:
        return next(
            (each for each in self.live if each.has_stray(topic, partition, topic_id)), None
        )

    def _choose(self, key: tuple[str, int]) -> LogDirectory:
        if not self.live:
            raise KafkaError(ErrorCode.kafka_storage_error, "every log directory failed")
        preferred = self._preferred.get(key)
        if preferred is not None and preferred not in self._failed:
            return preferred
        roomy = [each for each in self.live if not each.disk.is_full] or self.live
        return min(roomy, key=lambda each: each.partitions_count)

    def _leave_out(self, directory: LogDirectory, error: LogDirectoryError) -> None:
        self.has_unread = True
        self._failed[directory] = str(error)
        directory.close(clean=False)
        _log.critical("a log directory is left out until the next start: %s", error)

    def _take_in(self, directory: LogDirectory) -> None:
        keys = [*((log.topic, log.partition) for log in directory), *directory.offline]
        for topic, index in keys:
            other = self._homes.setdefault(topic, {}).setdefault(index, directory)
            if other is not directory:
                self._homes[topic][index] = self._resolve((topic, index), other, directory)

    def _resolve(
        self, key: tuple[str, int], first: LogDirectory, second: LogDirectory
    ) -> LogDirectory:
        """Which of two directories has the replica, where a move was interrupted."""
        moved = [each for each in (first, second) if each.was_moved_here(*key)]
        right = moved[0] if len(moved) == 1 else None
        wrong = second if right is first else first
        log = None if right is None else right.get(*key)
        former = wrong.get(*key)
        if right is None or log is None or former is None:
            name = f"{key[0]}-{key[1]}"
            raise DirectoryNotOursError(
                f"{name} is in {first.path} and in {second.path}: nobody knows which is"
                " right; move one of them away"
            )
        if log.log_start_offset < former.log_start_offset <= log.log_end_offset:
            # What was deleted before the move stays deleted: only the checkpoint there said so.
            log.advance_log_start(former.log_start_offset)
        _log.warning("%s was moved to %s: what is left in %s goes", log, right.path, wrong.path)
        try:
            wrong.discard(wrong.release(*key))
        except KafkaError as error:
            raise LogDirectoryError(str(error)) from error
        return right

    def _end_moves(self) -> None:
        """No replica is twice any more: their marks go, unless one may lie where nothing can be
        read. Raises LogDirectoryError."""
        if self.has_unread:
            return
        for directory in self.live:
            moved = [log for log in directory if directory.was_moved_here(log.topic, log.partition)]
            if not moved:
                continue
            # What they replaced is to be gone for good before.
            for other in self.live:
                other.sync()
            for log in moved:
                with contextlib.suppress(KafkaError):
                    log.unmark()
