"""Whether an EndTxn decides the transaction, repeats a decision, or is refused. Pure.

Version 1 requests carry the producer's id and epoch, which are the same in each transaction. So
only the state tells a repetition:

    state            commit                    abort
    Empty            INVALID_TXN_STATE         INVALID_TXN_STATE
    Ongoing          decides                   decides
    PrepareCommit    CONCURRENT_TRANSACTIONS   INVALID_TXN_STATE
    PrepareAbort     INVALID_TXN_STATE         CONCURRENT_TRANSACTIONS
    CompleteCommit   repeats                   INVALID_TXN_STATE
    CompleteAbort    INVALID_TXN_STATE         repeats

In version 2 (KIP-890) each end raises the epoch. A request with the previous epoch can only repeat
the end that raised it; after the epochs of an id are exhausted, that is the last epoch of the
previous producer id. A request with the current epoch can only be a new end:

    state            current: commit     current: abort   previous: commit   previous: abort
    Empty            INVALID_TXN_STATE   decides          PRODUCER_FENCED    PRODUCER_FENCED
    Ongoing          decides             decides          PRODUCER_FENCED    PRODUCER_FENCED
    PrepareCommit    CONCURRENT_...      CONCURRENT_...   CONCURRENT_...     INVALID_TXN_STATE
    PrepareAbort     CONCURRENT_...      CONCURRENT_...   INVALID_TXN_STATE  CONCURRENT_...
    CompleteCommit   INVALID_TXN_STATE   decides          repeats            INVALID_TXN_STATE
    CompleteAbort    INVALID_TXN_STATE   decides          INVALID_TXN_STATE  repeats

Every other epoch is fenced. So is the previous epoch if the last end was one of version 1: that
end did not raise the epoch, so another producer did.

Source: TransactionCoordinator.scala, endTransaction. Two responses differ:

- In the last case above Kafka assumes a repetition, and so gives a fenced producer the epoch of
  the producer that fenced it.
- A producer may end its next transaction while the markers of the previous one are being written
  (an abort before any write). Kafka fences it; here it gets CONCURRENT_TRANSACTIONS and retries.
"""

from __future__ import annotations

from enum import Enum

from local_cluster.transactions.requests import EndRequest
from local_cluster.transactions.transaction import EPOCH_EXHAUSTED, EPOCH_RAISED_SINCE, Transaction
from local_cluster.transactions.transaction_fsm import PREPARED, TransactionState
from local_cluster.wire.errors import ErrorCode


class EndTxnAction(Enum):
    """What an accepted EndTxn does."""

    DECIDE = "decide"
    REPEAT = "repeat"


def check_end_txn(known: Transaction, request: EndRequest) -> EndTxnAction | ErrorCode:
    """Look the request up in the tables above."""
    if request.client_version >= EPOCH_RAISED_SINCE:
        return _check_version_2(known, request)
    return _check_version_1(known, request)


def _check_version_1(known: Transaction, request: EndRequest) -> EndTxnAction | ErrorCode:
    if request.producer_id != known.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if request.producer_epoch != known.producer_epoch:
        return ErrorCode.producer_fenced
    if known.state is TransactionState.ONGOING:
        return EndTxnAction.DECIDE
    if known.state is TransactionState.EMPTY:
        return ErrorCode.invalid_txn_state
    return _check_repetition(known, is_commit=request.is_commit)


def _check_version_2(known: Transaction, request: EndRequest) -> EndTxnAction | ErrorCode:
    if known.is_next(request.producer_id, request.producer_epoch):
        return ErrorCode.concurrent_transactions
    is_previous_id = (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch == EPOCH_EXHAUSTED
        and known.producer_epoch == 0
    )
    if request.producer_id != known.producer_id and not is_previous_id:
        return ErrorCode.invalid_producer_id_mapping
    is_previous = is_previous_id or request.producer_epoch + 1 == known.producer_epoch
    is_current = not is_previous and request.producer_epoch == known.producer_epoch
    if known.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        if not is_current:
            return ErrorCode.producer_fenced
        if known.state is TransactionState.EMPTY and request.is_commit:
            return ErrorCode.invalid_txn_state
        return EndTxnAction.DECIDE
    if is_previous and known.client_version >= EPOCH_RAISED_SINCE:
        return _check_repetition(known, is_commit=request.is_commit)
    if not is_current:
        return ErrorCode.producer_fenced
    if known.state in PREPARED:
        return ErrorCode.concurrent_transactions
    return ErrorCode.invalid_txn_state if request.is_commit else EndTxnAction.DECIDE


def _check_repetition(known: Transaction, *, is_commit: bool) -> EndTxnAction | ErrorCode:
    """Compare an end with the decision that was made: the same, or a contradiction."""
    was_commit = known.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    if was_commit != is_commit:
        return ErrorCode.invalid_txn_state
    return ErrorCode.concurrent_transactions if known.state in PREPARED else EndTxnAction.REPEAT
