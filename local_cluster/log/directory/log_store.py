"""All logs of one broker, in all its log directories (JBOD, KIP-112).

    new partition     goes to the live directory with the fewest partitions (Kafka's rule), the
                      first of several; to one whose disk is full only if all are full
    failed directory  its logs have failed until a restart, and nothing is created in their place:
                      their disk may come back
    failed at start   nobody knows what it holds (`has_unread`); the others are used
    two copies        of one partition in two directories: the one that was moved here is right,
                      and the other is deleted; if neither is marked so, the broker does not start

Guarantees: a directory fails once and until a restart; `on_failed` is called once for each.
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
from local_cluster.log.state.checkpoints import Key
from local_cluster.wire.errors import ErrorCode, KafkaError

PREFERRED_MAX: Final = 100_000
"""Preferred directories that are remembered for partitions that are not here yet."""

log = logging.getLogger(__name__)


class LogStore:
    """The log directories of a broker: `open` first, `close` each live one last."""

    def __init__(
        self,
        paths: Sequence[Path],
        files: Files,
        *,
        broker_id: int,
        clock: Clock,
        on_failed: Callable[[LogDirectory, BaseException], None] | None = None,
    ) -> None:
        """`on_failed` is called with a directory that failed, after its logs have failed."""
        assert paths, "a broker has a log directory"
        self._on_failed = on_failed
        self.all = tuple(
            LogDirectory(path, files, broker_id=broker_id, clock=clock, on_failed=self.fail)
            for path in paths
        )
        """In the order of the settings, failed ones included."""
        self._failed: dict[LogDirectory, str] = {}
        self._homes: dict[str, dict[int, LogDirectory]] = {}
        """The directory of each partition by topic, even if that directory failed since."""
        self._preferred: dict[Key, LogDirectory] = {}
        """The directories where partitions that are not here yet shall be created."""
        self.has_unread = False
        """Whether a directory could not be read at the start: nobody knows what it holds."""

    @property
    def live(self) -> tuple[LogDirectory, ...]:
        """The directories that have not failed."""
        return tuple(each for each in self.all if each not in self._failed)

    def failure(self, directory: LogDirectory) -> str | None:
        """Return why a directory failed; None while it has not."""
        return self._failed.get(directory)

    def open(
        self,
        *,
        cluster_id: str | None = None,
        config: LogConfig | None = None,
        flushes: bool = True,
    ) -> None:
        """Open every directory; see LogDirectory.open. Blocks.

        A directory whose disk fails is left out. Raises LogDirectoryError where all of them fail,
        where one is in use or belongs to another broker, or where two hold the same partition.
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
        """Bind every directory to a cluster. Blocks.

        Raises LogDirectoryError where one belongs to another cluster, or the last one fails.
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
        """Fail a directory and its logs; the others continue."""
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
        """Return the directory of a partition, None where there is none; it may have failed."""
        return self._homes.get(topic, {}).get(partition)

    def partitions_of(self, topic: str) -> tuple[int, ...]:
        """Return the partitions of a topic that some directory has."""
        return tuple(self._homes.get(topic, ()))

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition; None if there is none in a live directory."""
        directory = self.of(topic, partition)
        if directory is None or directory in self._failed:
            return None
        return directory.get(topic, partition)

    def get_or_create(
        self, topic: str, topic_id: UUID, partition: int, config: LogConfig
    ) -> PartitionLog:
        """Return the log of a partition, created if no directory has it.

        Raises as LogDirectory.get_or_create.
        """
        directory = self.of(topic, partition)
        if directory is not None and directory in self._failed:
            raise KafkaError(ErrorCode.kafka_storage_error, self._failed[directory])
        if directory is None:
            directory = self._stray_home(topic, partition, topic_id) or self._choose(
                (topic, partition)
            )
        found = directory.get_or_create(topic, topic_id, partition, config)
        self._homes.setdefault(topic, {})[partition] = directory
        self._preferred.pop((topic, partition), None)
        return found

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the high watermark that was checkpointed last, 0 if none was."""
        directory = self.of(topic, partition)
        return 0 if directory is None else directory.offsets.high_watermark((topic, partition))

    def cleaned_offset(self, topic: str, partition: int) -> int:
        """Return how far the log was compacted, 0 if it never was."""
        directory = self.of(topic, partition)
        return 0 if directory is None else directory.offsets.cleaned((topic, partition))

    def set_cleaned_offset(self, topic: str, partition: int, offset: int) -> None:
        """Note how far the log was compacted, if it is still here; the next checkpoint writes it.

        The swap must be on the disk.
        """
        directory = self.of(topic, partition)
        if directory is not None and directory.get(topic, partition) is not None:
            directory.offsets.set_cleaned((topic, partition), offset)

    def reopen_offline(self) -> None:
        """Open again what is offline or failed. Blocks."""
        for directory in self.live:
            directory.reopen_offline()

    def delete_topic(self, topic: str, topic_id: UUID) -> bool:
        """Take out every log of one incarnation of a topic; return whether nothing is left of it.

        Logs in a failed directory stay there; they are deleted when it is back.
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
        """Take out one log whose replica was reassigned to other brokers.

        Raises KafkaError(kafka_storage_error).
        """
        directory = self.of(topic, partition)
        if directory is not None and directory not in self._failed:
            self.drop_future(topic, partition)
            directory.delete_replica(topic, partition)
            self._forget(topic, partition)

    def set_aside(self, topic: str, partition: int) -> str:
        """Set one log aside as a stray; return where its files are. See LogDirectory.set_aside.

        Raises KafkaError(kafka_storage_error).
        """
        self.drop_future(topic, partition)
        path = self._homes[topic][partition].set_aside(topic, partition)
        self._forget(topic, partition)
        return path

    # -- moves between log directories (KIP-113) ---------------------------------------------

    def find(self, path: str) -> LogDirectory | None:
        """Return the directory with an absolute path; None where the settings name none."""
        return next((each for each in self.all if str(Path(each.path).absolute()) == path), None)

    def prefer(self, topic: str, partition: int, directory: LogDirectory) -> None:
        """Create a partition that is not here yet in this directory. A restart forgets that."""
        if len(self._preferred) >= PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[topic, partition] = directory

    def future_home(self, topic: str, partition: int) -> LogDirectory | None:
        """Return the directory with the copy of a replica; None where there is no copy."""
        return next((each for each in self.live if each.futures.get((topic, partition))), None)

    def interrupted_moves(self) -> list[tuple[Key, UUID, LogDirectory]]:
        """Return (partition, topic id, directory) of the copies a former process left."""
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
        """Replace a replica by its copy; return the former directory and the former log.

        Everything acknowledged from now on is in the copy, and the copy's next flush covers its
        rename. The caller discards the former log after that flush, not before.
        Raises KafkaError(kafka_storage_error); nothing has changed then.
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
            (each for each in self.live if each.strays.has(topic, partition, topic_id)), None
        )

    def _choose(self, key: Key) -> LogDirectory:
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
        log.critical("a log directory is left out until the next start: %s", error)

    def _take_in(self, directory: LogDirectory) -> None:
        keys = [*((each.topic, each.partition) for each in directory), *directory.offline]
        for topic, index in keys:
            other = self._homes.setdefault(topic, {}).setdefault(index, directory)
            if other is not directory:
                self._homes[topic][index] = self._resolve((topic, index), other, directory)

    def _resolve(self, key: Key, first: LogDirectory, second: LogDirectory) -> LogDirectory:
        """Return which of two directories has the replica, after an interrupted move."""
        moved = [each for each in (first, second) if each.futures.was_moved_here(key)]
        right = moved[0] if len(moved) == 1 else None
        wrong = second if right is first else first
        copy = None if right is None else right.get(*key)
        former = wrong.get(*key)
        if right is None or copy is None or former is None:
            name = f"{key[0]}-{key[1]}"
            raise DirectoryNotOursError(
                f"{name} is in {first.path} and in {second.path}: nobody knows which is"
                " right; move one of them away"
            )
        if copy.log_start_offset < former.log_start_offset <= copy.log_end_offset:
            # Records deleted before the move stay deleted: only the checkpoint there shows them.
            copy.cleanup.advance_log_start(former.log_start_offset)
        log.warning("%s was moved to %s: its rest in %s is deleted", copy, right.path, wrong.path)
        try:
            wrong.discard(wrong.release(*key))
        except KafkaError as error:
            raise LogDirectoryError(str(error)) from error
        return right

    def _end_moves(self) -> None:
        """Remove the marks of moved logs, because no replica exists twice any more.

        A directory that could not be read may hold a second one; then the marks stay.
        Raises LogDirectoryError.
        """
        if self.has_unread:
            return
        for directory in self.live:
            moved = [
                each
                for each in directory
                if directory.futures.was_moved_here((each.topic, each.partition))
            ]
            if not moved:
                continue
            # The replaced logs must be gone from the disk before.
            for other in self.live:
                other.sync()
            for each in moved:
                with contextlib.suppress(KafkaError):
                    each.relocation.unmark()
