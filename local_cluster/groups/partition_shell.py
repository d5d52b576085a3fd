"""One led partition of `__consumer_offsets`: loads a shard, appends its records, parks answers.

Guarantees: an answer leaves only when every record written up to its step is committed; while
the partition loads, requests are refused with COORDINATOR_LOAD_IN_PROGRESS; where an append or a
commit fails the shard is thrown away, everyone who waits gets NOT_COORDINATOR, and the state is
read back from the log. All steps run on the event loop, one at a time; none awaits.

Not here: what the requests mean (shard.py), which group lives here (coordinator.py).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from local_cluster.clock import Clock
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.records.control import EndMarker, read_marker
from local_cluster.records.header import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_is_valid,
    iter_headers,
    read_header,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

from .records import StoredRecord
from .requests import Answer, GroupLimits, Now, Outcome
from .shard import GroupShard

if TYPE_CHECKING:
    from local_cluster.log.partition_log import AppendResult
    from local_cluster.log.segment import LogSlice

LOAD_BYTES_MAX: Final = 1024 * 1024
"""How much of the log is read and replayed at a time."""
LOAD_ATTEMPTS_MAX: Final = 10
LOAD_WAIT_SECONDS_MAX: Final = 30.0
RELOAD_WAIT_SECONDS: Final = 0.1
"""Before the state is read back after a failed append, so that a sick disk is not hammered."""
BATCH_BYTES_TARGET: Final = 512 * 1024
"""A large commit is cut into batches of about this size; its positions are independent."""
WAITING_REQUESTS_MAX: Final = 100_000
"""Requests per partition that may wait for their answer at one time."""

Ask = Callable[[GroupShard, int, Now], Outcome]

_log = logging.getLogger(__name__)


class LogBounds(Protocol):
    """Where a log begins and ends."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...


class OffsetsReplica(Protocol):
    """What is needed of the leading replica: `replication.partition.Partition` fits."""

    @property
    def log(self) -> LogBounds: ...

    @property
    def high_watermark(self) -> int: ...

    def append(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> AppendResult: ...

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int
    ) -> AppendResult: ...

    def committed(self, next_offset: int) -> asyncio.Future[None]: ...

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> LogSlice | None: ...


