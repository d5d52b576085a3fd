"""The rules of transactions in each state, and replay of every step."""

from __future__ import annotations

from functools import partial

import pytest

from local_cluster.coordinator_runtime.outcome import Now
from local_cluster.transactions.records import encode_key, encode_value
from local_cluster.transactions.requests import (
    AddRequest,
    EndRequest,
    InitRequest,
    ProducerResponse,
    TransactionLimits,
    TransactionOutcome,
)
from local_cluster.transactions.shard import TransactionShard
from local_cluster.transactions.transaction import EPOCH_EXHAUSTED, Transaction
from local_cluster.transactions.transaction_fsm import (
    TRANSITIONS,
    TransactionEvent,
    TransactionState,
    next_state,
)
from local_cluster.wire.errors import ErrorCode

PRODUCER_ID = 7
PARTITIONS = frozenset({("t", 0), ("t", 2), ("u", 1)})
NOW_MS = 1_700_000_000_000


class Scene:
    """A shard with its log, which is replayed into a second shard after every step."""

    def __init__(self) -> None:
        self.shard = TransactionShard(TransactionLimits())
        self.log: list[tuple[bytes, bytes | None]] = []
        self.decided: list[Transaction] = []

    def take(self, outcome: TransactionOutcome) -> TransactionOutcome:
        self.log += outcome.records
        self.decided += outcome.decided
        twin = TransactionShard(TransactionLimits())
        for key, value in self.log:
            twin.replay(key, value)
        assert {key: stored(item) for key, item in twin.transactions.items()} == {
            key: stored(item) for key, item in self.shard.transactions.items()
        }
        return outcome

    def init(
        self,
        epoch: int = -1,
        *,
        new_id: int = PRODUCER_ID,
        timeout_ms: int = 60_000,
        known: int = -1,
    ) -> ProducerResponse:
        producer_id = known if known >= 0 else (PRODUCER_ID if epoch >= 0 else -1)
        request = InitRequest("tx", timeout_ms, producer_id, epoch, new_id)
        response = self.take(self.shard.init_producer_id(request, NOW_MS)).response
        assert isinstance(response, ProducerResponse)
        return response

    def add(self, epoch: int = 0, now_ms: int = NOW_MS) -> object:
        request = AddRequest("tx", PRODUCER_ID, epoch, PARTITIONS)
        return self.take(self.shard.add_partitions(request, now_ms)).response

    def end(self, *, commit: bool, epoch: int = 0) -> object:
        request = EndRequest("tx", PRODUCER_ID, epoch, commit)
        response = self.take(self.shard.end(request, NOW_MS)).response
        assert isinstance(response, ProducerResponse)
        return response.error

    def mark(self) -> None:
        self.take(self.shard.complete(self.decided.pop(), NOW_MS))

    def state(self) -> TransactionState:
        return self.shard.transactions["tx"].state


def stored(transaction: Transaction) -> bytes:
    return encode_value(transaction)


def test_a_transaction_from_beginning_to_end() -> None:
    scene = Scene()
    assert scene.init() == ProducerResponse(ErrorCode.none, PRODUCER_ID, 0)
    assert scene.add() is ErrorCode.none
    assert scene.end(commit=True) is ErrorCode.none
    assert scene.state() is TransactionState.PREPARE_COMMIT
    assert scene.decided[0].partitions == PARTITIONS
    assert scene.add() is ErrorCode.concurrent_transactions
    assert scene.end(commit=True) is ErrorCode.concurrent_transactions
    assert scene.end(commit=False) is ErrorCode.invalid_txn_state
    assert scene.init().error is ErrorCode.concurrent_transactions
    scene.mark()
    assert scene.state() is TransactionState.COMPLETE_COMMIT
    assert scene.end(commit=True) is ErrorCode.none, "a repetition"
    assert scene.end(commit=False) is ErrorCode.invalid_txn_state
    assert scene.add() is ErrorCode.none


def test_an_addition_that_waited_does_not_follow_its_client_to_a_newer_connection() -> None:
    """The client has sent it again there, and may have ended that transaction since."""
    scene = Scene()
    scene.init()

    def add(connection_id: int, *, is_again: bool) -> object:
        request = AddRequest(
            "tx", PRODUCER_ID, 0, PARTITIONS, connection_id=connection_id, is_again=is_again
        )
        return scene.take(scene.shard.add_partitions(request, NOW_MS)).response

    assert add(2, is_again=False) is ErrorCode.none
    ending = EndRequest("tx", PRODUCER_ID, 0, is_commit=True, connection_id=2)
    ended = scene.take(scene.shard.end(ending, NOW_MS)).response
    assert ended == ProducerResponse(ErrorCode.none, PRODUCER_ID, 0)
    scene.mark()
    assert add(1, is_again=True) is ErrorCode.concurrent_transactions
    assert scene.state() is TransactionState.COMPLETE_COMMIT
    assert add(2, is_again=True) is ErrorCode.none


def test_nothing_is_granted_without_a_record() -> None:
    """A replaced coordinator may not know the next transaction; its records are not committed."""
    scene = Scene()
    scene.init()
    for ask in (scene.add, scene.add, partial(scene.end, commit=True)):
        written = len(scene.log)
        assert ask() is ErrorCode.none
        assert len(scene.log) == written + 1
    scene.mark()
    written = len(scene.log)
    assert scene.end(commit=True) is ErrorCode.none, "a repetition"
    assert len(scene.log) == written + 1


