"""Whether an EndTxn may decide a transaction, repeats a decision, or is refused. Pure.

Version 1 knows a request by the producer's id and epoch, which stay the same from transaction to
transaction, so a repetition is told by the state alone:

    state            commit                    abort
    Empty            INVALID_TXN_STATE         INVALID_TXN_STATE
    Ongoing          decides                   decides
    PrepareCommit    CONCURRENT_TRANSACTIONS   INVALID_TXN_STATE
    PrepareAbort     INVALID_TXN_STATE         CONCURRENT_TRANSACTIONS
    CompleteCommit   repeats                   INVALID_TXN_STATE
    CompleteAbort    INVALID_TXN_STATE         repeats

In version 2 (KIP-890) each end raises the epoch. A request with the epoch before (or, where the
epochs were used up, with the last one of the producer id before) can only be a repetition of the
end that raised it; one with the current epoch can only be a new end:

    state            current: commit     current: abort   before: commit     before: abort
    Empty            INVALID_TXN_STATE   decides          PRODUCER_FENCED    PRODUCER_FENCED
    Ongoing          decides             decides          PRODUCER_FENCED    PRODUCER_FENCED
    PrepareCommit    CONCURRENT_...      CONCURRENT_...   CONCURRENT_...     INVALID_TXN_STATE
    PrepareAbort     CONCURRENT_...      CONCURRENT_...   INVALID_TXN_STATE  CONCURRENT_...
    CompleteCommit   INVALID_TXN_STATE   decides          repeats            INVALID_TXN_STATE
    CompleteAbort    INVALID_TXN_STATE   decides          INVALID_TXN_STATE  repeats

Every other epoch is fenced, and so is the epoch before where the last end was one of version 1:
that did not raise the epoch, so another producer did. Source: TransactionCoordinator.scala,
endTransaction. Two answers differ. Kafka takes the request for a repetition in that last case too,
and so gives a producer that was fenced the epoch of its heir. And it fences a producer that ends
its next transaction while the markers of the one before are being written, which it may (an abort
before anything was written); here it is to try again.
"""

from __future__ import annotations

from enum import Enum

from local_cluster.transactions.requests import EndRequest
from local_cluster.transactions.transaction import EPOCH_EXHAUSTED, EPOCH_RAISED_SINCE, Transaction
from local_cluster.transactions.transaction_fsm import PREPARED, TransactionState
from local_cluster.wire.errors import ErrorCode


class Verdict(Enum):
    """What an EndTxn that is not refused does."""

    DECIDES = "decides"
    REPETITION = "repetition"


def judge(known: Transaction, request: EndRequest) -> Verdict | ErrorCode:
    """The tables above."""
    if request.client_version >= EPOCH_RAISED_SINCE:
        return _judge_second(known, request)
    return _judge_first(known, request)


def _judge_first(known: Transaction, request: EndRequest) -> Verdict | ErrorCode:
    if request.producer_id != known.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if request.producer_epoch != known.producer_epoch:
        return ErrorCode.producer_fenced
    if known.state is TransactionState.ONGOING:
        return Verdict.DECIDES
    if known.state is TransactionState.EMPTY:
        return ErrorCode.invalid_txn_state
    return _repetition(known, is_commit=request.is_commit)


def _judge_second(known: Transaction, request: EndRequest) -> Verdict | ErrorCode:
    if known.is_next(request.producer_id, request.producer_epoch):
        return ErrorCode.concurrent_transactions
    before_rotation = (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch == EPOCH_EXHAUSTED
        and known.producer_epoch == 0
    )
    if request.producer_id != known.producer_id and not before_rotation:
        return ErrorCode.invalid_producer_id_mapping
    is_before = before_rotation or request.producer_epoch + 1 == known.producer_epoch
    is_current = not is_before and request.producer_epoch == known.producer_epoch
    if known.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        if not is_current:
            return ErrorCode.producer_fenced
        if known.state is TransactionState.EMPTY and request.is_commit:
            return ErrorCode.invalid_txn_state
        return Verdict.DECIDES
    if is_before and known.client_version >= EPOCH_RAISED_SINCE:
        return _repetition(known, is_commit=request.is_commit)
    if not is_current:
        return ErrorCode.producer_fenced
    if known.state in PREPARED:
        return ErrorCode.concurrent_transactions
    return ErrorCode.invalid_txn_state if request.is_commit else Verdict.DECIDES


def _repetition(known: Transaction, *, is_commit: bool) -> Verdict | ErrorCode:
    """Of an end that was decided already: the same decision, or one that contradicts it."""
    was_commit = known.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    if was_commit != is_commit:
        return ErrorCode.invalid_txn_state
    return ErrorCode.concurrent_transactions if known.state in PREPARED else Verdict.REPETITION