class ShellState(Enum):
    """Where a partition is between gaining and losing leadership."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


_REFUSALS: Final = {
    ShellState.LOADING: ErrorCode.coordinator_load_in_progress,
    ShellState.FAILED: ErrorCode.coordinator_not_available,
    ShellState.CLOSED: ErrorCode.not_coordinator,
}


class PartitionShell:
    """Runs one shard on one led partition, from `start` to `close`."""

    def __init__(
        self, partition: int, replica: OffsetsReplica, limits: GroupLimits, clock: Clock
    ) -> None:
        self.partition = partition
        self.state = ShellState.LOADING
        self._replica = replica
        self._limits = limits
        self._clock = clock
        self._shard = GroupShard(limits)
        self._written_end_offset = 0
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def start(self) -> None:
        """Begin to load."""
        self._loading = asyncio.create_task(
            self._load(0.0), name=f"load __consumer_offsets-{self.partition}"
        )

    def close(self) -> None:
        """Leadership is lost or the broker stops: whoever waits has to ask somebody else."""
        self.state = ShellState.CLOSED
        if self._loading is not None:
            self._loading.cancel()
        self._disarm()
        self._fail_waiting(ErrorCode.not_coordinator)

    async def wait_closed(self) -> None:
        """Until the load task is gone; call `close` first."""
        if self._loading is not None:
            await asyncio.wait([self._loading])

    @property
    def shard(self) -> GroupShard:
        """The state, for reading. Raises KafkaError while it is not there."""
        self._require_active()
        return self._shard

    def ask(self, ask: Ask) -> asyncio.Future[Any]:
        """Run one request on the shard; the future gives its answer once that may be told.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR or
        COORDINATOR_NOT_AVAILABLE. The future may fail with NOT_COORDINATOR.
        """
        self._require_active()
        if len(self._waiting) >= WAITING_REQUESTS_MAX:
            raise KafkaError(ErrorCode.coordinator_not_available, "too many requests wait")
        ticket = next(self._tickets)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        self._perform(ask(self._shard, ticket, self._now()))
        return future

    def end_transaction(
        self, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Write the marker of a transaction, which makes its positions visible or forgets them.

        The future is done when the marker is committed. Raises KafkaError as `ask` does, and what
        the log has against the marker; then nothing has changed.
        """
        self._require_active()
        result = self._replica.append_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch
        )
        self._written_end_offset = result.last_offset + 1
        self._shard.end_transaction(producer_id, is_commit=marker.is_commit)
        committed = self._replica.committed(self._written_end_offset)
        committed.add_done_callback(partial(self._on_committed, []))
        return committed

    def expire_offsets(self) -> None:
        """Remove what is past its retention."""
        if self.state is ShellState.ACTIVE:
            self._perform(self._shard.expire_offsets(self._now()))

    def delete_topics(self, topics: frozenset[str]) -> None:
        """Remove the positions in topics that are gone."""
        if self.state is ShellState.ACTIVE:
            self._perform(self._shard.delete_topics(topics))

    # -- inside -----------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic_ms())

    def _require_active(self) -> None:
        refusal = _REFUSALS.get(self.state)
        if refusal is not None:
            raise KafkaError(refusal, f"__consumer_offsets-{self.partition} is {self.state.value}")

    def _perform(self, outcome: Outcome) -> None:
        """Append the records, then let the answers go when everything written is committed."""
        if outcome.records:
            try:
                self._append(outcome.records, outcome.producer)
            except (KafkaError, OSError) as error:
                self._discard(f"append failed: {error}")
                return
        if outcome.answers:
            if self._replica.high_watermark >= self._written_end_offset:
                self._deliver(outcome.answers)
            else:
                committed = self._replica.committed(self._written_end_offset)
                committed.add_done_callback(partial(self._on_committed, outcome.answers))
        self._arm()

    def _append(
        self, records: Sequence[StoredRecord], producer: tuple[int, int] | None = None
    ) -> None:
        timestamp_ms = self._clock.now_ms()
        buffer = bytearray()
        headers = []
        for chunk in _chunks(records):
            new = [NewRecord(timestamp_ms, key, value) for key, value in chunk]
            if producer is None:
                batch = encode_batch(new)
            else:
                batch = encode_batch(
                    new,
                    attributes=TRANSACTIONAL_BIT,
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                )
            headers.append(read_header(batch))
            buffer += batch
        result = self._replica.append(buffer, headers)
        self._written_end_offset = result.last_offset + 1

    def _on_committed(
        self, answers: list[tuple[int, Answer]], committed: asyncio.Future[None]
    ) -> None:
        if committed.cancelled() or committed.exception() is not None:
            self._discard("the records were not committed")
        else:
            self._deliver(answers)

    def _deliver(self, answers: list[tuple[int, Answer]]) -> None:
        for ticket, answer in answers:
            # A ticket is gone when its request was failed before; its peer may be gone as well.
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(answer)

    def _discard(self, reason: str) -> None:
        """Forget the state, which may be ahead of the log, and read it back."""
        if self.state is not ShellState.ACTIVE:
            return
        _log.warning("__consumer_offsets-%d is loaded again: %s", self.partition, reason)
        self.state = ShellState.LOADING
        self._disarm()
        self._fail_waiting(ErrorCode.not_coordinator)
        self._loading = asyncio.create_task(
            self._load(RELOAD_WAIT_SECONDS), name=f"reload __consumer_offsets-{self.partition}"
        )

    def _fail_waiting(self, code: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(KafkaError(code))
                future.exception()  # a peer that is gone must not leave a warning behind

    # -- loading ----------------------------------------------------------------------------

    async def _load(self, wait_seconds: float) -> None:
        await asyncio.sleep(wait_seconds)
        try:
            async for attempt in AsyncRetrying(
                wait=wait_exponential(multiplier=0.2, max=LOAD_WAIT_SECONDS_MAX),
                stop=stop_after_attempt(LOAD_ATTEMPTS_MAX),
                reraise=True,
            ):
                with attempt:
                    shard, end_offset = await self._load_once()
        except (KafkaError, OSError, ValueError):
            # Serving without the committed positions would reset consumers: refuse instead.
            _log.exception("__consumer_offsets-%d cannot be loaded", self.partition)
            self.state = ShellState.FAILED
            return
        self._shard = shard
        self._written_end_offset = end_offset
        self.state = ShellState.ACTIVE
        _log.log(
            logging.INFO if shard.groups else logging.DEBUG,
            "__consumer_offsets-%d loaded: %d groups up to offset %d",
            self.partition,
            len(shard.groups),
            end_offset,
        )
        self._perform(shard.finish_load(self._now()))

    async def _load_once(self) -> tuple[GroupShard, int]:
        shard = GroupShard(self._limits)
        log = self._replica.log
        offset = log.log_start_offset
        end_offset = log.log_end_offset
        while offset < end_offset:
            piece = self._replica.read(
                offset, bytes_max=LOAD_BYTES_MAX, offset_limit=end_offset, at_least_one_batch=True
            )
            if piece is None:
                raise KafkaError(ErrorCode.kafka_storage_error, f"nothing to read at {offset}")
            # Nobody else has the shard yet, so a worker thread may fill it.
            offset = await asyncio.to_thread(replay_batches, shard, piece)
        return shard, end_offset

    # -- time -------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Wake up for the earliest timer. A deadline that moved back is found out on waking."""
        if self.state is not ShellState.ACTIVE:
            return
        deadline_ms = self._shard.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        self._disarm()
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self.state is ShellState.ACTIVE:
            self._perform(self._shard.expire_timers(self._now()))


def replay_batches(shard: GroupShard, piece: LogSlice) -> int:
    """Replay every record of some batches; the offset after them.

    Outside of transactions, of several records of one key only the last counts, as in a compacted
    log, and records of different keys do not depend on each other; so only the last ones are
    decoded and replayed.

    Raises KafkaError(corrupt_message), UnreadableRecordError or OSError.
    """
    data = piece.read()
    next_offset = -1
    last_values: dict[bytes, bytes | None] = {}
    for position, header in iter_headers(data):
        if not crc_is_valid(data, position, header):
            raise KafkaError(ErrorCode.corrupt_message, f"batch at {header.base_offset}")
        next_offset = header.next_offset
        if header.is_transactional:
            # Positions of a transaction must stay in order with the others around them.
            _replay_last(shard, last_values)
            _replay_transactional(shard, data, position, header)
            continue
        if header.is_control:
            continue
        for _, _, key, value, _ in decode_batch(data, position, header):
            if key is not None:
                last_values[key] = value
    if next_offset < 0:
        raise KafkaError(ErrorCode.corrupt_message, f"no whole batch in {len(data)} bytes")
    _replay_last(shard, last_values)
    return next_offset


def _replay_last(shard: GroupShard, last_values: dict[bytes, bytes | None]) -> None:
    for key, value in last_values.items():
        shard.replay(key, value)
    last_values.clear()


def _replay_transactional(
    shard: GroupShard, data: bytes, position: int, header: BatchHeader
) -> None:
    if header.is_control:
        marker = read_marker(data, position, header)
        if marker is not None:
            shard.end_transaction(header.producer_id, is_commit=marker.is_commit)
        return
    for _, _, key, value, _ in decode_batch(data, position, header):
        if key is not None:
            shard.replay_transactional(header.producer_id, key, value)


def _chunks(records: Sequence[StoredRecord]) -> list[list[StoredRecord]]:
    """The records in order, cut where a batch would grow beyond its target."""
    if len(records) == 1:
        return [list(records)]
    chunks: list[list[StoredRecord]] = [[]]
    size_bytes = 0
    for record in records:
        record_bytes = len(record.key) + len(record.value or b"")
        if chunks[-1] and size_bytes + record_bytes > BATCH_BYTES_TARGET:
            chunks.append([])
            size_bytes = 0
        chunks[-1].append(record)
        size_bytes += record_bytes
    return chunks
