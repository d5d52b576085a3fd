"""Moves replicas between the log directories of this broker while they are written (KIP-113).

    copy    what the replica has goes to the copy, a chunk at a time, read by a worker thread
    flush   the copy is on the disk, its mark and its directory too
    hold    no flush of the replica begins, so that what counts stands still; the copy gets the rest
            and is flushed until it has all that counts
    swap    the copy is renamed and is the replica; nothing of it counts before the renaming is on
            the disk, and nothing is acknowledged by the other one any more
    finish  the copy's directory is on the disk: then the other one is taken out, and when that is
            on the disk as well, the mark goes

Killed anywhere, a start finds one replica: before the renaming the old one (the copy is begun
anew), after it the copy, because of its mark. One move into a directory at a time; the others wait.

Not here: what a copy does next (replication/future_replica.py), what a start makes of two
directories (log/directories.py), who may ask (handlers/p34_alter_replica_log_dirs.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

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
from local_cluster.replication.follower.following import read_whole_batches
from local_cluster.replication.follower.future_replica import (
    BeginAt,
    CopyFrom,
    CutTo,
    Level,
    decide_step,
)
from local_cluster.replication.follower.retries import Retries
from local_cluster.replication.partition import Partition
from local_cluster.replication.partition_flushes import Flusher
from local_cluster.replication.rate_quota import UNLIMITED, RateQuota
from local_cluster.wire.errors import ErrorCode, KafkaError

CHUNK_BYTES: Final = 256 * 1024
"""Copied at a time: the loop is not held up for longer than an append of that size."""
RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 5_000
THROTTLE_PAUSE_MS: Final = 100

_log = logging.getLogger(__name__)

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


class _OverError(Exception):
    """The replica or the copy is not there any more, or its disk failed."""


class LogDirMoves:
    """Of one broker. `stop` it on the loop."""

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
    ) -> None:
        """`checkpoint` has the offsets of a directory on the disk; raises OSError."""
        self._broker_id = broker_id
        self._directories = directories
        self._replicas = replicas
        self._metadata = metadata
        self._clock = clock
        self._flusher_of = flusher_of
        self._checkpoint = checkpoint
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._finishing: dict[Key, asyncio.Task[None]] = {}
        """Moves of which the former directory is still to be taken out."""
        self._turns = {directory: asyncio.Lock() for directory in directories.all}
        self._quota = RateQuota()
        self._retries: Retries[Key] = Retries(RETRY_MS_MIN, RETRY_MS_MAX)

    def begin(self, partition: Partition, target: LogDirectory) -> None:
        """Move a replica to a directory where it is not; in the place of any move before.

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
        _log.info("%s is copied to %s", partition.log, target.path)

    def cancel(self, topic: str, partition: int) -> None:
        """Leave a replica where it is. Raises KafkaError(kafka_storage_error)."""
        task = self._tasks.pop((topic, partition), None)
        if task is not None:
            task.cancel()
        self._directories.drop_future(topic, partition)

    def heard(self, changes: Changes) -> None:
        """The replicas are as the controller said: go on with what a former run began."""
        if changes.broker_configs:
            overrides = broker_overrides(self._metadata.broker_configs, self._broker_id)
            self._quota.bytes_per_second_max = int(overrides.get(LOG_DIRS_RATE, UNLIMITED))
        for key, topic_id, directory in self._directories.interrupted_moves():
            partition = self._replicas.get(*key)
            topic = self._metadata.topics.get(key[0])
            is_moot = topic is not None and topic.topic_id != topic_id
            try:
                if is_moot or self._directories.of(*key) is directory:
                    directory.drop_future(*key)
                elif partition is not None and partition.topic_id == topic_id:
                    # Not by `begin`: what is there now says that the move is to go on.
                    self._start(partition, directory)
            except KafkaError as error:
                _log.error("%s-%d does not go on to %s: %s", *key, directory.path, error)

    async def stop(self) -> None:
        """Copy no more: the next start goes on."""
        tasks = [*self._tasks.values(), *self._finishing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- a move -----------------------------------------------------------------------------

    async def _run(self, move: _Move) -> None:
        try:
            async with self._turns[move.target]:
                former = self._finishing.get(move.key)
                if former is not None:
                    await asyncio.wait((former,))
                while not await self._try(move):
                    pass
        except _OverError as error:
            _log.warning("%s is not moved to %s: %s", move.copy, move.target.path, error)
            self._give_up(move)
        except Exception:  # noqa: BLE001 - one bad move must not end the broker's task mute
            # The outermost shell of a move: its replica stays where it is.
            _log.exception("moving %s to %s failed", move.copy, move.target.path)
            self._give_up(move)
        finally:
            self._retries.forget(move.key)
            if self._tasks.get(move.key) is asyncio.current_task():
                del self._tasks[move.key]

    def _give_up(self, move: _Move) -> None:
        if move.target.futures.get(move.key) is not move.copy:
            return
        try:
            move.target.drop_future(*move.key)
        except KafkaError as error:
            _log.error("%s stays until the next start: %s", move.copy.directory, error)

    async def _try(self, move: _Move) -> bool:
        """All the way to the swap; false where it is to be tried again. Raises _OverError."""
        try:
            while await self._copy_some(move, is_throttled=True):
                pass
            await self._flush(move.copy, move.target)
            await self._end(move)
        except (KafkaError, OSError) as error:
            self._require(move)
            code = error.code if isinstance(error, KafkaError) else ErrorCode.kafka_storage_error
            failed = self._retries.failed(move.key, code)
            if failed.is_news:
                _log.error("%s is moved to %s later: %s", move.copy, move.target.path, error)
            await asyncio.sleep(failed.delay_ms / 1000)
            return False
        return True

    def _require(self, move: _Move) -> PartitionLog:
        """The replica's log, if all is there that the move needs. Raises _OverError."""
        partition, replica = move.partition, move.partition.log
        if self._replicas.get(*move.key) is not partition:
            raise _OverError("the replica is gone")
        if move.target.futures.get(move.key) is not move.copy:
            raise _OverError("the copy is gone")
        for log in (replica, move.copy):
            if log.failure is not None or log.corruption is not None:
                raise _OverError(log.failure or log.corruption)
        return replica

    async def _copy_some(self, move: _Move, *, is_throttled: bool) -> bool:
        """One step towards the replica; whether there was one. Raises KafkaError, OSError."""
        replica, copy = self._require(move), move.copy
        match decide_step(replica, copy):
            case Level():
                return False
            case BeginAt(offset):
                deletion = copy.truncation.truncate_fully(offset, self._clock.now_ms())
                await asyncio.to_thread(deletion.run)
            case CutTo(offset):
                deletion = copy.truncation.truncate_to(offset, self._clock.now_ms())
                await asyncio.to_thread(deletion.run)
            case CopyFrom(offset):
                if is_throttled and self._quota.is_exceeded(self._clock.monotonic_ms()):
                    await asyncio.sleep(THROTTLE_PAUSE_MS / 1000)
                    return True
                truncations = replica.state.truncations
                piece = replica.reader.read(
                    offset,
                    bytes_max=CHUNK_BYTES,
                    offset_limit=replica.log_end_offset,
                    at_least_one_batch=True,
                )
                chunk, headers = await asyncio.to_thread(_read, piece)
                if self._require(move) is not replica or replica.state.truncations != truncations:
                    return True  # what was read may be no part of it any more
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

    async def _flush(self, log: PartitionLog, home: LogDirectory) -> None:
        """Have all of a log on the disk, its directory too. Raises KafkaError."""
        ticket = log.flusher.begin_full_flush()
        try:
            await asyncio.to_thread(ticket.run)
        except LogDirectoryError as error:
            # A failed fsync is final: the pages may be gone.
            self._directories.fail(home, error)
            raise
        log.flusher.complete_flush(ticket)

    async def _end(self, move: _Move) -> None:
        """Give the copy what is missing, while no more is acknowledged, and swap."""
        move.partition.hold_flushes()
        try:
            while True:
                while await self._copy_some(move, is_throttled=False):
                    pass
                if move.copy.flushed_end_offset >= move.partition.log.flushed_end_offset:
                    break
                await self._flush(move.copy, move.target)
            # From here to the end without waiting: nothing is appended in between.
            self._swap(move, self._require(move))
        finally:
            move.partition.resume_flushes()

    def _swap(self, move: _Move, former: PartitionLog) -> None:
        move.copy.relocation.take_over(former.relocation)
        home, released = self._directories.swap(*move.key)
        assert released is former, "the replica is where it is served from"
        move.copy.relocation.succeed(former.relocation)
        move.partition.relocate(move.copy, self._flusher_of(move.target))
        former.state.fail("it was moved to another log directory")
        _log.info("%s was moved from %s to %s", move.copy, home.path, move.target.path)
        finishing = asyncio.create_task(self._finish(move, home, former), name=f"moved {former}")
        self._finishing[move.key] = finishing
        finishing.add_done_callback(lambda _: self._finishing.pop(move.key))

    async def _finish(self, move: _Move, home: LogDirectory, former: PartitionLog) -> None:
        """Take out what was replaced, once the replacement is on the disk by its name."""
        try:
            await self._flush(move.copy, move.target)
            await self._checkpoint(move.target)
            home.discard(former)
            await asyncio.to_thread(home.sync)
            move.copy.relocation.unmark()
        except (KafkaError, OSError) as error:
            _log.error("what is left of %s in %s goes later: %s", former, home.path, error)


def _read(piece: LogSlice) -> tuple[memoryview, list[BatchHeader]]:
    """The whole batches of a slice, their CRC checked. Blocks. Raises KafkaError, OSError."""
    chunk = memoryview(piece.read())
    return chunk, read_whole_batches(chunk)[0]
