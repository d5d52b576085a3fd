"""Deliberately broken coordinators and transactions, for broken_variants.py."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from local_cluster.coordinator_runtime.commit_queue import CommitQueue
from local_cluster.coordinator_runtime.outcome import Outcome
from local_cluster.handlers.data import partition_read
from local_cluster.log.partition.log_reader import LogReader
from local_cluster.transactions import ending, shard
from local_cluster.transactions.ending import Verdict
from local_cluster.transactions.markers import MarkerSender
from local_cluster.transactions.requests import Outcome as ShardOutcome
from local_cluster.transactions.shard import TransactionShard
from local_cluster.transactions.transaction_fsm import PREPARED, TransactionState
from local_cluster.wire.errors import ErrorCode, KafkaError

Broken = AbstractContextManager[Any]


def answer_before_the_decision_is_written() -> Broken:
    """A coordinator answers when it has appended."""
    return mock.patch.object(
        CommitQueue, "_park", lambda self, outcome: self._on_committed(outcome)
    )


def forget_what_was_decided() -> Broken:
    """A coordinator that comes next writes no markers for what the one before decided."""
    return mock.patch.object(TransactionShard, "finish_load", lambda self, now: Outcome())


def mark_only_what_is_led_here() -> Broken:
    """The markers are not sent to other leaders."""
    send = MarkerSender._send

    async def send_here(self: MarkerSender, leader: int, partitions: Any, *more: Any) -> Any:
        if leader == self._broker.settings.broker_id:
            return await send(self, leader, partitions, *more)
        return dict.fromkeys(partitions, ErrorCode.none)

    return mock.patch.object(MarkerSender, "_send", send_here)


def never_time_transactions_out() -> Broken:
    """A producer that is gone holds its readers back for ever."""
    return mock.patch.object(TransactionShard, "expire", lambda self, now_ms: ShardOutcome())


def serve_producers_that_were_replaced() -> Broken:
    """The coordinator asks for no epoch."""

    def check(known: Any, producer_id: int, epoch: int) -> ErrorCode:
        if known is None or known.producer_id != producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return ErrorCode.concurrent_transactions if known.state in PREPARED else ErrorCode.none

    return mock.patch.object(shard, "_check_producer", check)


def end_transactions_of_any_epoch() -> Broken:
    """Whoever asks ends the transaction that is open."""

    def judge(known: Any, request: Any) -> Any:
        if known.state is TransactionState.ONGOING:
            return Verdict.DECIDES
        return ending.judge(known, request)

    return mock.patch.object(shard, "judge", judge)


def read_past_open_transactions() -> Broken:
    """Readers are shown what is not decided yet."""
    return mock.patch.object(
        LogReader, "last_stable_offset", lambda self, high_watermark: high_watermark
    )


def show_new_leaders_readers_nothing() -> Broken:
    """A read_committed reader gets no answer from who was elected later."""
    read = partition_read._read

    def read_once(broker: Any, context: Any, entry: Any, **how: Any) -> Any:
        found = read(broker, context, entry, **how)
        partition = found.partition
        if how["committed_only"] and partition is not None and partition.leader_epoch > 0:
            raise KafkaError(ErrorCode.offset_not_available)
        return found

    return mock.patch.object(partition_read, "_read", read_once)


def show_what_was_aborted() -> Broken:
    """Readers are not told which transactions were aborted."""
    return mock.patch.object(
        LogReader, "aborted_transactions", lambda self, offset, next_offset: []
    )