def test_a_new_producer_aborts_and_fences_the_old_one() -> None:
    scene = Scene()
    scene.init()
    scene.add()
    assert scene.init().error is ErrorCode.concurrent_transactions
    assert scene.state() is TransactionState.PREPARE_ABORT
    assert scene.decided[0].producer_epoch == 1, "the markers carry the fencing epoch"
    assert scene.end(commit=True) is ErrorCode.producer_fenced
    scene.mark()
    assert scene.init() == ProducerResponse(ErrorCode.none, PRODUCER_ID, 2)
    assert scene.add(0) is ErrorCode.producer_fenced
    assert scene.add(2) is ErrorCode.none


def test_a_producer_that_continues_names_its_epoch() -> None:
    scene = Scene()
    scene.init()
    assert scene.init(0) == ProducerResponse(ErrorCode.none, PRODUCER_ID, 1)
    assert scene.init(0) == ProducerResponse(ErrorCode.none, PRODUCER_ID, 1), "a lost response"
    assert scene.init(1) == ProducerResponse(ErrorCode.none, PRODUCER_ID, 2)
    assert scene.init(0).error is ErrorCode.producer_fenced
    assert scene.init(2, known=PRODUCER_ID + 1).error is ErrorCode.producer_fenced


def test_exhausted_epochs_give_a_new_producer_id() -> None:
    scene = Scene()
    scene.init()
    for epoch in range(EPOCH_EXHAUSTED):
        scene.shard.transactions["tx"] = scene.shard.transactions["tx"].initialize(
            producer_id=PRODUCER_ID,
            producer_epoch=epoch + 1,
            last_producer_epoch=-1,
            timeout_ms=60_000,
            now_ms=NOW_MS,
        )
    assert scene.shard.transactions["tx"].producer_epoch == EPOCH_EXHAUSTED
    request = InitRequest("tx", 60_000)
    outcome = scene.shard.init_producer_id(request, NOW_MS)
    assert outcome == TransactionOutcome(
        response=ProducerResponse(ErrorCode.none, needs_producer_id=True)
    )
    assert scene.init(new_id=8) == ProducerResponse(ErrorCode.none, 8, 0)


def test_timeouts_are_capped_and_kept() -> None:
    scene = Scene()
    assert scene.init(timeout_ms=900_001).error is ErrorCode.invalid_transaction_timeout
    assert scene.init(timeout_ms=0).error is ErrorCode.invalid_transaction_timeout
    scene.init(timeout_ms=1_000)
    scene.add()
    assert scene.take(scene.shard.expire(NOW_MS + 999)) == TransactionOutcome()
    scene.take(scene.shard.expire(NOW_MS + 1_000))
    assert scene.state() is TransactionState.PREPARE_ABORT
    assert scene.end(commit=True) is ErrorCode.producer_fenced
    scene.mark()
    week_ms = TransactionLimits().transactional_id_expiration_ms
    outcome = scene.take(scene.shard.expire(NOW_MS + week_ms))
    assert outcome.records == [(encode_key("tx"), None)]
    assert scene.add() is ErrorCode.invalid_producer_id_mapping


def test_verification() -> None:
    scene = Scene()
    scene.init()
    scene.add()

    def verify(partition: tuple[str, int], epoch: int = 0) -> ErrorCode:
        request = AddRequest("tx", PRODUCER_ID, epoch, frozenset({partition}))
        return scene.shard.verify(request)[partition]

    assert verify(("t", 0)) is ErrorCode.none
    assert verify(("t", 1)) is ErrorCode.transaction_abortable
    assert verify(("t", 0), 1) is ErrorCode.producer_fenced
    scene.end(commit=False)
    assert verify(("t", 0)) is ErrorCode.concurrent_transactions
    scene.mark()
    assert verify(("t", 0)) is ErrorCode.transaction_abortable


def test_decided_transactions_get_their_markers_after_a_load() -> None:
    scene = Scene()
    scene.init()
    scene.add()
    scene.end(commit=True)
    twin = TransactionShard(TransactionLimits())
    for key, value in scene.log:
        twin.replay(key, value)
    (decided,) = twin.finish_load(Now(NOW_MS, 0)).follow_ups
    assert (decided.state, decided.partitions) == (TransactionState.PREPARE_COMMIT, PARTITIONS)
    twin.complete(decided, NOW_MS)
    assert twin.transactions["tx"].state is TransactionState.COMPLETE_COMMIT
    assert twin.complete(decided, NOW_MS) == TransactionOutcome(), "completed twice"


def test_only_the_transitions_of_the_table_happen() -> None:
    for state in TransactionState:
        for event in TransactionEvent:
            if (state, event) in TRANSITIONS:
                assert next_state(state, event) is TRANSITIONS[state, event]
            else:
                with pytest.raises(AssertionError):
                    next_state(state, event)
    for state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        assert [event for known, event in TRANSITIONS if known is state] == [
            TransactionEvent.MARKED
        ], "a decision is never changed"


def test_a_transactional_id_too_many_is_refused_and_the_others_are_served() -> None:
    shard = TransactionShard(TransactionLimits(transactional_ids_max=2))

    def init(transactional_id: str) -> object:
        request = InitRequest(transactional_id, 60_000, -1, -1, PRODUCER_ID)
        response = shard.init_producer_id(request, NOW_MS).response
        assert isinstance(response, ProducerResponse)
        return response.error

    assert [init(each) for each in ("a", "b", "c", "a", "b")] == [
        *(ErrorCode.none, ErrorCode.none),
        ErrorCode.policy_violation,
        *(ErrorCode.none, ErrorCode.none),
    ]
    assert set(shard.transactions) == {"a", "b"}
