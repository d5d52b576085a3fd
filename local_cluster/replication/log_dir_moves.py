"""Moves replicas between the log directories of this broker while they are written (KIP-113).

    copy    the future replica gets the replica's records, a chunk at a time; a thread reads them
    flush   the future replica is on the disk, with its mark and its directory
    pause   no flush of the replica starts, so its durable end is fixed. The future replica gets the
            rest, and is flushed until it has everything that counts
    swap    the future replica is renamed and becomes the replica. Nothing of it counts before the
            renaming is on the disk, and the former log acknowledges nothing any more
    finish  when the directory of the new log is on the disk, the former log is deleted. When that
            is on the disk too, the mark is removed

A broker that is killed at any point finds one replica at its start: before the renaming the former
log (the future replica starts over), after it the new one, by its mark. One move into a directory
runs at a time, the others wait.

Not here: the next step of a copy (future_replica.py), what a start makes of two directories
(log/directory/log_store.py), who may ask (handlers/topics/p34_alter_replica_log_dirs.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from local_cluster.backoff import FailureBackoff
from local_cluster.clock import Clock
from local_cluster.controller.decisions.dynamic_broker_configs import (
    LOG_DIRS_RATE,
    broker_overrides,
)
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.log.partition.partition_log import LogSlice, PartitionLog
from local_cluster.records.header import BatchHeader
from local_cluster.replication.follower.apply_response import read_whole_batches
from local_cluster.replication.future_replica import (
    CaughtUp,
    CopyFrom,
    TruncateFully,
    TruncateTo,
    decide_step,
)
from local_cluster.replication.log_flushes import Flusher
from local_cluster.replication.partition import Partition
from local_cluster.replication.rate_quota import UNLIMITED, RateQuota
from local_cluster.wire.errors import ErrorCode, KafkaError

CHUNK_BYTES: Final = 256 * 1024
"""Copied at a time: the loop is not held up for longer than an append of that size."""
RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 5_000
THROTTLE_PAUSE_MS: Final = 100

log = logging.getLogger(__name__)

Key = tuple[str, int]
"""Topic and partition."""


class Replicas(Protocol):
    """The replicas of this broker."""

    def get(self, topic: str, partition: int) -> Partition | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Move:
    partition: Partition
    target: LogDirectory
    copy: PartitionLog

    @property
    def key(self) -> Key:
        return (self.partition.topic, self.partition.partition)


class _MoveEndedError(Exception):
    """The replica or the copy does not exist any more, or its disk failed."""


class LogDirMoves:
    """The moves of one broker. Call `stop` on the loop."""

    def __init__(
        self,
        broker_id: int,
        directories: LogStore,
        replicas: Replicas,
        metadata: MetadataCache,
        clock: Clock,
        *,
        flusher_of: Callable[[LogDirectory], Flusher | None],
        checkpoint: Callable[[LogDirectory], Awaitable[None]],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """`checkpoint` writes the offset checkpoints of a directory. Raises OSError."""
        self._broker_id = broker_id
        self._directories = directories
        self._replicas = replicas
        self._metadata = metadata
        self._clock = clock
        self._flusher_of = flusher_of
        self._checkpoint = checkpoint
        self._chunk_bytes = chunk_bytes
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._finishing: dict[Key, asyncio.Task[None]] = {}
        """Moves whose former log is still to be deleted."""
        self._locks = {directory: asyncio.Lock() for directory in directories.all}
        self._quota = RateQuota()
        self._backoff: FailureBackoff[Key] = FailureBackoff(RETRY_MS_MIN, RETRY_MS_MAX)

    def begin(self, partition: Partition, target: LogDirectory) -> None:
        """Move a replica to another directory, and cancel any other move of it.

        Raises KafkaError: kafka_storage_error, invalid_topic_exception.
        """
        key = (partition.topic, partition.partition)
        if self._directories.future_home(*key) is target and key in self._tasks:
            return
        self.cancel(*key)
        self._start(partition, target)

    def _start(self, partition: Partition, target: LogDirectory) -> None:
        key = (partition.topic, partition.partition)
        copy = target.create_future(
            partition.topic, partition.topic_id, partition.partition, partition.log.config
        )
        move = _Move(partition, target, copy)
        self._tasks[key] = asyncio.create_task(self._run(move), name=f"move {partition.log}")
        log.info("%s is copied to %s", partition.log, target.path)

    def cancel(self, topic: str, partition: int) -> None:
        """Leave a replica where it is. Raises KafkaError(kafka_storage_error)."""
        task = self._tasks.pop((topic, partition), None)
        if task is not None:
            task.cancel()
        self._directories.drop_future(topic, partition)

    def apply(self, changes: Changes) -> None:
        """Take over a changed rate, and resume the moves that the last stop interrupted.

        Call this after the replicas took up the change.
        """
        if changes.broker_configs:
            overrides = broker_overrides(self._metadata.broker_configs, self._broker_id)
            self._quota.bytes_per_second_max = int(overrides.get(LOG_DIRS_RATE, UNLIMITED))
        for key, topic_id, directory in self._directories.interrupted_moves():
            partition = self._replicas.get(*key)
            topic = self._metadata.topics.get(key[0])
            is_recreated = topic is not None and topic.topic_id != topic_id
            try:
                if is_recreated or self._directories.of(*key) is directory:
                    directory.drop_future(*key)
                elif partition is not None and partition.topic_id == topic_id:
                    # Not by `begin`: that would cancel the move that the directory records.
                    self._start(partition, directory)
            except KafkaError as error:
                log.error(
                    "the move of %s-%d to %s does not resume: %s", *key, directory.path, error
                )

    async def stop(self) -> None:
        """Stop copying. The next start resumes."""
        tasks = [*self._tasks.values(), *self._finishing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- a move -----------------------------------------------------------------------------

    async def _run(self, move: _Move) -> None:
        try:
            async with self._locks[move.target]:
                former = self._finishing.get(move.key)
                if former is not None:
                    await asyncio.wait((former,))
                while not await self._attempt(move):
                    pass
        except _MoveEndedError as error:
            log.warning("%s is not moved to %s: %s", move.copy, move.target.path, error)
            self._drop_copy(move)
        except Exception:
            # The outermost shell of a move: the replica stays where it is.
            log.exception("moving %s to %s failed", move.copy, move.target.path)
            self._drop_copy(move)
        finally:
            self._backoff.forget(move.key)
            if self._tasks.get(move.key) is asyncio.current_task():
                del self._tasks[move.key]

    def _drop_copy(self, move: _Move) -> None:
        if move.target.futures.get(move.key) is not move.copy:
            return
        try:
            move.target.drop_future(*move.key)
        except KafkaError as error:
            log.error("%s stays until the next start: %s", move.copy.directory, error)

    async def _attempt(self, move: _Move) -> bool:
        """Copy, flush and swap. Return False if that failed and is to be retried.

        Raises _MoveEndedError.
        """
        try:
            while await self._copy_some(move, is_throttled=True):
                pass
            await self._flush(move.copy, move.target)
            await self._catch_up_and_swap(move)
        except (KafkaError, OSError) as error:
            self._require(move)
            code = error.code if isinstance(error, KafkaError) else ErrorCode.kafka_storage_error
            failure = self._backoff.failed(move.key, code)
            if failure.is_new:
                log.error("the move of %s to %s is retried: %s", move.copy, move.target.path, error)
            await asyncio.sleep(failure.delay_ms / 1000)
            return False
        return True

    def _require(self, move: _Move) -> PartitionLog:
        """Return the replica's log if the move can continue. Raises _MoveEndedError."""
        partition, replica = move.partition, move.partition.log
        if self._replicas.get(*move.key) is not partition:
            raise _MoveEndedError("the replica does not exist any more")
        if move.target.futures.get(move.key) is not move.copy:
            raise _MoveEndedError("the copy does not exist any more")
        for each in (replica, move.copy):
            if each.failure is not None or each.corruption is not None:
                raise _MoveEndedError(each.failure or each.corruption)
        return replica

    async def _copy_some(self, move: _Move, *, is_throttled: bool) -> bool:
        """Do one step. Return False if the copy has caught up. Raises KafkaError, OSError."""
        replica, copy = self._require(move), move.copy
        match decide_step(replica, copy):
            case CaughtUp():
                return False
            case TruncateFully(offset):
                deletion = copy.truncation.truncate_fully(offset, self._clock.now_ms())
                await asyncio.to_thread(deletion.run)
            case TruncateTo(offset):
                deletion = copy.truncation.truncate_to(offset, self._clock.now_ms())
                await asyncio.to_thread(deletion.run)
            case CopyFrom(offset):
                if is_throttled and self._quota.is_exceeded(self._clock.monotonic_ms()):
                    await asyncio.sleep(THROTTLE_PAUSE_MS / 1000)
                    return True
                truncations = replica.state.truncations
                piece = replica.reader.read(
                    offset,
                    bytes_max=self._chunk_bytes,
                    offset_limit=replica.log_end_offset,
                    at_least_one_batch=True,
                )
                chunk, headers = await asyncio.to_thread(_read, piece)
                if self._require(move) is not replica or replica.state.truncations != truncations:
                    return True  # the replica may lack these records by now
                if not headers:
                    raise KafkaError(ErrorCode.kafka_storage_error, f"nothing is at {offset}")
                self._append(copy, chunk, headers)
        return True

    def _append(self, copy: PartitionLog, chunk: memoryview, headers: list[BatchHeader]) -> None:
        now_ms = self._clock.now_ms()
        copy.truncation.start_over_with(headers[0], now_ms)
        size_bytes = sum(header.size_bytes for header in headers)
        copy.as_follower.append(chunk[:size_bytes], headers, now_ms=now_ms)
        self._quota.record(size_bytes, self._clock.monotonic_ms())

    async def _flush(self, copy: PartitionLog, home: LogDirectory) -> None:
        """Flush all of a log, its directory too. Raises KafkaError."""
        ticket = copy.flusher.begin_full_flush()
        try:
            await asyncio.to_thread(ticket.run)
        except LogDirectoryError as error:
            # A failed fsync is final: the kernel may have dropped the pages.
            self._directories.fail(home, error)
            raise
        copy.flusher.complete_flush(ticket)

    async def _catch_up_and_swap(self, move: _Move) -> None:
        """Copy the rest while nothing more is acknowledged, and swap."""
        move.partition.flushes.pause()
        try:
            while True:
                while await self._copy_some(move, is_throttled=False):
                    pass
                if move.copy.flushed_end_offset >= move.partition.log.flushed_end_offset:
                    break
                await self._flush(move.copy, move.target)
            # No await from here to the end: nothing is appended in between.
            self._swap(move, self._require(move))
        finally:
            move.partition.flushes.resume()

    def _swap(self, move: _Move, former: PartitionLog) -> None:
        move.copy.relocation.take_over(former.relocation)
        home, released = self._directories.swap(*move.key)
        assert released is former, "the replica is served from its home"
        move.copy.relocation.succeed(former.relocation)
        move.partition.relocate(move.copy, self._flusher_of(move.target))
        former.state.fail("it was moved to another log directory")
        log.info("%s was moved from %s to %s", move.copy, home.path, move.target.path)
        finishing = asyncio.create_task(self._finish(move, home, former), name=f"moved {former}")
        self._finishing[move.key] = finishing
        finishing.add_done_callback(lambda _: self._finishing.pop(move.key))

    async def _finish(self, move: _Move, home: LogDirectory, former: PartitionLog) -> None:
        """Delete the former log, once the new one is on the disk under its name."""
        try:
            await self._flush(move.copy, move.target)
            await self._checkpoint(move.target)
            home.discard(former)
            await asyncio.to_thread(home.sync)
            move.copy.relocation.unmark()
        except (KafkaError, OSError) as error:
            log.error("the rest of %s in %s is deleted later: %s", former, home.path, error)


def _read(piece: LogSlice) -> tuple[memoryview, list[BatchHeader]]:
    """Return the whole batches of a slice. Check their CRC. Blocks. Raises KafkaError, OSError."""
    chunk = memoryview(piece.read())
    return chunk, read_whole_batches(chunk)[0]
