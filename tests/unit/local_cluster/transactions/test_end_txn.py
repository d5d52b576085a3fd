"""EndTxn in every state: it decides, repeats, or is refused."""

from __future__ import annotations

import pytest

from local_cluster.transactions.end_txn import EndTxnAction, check_end_txn
from local_cluster.transactions.requests import EndRequest
from local_cluster.transactions.transaction import EPOCH_EXHAUSTED, Transaction
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire.errors import ErrorCode

S = TransactionState
DECIDES, REPEATS = EndTxnAction.DECIDE, EndTxnAction.REPEAT
BUSY = ErrorCode.concurrent_transactions
WRONG = ErrorCode.invalid_txn_state
FENCED = ErrorCode.producer_fenced

VERSION_1 = {
    # state: (commit, abort)
    S.EMPTY: (WRONG, WRONG),
    S.ONGOING: (DECIDES, DECIDES),
    S.PREPARE_COMMIT: (BUSY, WRONG),
    S.PREPARE_ABORT: (WRONG, BUSY),
    S.COMPLETE_COMMIT: (REPEATS, WRONG),
    S.COMPLETE_ABORT: (WRONG, REPEATS),
}
VERSION_2 = {
    # state: (current epoch: commit, abort; previous epoch: commit, abort)
    S.EMPTY: (WRONG, DECIDES, FENCED, FENCED),
    S.ONGOING: (DECIDES, DECIDES, FENCED, FENCED),
    S.PREPARE_COMMIT: (BUSY, BUSY, BUSY, WRONG),
    S.PREPARE_ABORT: (BUSY, BUSY, WRONG, BUSY),
    S.COMPLETE_COMMIT: (WRONG, DECIDES, REPEATS, WRONG),
    S.COMPLETE_ABORT: (WRONG, DECIDES, WRONG, REPEATS),
}


def known(
    state: TransactionState, epoch: int = 5, previous: int = 7, version: int = 2
) -> Transaction:
    return Transaction(
        transactional_id="tx",
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=1,
        state=state,
        previous_producer_id=previous,
        client_version=version,
    )


def check(
    transaction: Transaction, epoch: int, *, commit: bool, version: int, producer_id: int = 7
) -> EndTxnAction | ErrorCode:
    return check_end_txn(transaction, EndRequest("tx", producer_id, epoch, commit, version))


@pytest.mark.parametrize("state", VERSION_1, ids=lambda state: state.value)
def test_version_1(state: TransactionState) -> None:
    transaction = known(state)
    for commit, expected in zip((True, False), VERSION_1[state], strict=True):
        assert check(transaction, 5, commit=commit, version=0) is expected
        for epoch in (4, 6):
            assert check(transaction, epoch, commit=commit, version=0) is FENCED
        other = check(transaction, 5, commit=commit, version=0, producer_id=8)
        assert other is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("state", VERSION_2, ids=lambda state: state.value)
def test_version_2(state: TransactionState) -> None:
    transaction = known(state)
    requests = ((5, True), (5, False), (4, True), (4, False))
    for (epoch, commit), expected in zip(requests, VERSION_2[state], strict=True):
        assert check(transaction, epoch, commit=commit, version=2) is expected
    for commit in (True, False):
        for epoch in (3, 6):
            assert check(transaction, epoch, commit=commit, version=2) is FENCED
        other = check(transaction, 5, commit=commit, version=2, producer_id=8)
        assert other is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("state", VERSION_2, ids=lambda state: state.value)
def test_version_2_after_the_epochs_are_exhausted(state: TransactionState) -> None:
    """The first request named the previous id at its last epoch."""
    if state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
        return  # the new id is current only when the markers are written
    transaction = known(state, epoch=0, previous=6)
    for commit, expected in zip((True, False), VERSION_2[state][2:], strict=True):
        last = check(transaction, EPOCH_EXHAUSTED, commit=commit, version=2, producer_id=6)
        assert last is expected
        older = check(transaction, EPOCH_EXHAUSTED - 1, commit=commit, version=2, producer_id=6)
        assert older is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("state", [S.PREPARE_ABORT, S.COMPLETE_ABORT, S.COMPLETE_COMMIT])
def test_an_end_of_version_1_is_not_repeated_by_one_of_version_2(state: TransactionState) -> None:
    """It did not raise the epoch: a producer with the previous epoch was fenced by another one."""
    transaction = known(state, version=0)
    for commit in (True, False):
        assert check(transaction, 4, commit=commit, version=2) is FENCED


def test_the_next_producer_id_waits_for_the_markers() -> None:
    """The response to EndTxn has the new id, before the markers are written."""
    prepared = known(S.ONGOING, epoch=EPOCH_EXHAUSTED).prepare(
        is_commit=True, client_version=2, next_producer_id=8, now_ms=1
    )
    assert check(prepared, 0, commit=False, version=2, producer_id=8) is BUSY
    assert check(prepared, EPOCH_EXHAUSTED, commit=True, version=2) is BUSY, "a repetition"
    assert check(prepared.complete(2), 0, commit=False, version=2, producer_id=8) is DECIDES
