"""Deliberately broken coordinators and transactions, for broken_variants.py."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from local_cluster.coordinator_runtime.commit_queue import CommitQueue
from local_cluster.coordinator_runtime.outcome import Outcome
from local_cluster.handlers.data import partition_read
from local_cluster.log.partition.log_reader import LogReader
from local_cluster.transactions import end_txn, shard
from local_cluster.transactions.end_txn import EndTxnAction
from local_cluster.transactions.markers import MarkerSender
from local_cluster.transactions.requests import TransactionOutcome
from local_cluster.transactions.shard import TransactionShard
from local_cluster.transactions.transaction_fsm import PREPARED, TransactionState
from local_cluster.wire.errors import ErrorCode, KafkaError

Broken = AbstractContextManager[Any]


def answer_before_the_decision_is_committed() -> Broken:
    """A coordinator answers when its records are appended, not committed."""
    return mock.patch.object(
        CommitQueue, "_park", lambda self, outcome: self._on_committed(outcome)
    )


def forget_decided_transactions() -> Broken:
    """The next coordinator writes no markers for decided transactions."""
    return mock.patch.object(TransactionShard, "finish_load", lambda self, now: Outcome())


def send_markers_to_no_other_broker() -> Broken:
    """Markers are not sent to other leaders."""
    send = MarkerSender._send_to_leader

    async def send_here(self: MarkerSender, leader: int, partitions: Any, *more: Any) -> Any:
        if leader == self._broker.settings.broker_id:
            return await send(self, leader, partitions, *more)
        return dict.fromkeys(partitions, ErrorCode.none)

    return mock.patch.object(MarkerSender, "_send_to_leader", send_here)


def never_time_transactions_out() -> Broken:
    """The transaction of a dead producer is never aborted."""
    return mock.patch.object(TransactionShard, "expire", lambda self, now_ms: TransactionOutcome())


def serve_fenced_producers() -> Broken:
    """The coordinator does not check producer epochs."""

    def check(known: Any, producer_id: int, epoch: int) -> ErrorCode:
        if known is None or known.producer_id != producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return ErrorCode.concurrent_transactions if known.state in PREPARED else ErrorCode.none

    return mock.patch.object(shard, "_check_producer", check)


def end_transactions_of_any_epoch() -> Broken:
    """A request of any epoch ends the open transaction."""

    def decide(known: Any, request: Any) -> Any:
        if known.state is TransactionState.ONGOING:
            return EndTxnAction.DECIDE
        return end_txn.check_end_txn(known, request)

    return mock.patch.object(shard, "check_end_txn", decide)


def read_past_open_transactions() -> Broken:
    """Readers see records of open transactions."""
    return mock.patch.object(
        LogReader, "last_stable_offset", lambda self, high_watermark: high_watermark
    )


def starve_readers_of_new_leaders() -> Broken:
    """A read_committed reader gets no response from a re-elected leader."""
    read = partition_read._read

    def read_once(broker: Any, context: Any, entry: Any, **how: Any) -> Any:
        found = read(broker, context, entry, **how)
        partition = found.partition
        if how["committed_only"] and partition is not None and partition.leader_epoch > 0:
            raise KafkaError(ErrorCode.offset_not_available)
        return found

    return mock.patch.object(partition_read, "_read", read_once)


def show_aborted_records() -> Broken:
    """Responses do not list aborted transactions."""
    return mock.patch.object(
        LogReader, "aborted_transactions", lambda self, offset, next_offset: []
    )
