"""One led partition of `__transaction_state`: loads a shard, appends its records, parks answers.

Guarantees: an answer leaves, and markers are written, only when every record written up to that
step is committed; while the partition loads, requests are refused with
COORDINATOR_LOAD_IN_PROGRESS; where an append or a commit fails the shard is thrown away, everyone
who waits gets NOT_COORDINATOR, and the state is read back from the log. All steps run on the event
loop, one at a time; none awaits.

Not here: what the requests mean (shard.py), which transactional id lives here (coordinator.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from local_cluster.clock import Clock
from local_cluster.groups.partition_shell import OffsetsReplica, ShellState
from local_cluster.log.segment import LogSlice
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.records.header import crc_is_valid, iter_headers, read_header
from local_cluster.wire.errors import ErrorCode, KafkaError

from .requests import Outcome, TransactionLimits
from .shard import TransactionShard
from .transaction import Transaction

LOAD_BYTES_MAX: Final = 1024 * 1024
"""How much of the log is read and replayed at a time."""
LOAD_ATTEMPTS_MAX: Final = 10
LOAD_WAIT_SECONDS_MAX: Final = 30.0
RELOAD_WAIT_SECONDS: Final = 0.1
"""Before the state is read back after a failed append, so that a sick disk is not hammered."""
WAITING_REQUESTS_MAX: Final = 100_000
"""Requests per partition that may wait for their answer at one time."""

Ask = Callable[[TransactionShard, int], Outcome]

_log = logging.getLogger(__name__)

_REFUSALS: Final = {
    ShellState.LOADING: ErrorCode.coordinator_load_in_progress,
    ShellState.FAILED: ErrorCode.coordinator_not_available,
    ShellState.CLOSED: ErrorCode.not_coordinator,
}


class TransactionsReplica(OffsetsReplica, Protocol):
    """What is needed of the leading replica; its leader epoch is the coordinator epoch."""

    @property
    def leader_epoch(self) -> int: ...


class SendMarkers(Protocol):
    """Who writes markers until all are there; ends early only by being cancelled or fenced."""

    async def __call__(self, decided: Transaction, coordinator_epoch: int) -> bool: ...


class TransactionPartitionShell:
    """Runs one shard on one led partition, from `start` to `close`."""

    def __init__(
        self,
        partition: int,
        replica: TransactionsReplica,
        limits: TransactionLimits,
        clock: Clock,
        send_markers: SendMarkers,
    ) -> None:
        self.partition = partition
        self.state = ShellState.LOADING
        self._replica = replica
        self._limits = limits
        self._clock = clock
        self._send_markers = send_markers
        self._shard = TransactionShard(limits)
        self._written_end_offset = 0
        self._waiting: set[asyncio.Future[Any]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._marking: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to load."""
        self._loading = asyncio.create_task(
            self._load(0.0), name=f"load __transaction_state-{self.partition}"
        )

    def close(self) -> None:
        """Leadership is lost or the broker stops: whoever waits has to ask somebody else."""
        self.state = ShellState.CLOSED
        if self._loading is not None:
            self._loading.cancel()
        self._stop_marking()
        self._fail_waiting()

    async def wait_closed(self) -> None:
        """Until every task is gone; call `close` first."""
        tasks = [*self._marking] + ([] if self._loading is None else [self._loading])
        if tasks:
            await asyncio.wait(tasks)

    @property
    def shard(self) -> TransactionShard:
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
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        self._perform(ask(self._shard, self._clock.now_ms()), future)
        return future

    def expire(self) -> None:
        """Abort what is past its timeout, forget what was not used for long."""
        if self.state is ShellState.ACTIVE:
            self._perform(self._shard.expire(self._clock.now_ms()), None)

    # -- inside -----------------------------------------------------------------------------

    def _require_active(self) -> None:
        refusal = _REFUSALS.get(self.state)
        if refusal is not None:
            raise KafkaError(refusal, f"__transaction_state-{self.partition} is {self.state.value}")

    def _perform(self, outcome: Outcome, future: asyncio.Future[Any] | None) -> None:
        """Append the records; answer and mark when everything written is committed."""
        if outcome.records:
            timestamp_ms = self._clock.now_ms()
            batch = encode_batch(
                [NewRecord(timestamp_ms, key, value) for key, value in outcome.records]
            )
            try:
                result = self._replica.append(batch, [read_header(batch)])
            except (KafkaError, OSError) as error:
                self._discard(f"append failed: {error}")
                return
            self._written_end_offset = result.last_offset + 1
        if self._replica.high_watermark >= self._written_end_offset:
            self._finish(outcome, future)
        else:
            committed = self._replica.committed(self._written_end_offset)
            committed.add_done_callback(partial(self._on_committed, outcome, future))

    def _on_committed(
        self,
        outcome: Outcome,
        future: asyncio.Future[Any] | None,
        committed: asyncio.Future[None],
    ) -> None:
        if committed.cancelled() or committed.exception() is not None:
            self._discard("the records were not committed")
        else:
            self._finish(outcome, future)

    def _finish(self, outcome: Outcome, future: asyncio.Future[Any] | None) -> None:
        if self.state is not ShellState.ACTIVE:
            return
        if future is not None and not future.done():
            future.set_result(outcome.answer)
        for decided in outcome.decided:
            task = asyncio.create_task(
                self._mark(decided), name=f"markers of {decided.transactional_id}"
            )
            self._marking.add(task)
            task.add_done_callback(self._marking.discard)

    async def _mark(self, decided: Transaction) -> None:
        """Write the markers, then note that the transaction is complete."""
        try:
            marked = await self._send_markers(decided, self._replica.leader_epoch)
        except (KafkaError, OSError):
            _log.exception("markers of %s were not written", decided.transactional_id)
            return
        if marked and self.state is ShellState.ACTIVE:
            self._perform(self._shard.complete(decided, self._clock.now_ms()), None)

    def _stop_marking(self) -> None:
        for task in self._marking:
            if task is not asyncio.current_task():
                task.cancel()

    def _discard(self, reason: str) -> None:
        """Forget the state, which may be ahead of the log, and read it back."""
        if self.state is not ShellState.ACTIVE:
            return
        _log.warning("__transaction_state-%d is loaded again: %s", self.partition, reason)
        self.state = ShellState.LOADING
        self._stop_marking()
        self._fail_waiting()
        self._loading = asyncio.create_task(
            self._load(RELOAD_WAIT_SECONDS), name=f"reload __transaction_state-{self.partition}"
        )

    def _fail_waiting(self) -> None:
        for future in tuple(self._waiting):
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.not_coordinator))
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
            # Serving without the state would forget what was decided: refuse instead.
            _log.exception("__transaction_state-%d cannot be loaded", self.partition)
            self.state = ShellState.FAILED
            return
        self._shard = shard
        self._written_end_offset = end_offset
        self.state = ShellState.ACTIVE
        self._perform(shard.finish_load(), None)

    async def _load_once(self) -> tuple[TransactionShard, int]:
        shard = TransactionShard(self._limits)
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


def replay_batches(shard: TransactionShard, piece: LogSlice) -> int:
    """Replay every record of some batches; the offset after them.

    Raises KafkaError(corrupt_message), UnreadableRecordError or OSError.
    """
    content = piece.read()
    next_offset = -1
    for position, header in iter_headers(content):
        if not crc_is_valid(content, position, header):
            raise KafkaError(ErrorCode.corrupt_message, f"batch at {header.base_offset}")
        next_offset = header.next_offset
        if header.is_control:
            continue
        for _, _, key, value, _ in decode_batch(content, position, header):
            if key is not None:
                shard.replay(key, value)
    if next_offset < 0:
        raise KafkaError(ErrorCode.corrupt_message, f"no whole batch in {len(content)} bytes")
    return next_offset
