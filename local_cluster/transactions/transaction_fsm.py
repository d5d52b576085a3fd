"""The states of a transactional id and the transitions between them.

    state            event              next state
    Empty            initialized        Empty             a new epoch before any transaction
    Empty            partitions_added   Ongoing
    Empty            abort              PrepareAbort      version 2: an abort without a transaction
    Empty            expired            Dead
    Ongoing          partitions_added   Ongoing
    Ongoing          commit             PrepareCommit     the commit is decided
    Ongoing          abort              PrepareAbort      by EndTxn, timeout or fencing
    PrepareCommit    marked             CompleteCommit    every partition has its marker
    PrepareAbort     marked             CompleteAbort
    CompleteCommit   initialized        Empty
    CompleteCommit   partitions_added   Ongoing
    CompleteCommit   abort              PrepareAbort      version 2: an abort without a transaction
    CompleteCommit   expired            Dead
    CompleteAbort    initialized        Empty
    CompleteAbort    partitions_added   Ongoing
    CompleteAbort    abort              PrepareAbort      version 2: an abort without a transaction
    CompleteAbort    expired            Dead

Invalid requests are refused earlier, so a pair outside the table is a bug of this broker. States,
names and numbers are Kafka's (TransactionState.java). Its PrepareEpochFence, which is never written
to the log, is not needed: here one step fences and aborts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class TransactionState(Enum):
    """The states, with the names that DescribeTransactions shows."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


class TransactionEvent(Enum):
    """The events that move a transactional id from one state to another."""

    INITIALIZED = "initialized"
    PARTITIONS_ADDED = "partitions_added"
    COMMIT = "commit"
    ABORT = "abort"
    MARKED = "marked"
    EXPIRED = "expired"


_S = TransactionState
_E = TransactionEvent

TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionEvent], TransactionState]] = (
    MappingProxyType(
        {
            (_S.EMPTY, _E.INITIALIZED): _S.EMPTY,
            (_S.EMPTY, _E.PARTITIONS_ADDED): _S.ONGOING,
            (_S.EMPTY, _E.ABORT): _S.PREPARE_ABORT,
            (_S.EMPTY, _E.EXPIRED): _S.DEAD,
            (_S.ONGOING, _E.PARTITIONS_ADDED): _S.ONGOING,
            (_S.ONGOING, _E.COMMIT): _S.PREPARE_COMMIT,
            (_S.ONGOING, _E.ABORT): _S.PREPARE_ABORT,
            (_S.PREPARE_COMMIT, _E.MARKED): _S.COMPLETE_COMMIT,
            (_S.PREPARE_ABORT, _E.MARKED): _S.COMPLETE_ABORT,
            (_S.COMPLETE_COMMIT, _E.INITIALIZED): _S.EMPTY,
            (_S.COMPLETE_COMMIT, _E.PARTITIONS_ADDED): _S.ONGOING,
            (_S.COMPLETE_COMMIT, _E.ABORT): _S.PREPARE_ABORT,
            (_S.COMPLETE_COMMIT, _E.EXPIRED): _S.DEAD,
            (_S.COMPLETE_ABORT, _E.INITIALIZED): _S.EMPTY,
            (_S.COMPLETE_ABORT, _E.PARTITIONS_ADDED): _S.ONGOING,
            (_S.COMPLETE_ABORT, _E.ABORT): _S.PREPARE_ABORT,
            (_S.COMPLETE_ABORT, _E.EXPIRED): _S.DEAD,
        }
    )
)

PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided; the markers are being written."""
IDLE: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction; the transactional id expires after transactional.id.expiration.ms."""


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return the state after the event. Raises AssertionError for a pair outside the table."""
    target = TRANSITIONS.get((state, event))
    assert target is not None, f"no transition from {state.value} by {event.value}"
    return target
