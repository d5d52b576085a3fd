"""One partition of `__transaction_state` as a state machine: requests in, records out.

A request changes the shard at once and returns the record of the change. The runtime appends it;
once it is committed, the response leaves and the markers are written. Loading replays the same
records. If an append fails, the runtime drops the shard and replays the log.

Rules (Kafka's TransactionCoordinator and TransactionMetadata):

- Only the current producer id and epoch may add partitions and end a transaction; older epochs are
  fenced.
- InitProducerId raises the epoch. It first aborts an ongoing transaction under an epoch that fences
  its producer, and answers CONCURRENT_TRANSACTIONS until that is complete.
- A decision never changes: an EndTxn that repeats it succeeds, one that contradicts it is refused.
- Every granted request is written first, even a repetition that changes nothing. A coordinator that
  was replaced and does not know it commits nothing. So it cannot take the end of one transaction
  for the end of the previous one, which look alike in version 1. Kafka answers from memory.
- A transaction past its timeout is aborted, and its producer is fenced.
- In version 2 (KIP-890) every end raises the epoch, so the ends of two transactions differ
  (end_txn.py).
- In version 1 they do not. There an EndTxn is refused if partitions were added by a newer
  connection: its client has continued on that connection.

Not here: leadership, waiting, markers (coordinator_runtime/, markers.py), producer ids.
"""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.coordinator_runtime.outcome import (
    Now,
    Outcome,
    StoredRecord,
    UnreadableRecordError,
)
from local_cluster.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX
from local_cluster.transactions.end_txn import EndTxnAction, check_end_txn
from local_cluster.transactions.records import (
    TRANSACTIONAL_ID_BYTES_MAX,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from local_cluster.transactions.requests import (
    NO_CONNECTION,
    AddRequest,
    EndRequest,
    InitRequest,
    ProducerResponse,
    TransactionLimits,
    TransactionOutcome,
)
from local_cluster.transactions.transaction import (
    EPOCH_EXHAUSTED,
    EPOCH_RAISED_SINCE,
    TopicPartition,
    Transaction,
)
from local_cluster.transactions.transaction_fsm import (
    IDLE,
    PREPARED,
    TransactionEvent,
    TransactionState,
    next_state,
)
from local_cluster.wire.errors import ErrorCode


class TransactionShard:
    """The transactional ids of one partition."""

    __slots__ = ("_added_by", "limits", "transactions")

    def __init__(self, limits: TransactionLimits) -> None:
        self.limits = limits
        self.transactions: dict[str, Transaction] = {}
        self._added_by: dict[str, int] = {}
        """The newest connection that added partitions to the transaction, by transactional id. Not
        in the log: connections do not outlive this process."""

    # Loading

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. Raises UnreadableRecordError."""
        transactional_id = decode_key(key)
        if transactional_id is None:
            return
        if value is None:
            self.transactions.pop(transactional_id, None)
            return
        transaction = decode_value(transactional_id, value)
        if transaction.state is TransactionState.DEAD:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Refuse the record: this topic has no transactional records."""
        raise UnreadableRecordError(f"unexpected transactional record of producer {producer_id}")

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Do nothing: this topic has no transactional records."""

    def finish_load(self, now: Now) -> Outcome:
        """After the last replayed record, send the markers of decided transactions."""
        decided = [item for item in self.transactions.values() if item.state in PREPARED]
        return TransactionOutcome(decided=decided).to_runtime()

    def next_deadline_ms(self) -> int | None:
        """Return None: `expire` looks for timeouts at an interval."""
        return None

    def expire_timers(self, now: Now) -> Outcome:
        """Do nothing: there are no timers."""
        return Outcome()

    def defer_timers(self, until_ms: int) -> None:
        """Do nothing: there are no timers."""

    # Requests

    def init_producer_id(self, request: InitRequest, now_ms: int) -> TransactionOutcome:
        """Handle InitProducerId with a transactional id."""
        transactional_id = request.transactional_id
        if not transactional_id or len(transactional_id.encode()) > TRANSACTIONAL_ID_BYTES_MAX:
            return _refused(ErrorCode.invalid_request)
        if not 0 < request.timeout_ms <= self.limits.transaction_max_timeout_ms:
            return _refused(ErrorCode.invalid_transaction_timeout)
        known = self.transactions.get(transactional_id)
        if known is None:
            if len(self.transactions) >= self.limits.transactional_ids_max:
                return _refused(ErrorCode.policy_violation)
            if request.new_producer_id == NO_PRODUCER_ID:
                return _needs_producer_id()
            known = Transaction(
                transactional_id=transactional_id,
                producer_id=request.new_producer_id,
                producer_epoch=NO_PRODUCER_EPOCH,
                timeout_ms=request.timeout_ms,
            )
        elif not _is_producer(known, request):
            return _refused(ErrorCode.producer_fenced)
        if known.state in PREPARED:
            return _refused(ErrorCode.concurrent_transactions)
        if known.state is TransactionState.ONGOING:
            if request.producer_epoch not in (NO_PRODUCER_EPOCH, known.producer_epoch):
                # The ongoing transaction has the newest epoch, so this request is late.
                return _refused(ErrorCode.producer_fenced)
            outcome = self._fence(known, now_ms)
            outcome.response = ProducerResponse(ErrorCode.concurrent_transactions)
            return outcome
        return self._initialize(known, request, now_ms)

    def _initialize(
        self, known: Transaction, request: InitRequest, now_ms: int
    ) -> TransactionOutcome:
        names_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
        if known.is_epoch_exhausted and (
            not names_epoch
            or request.producer_epoch == known.producer_epoch
            # Fenced under the last epoch, which no producer gets.
            or (
                known.producer_epoch == PRODUCER_EPOCH_MAX
                and request.producer_epoch == known.last_producer_epoch
            )
        ):
            if request.new_producer_id == NO_PRODUCER_ID:
                return _needs_producer_id()
            producer_id, epoch = request.new_producer_id, 0
            last_epoch = known.producer_epoch if names_epoch else NO_PRODUCER_EPOCH
        else:
            producer_id, epoch = known.producer_id, known.producer_epoch + 1
            if not names_epoch:
                last_epoch = NO_PRODUCER_EPOCH
            elif request.producer_epoch == known.producer_epoch or epoch == 0:
                last_epoch = known.producer_epoch
            elif request.producer_epoch == known.last_producer_epoch:
                # The response to the previous call was lost; the epoch is already raised.
                return TransactionOutcome(response=_current(known))
            else:
                return _refused(ErrorCode.producer_fenced)
        changed = known.initialize(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=request.timeout_ms,
            now_ms=now_ms,
        )
        outcome = self._store(changed)
        outcome.response = _current(changed)
        return outcome

    def add_partitions(self, request: AddRequest, now_ms: int) -> TransactionOutcome:
        """Handle AddPartitionsToTxn and AddOffsetsToTxn: add all partitions or none."""
        known = self.transactions.get(request.transactional_id)
        error = _check_producer(known, request.producer_id, request.producer_epoch)
        if error is not ErrorCode.none or known is None:
            return TransactionOutcome(response=error)
        is_ongoing = known.state is TransactionState.ONGOING
        newest = self._added_by.get(request.transactional_id, NO_CONNECTION)
        if request.is_again and NO_CONNECTION < request.connection_id < newest:
            # Its client has sent it again on a newer connection, and may be beyond it.
            return TransactionOutcome(response=ErrorCode.concurrent_transactions)
        self._added_by[request.transactional_id] = (
            max(newest, request.connection_id) if is_ongoing else request.connection_id
        )
        changed = known
        if not (is_ongoing and request.partitions <= known.partitions):
            changed = known.add(request.partitions, request.client_version, now_ms)
        outcome = self._store(changed)
        outcome.response = ErrorCode.none
        return outcome

    def verify(self, request: AddRequest) -> Mapping[TopicPartition, ErrorCode]:
        """Check whether partitions belong to the ongoing transaction (KIP-890); change nothing."""
        known = self.transactions.get(request.transactional_id)
        error = _check_producer(known, request.producer_id, request.producer_epoch)
        if error is ErrorCode.none and known is not None:
            return {
                partition: ErrorCode.none
                if partition in known.partitions
                else ErrorCode.transaction_abortable
                for partition in request.partitions
            }
        return dict.fromkeys(request.partitions, error)

    def end(self, request: EndRequest, now_ms: int) -> TransactionOutcome:
        """Handle EndTxn. The response waits for the commit of the decision, not for markers."""
        known = self.transactions.get(request.transactional_id)
        if known is None:
            return _refused(ErrorCode.invalid_producer_id_mapping)
        action = check_end_txn(known, request)
        if action is EndTxnAction.REPEAT:
            if known.producer_epoch == PRODUCER_EPOCH_MAX:
                return _refused(ErrorCode.producer_fenced)
            outcome = self._store(known)
            outcome.response = _current(known)
            return outcome
        if isinstance(action, ErrorCode):
            return _refused(action)
        next_producer_id = NO_PRODUCER_ID
        if request.client_version < EPOCH_RAISED_SINCE:
            if request.connection_id < self._added_by.get(known.transactional_id, NO_CONNECTION):
                return _refused(ErrorCode.invalid_txn_state)
        elif known.is_epoch_exhausted:
            next_producer_id = request.new_producer_id
            if next_producer_id == NO_PRODUCER_ID:
                return _needs_producer_id()
        outcome = self._decide(
            known,
            is_commit=request.is_commit,
            client_version=request.client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )
        # If the epochs are exhausted the client gets the new id; only markers have the last epoch.
        outcome.response = _current(outcome.decided[0].complete(now_ms))
        return outcome

    # Events

    def complete(self, decided: Transaction, now_ms: int) -> TransactionOutcome:
        """Complete a decided transaction: all its markers are committed."""
        known = self.transactions.get(decided.transactional_id)
        if known != decided:
            # The shard was reloaded, and the load has sent the markers again.
            return TransactionOutcome()
        return self._store(known.complete(now_ms))

    def expire(self, now_ms: int) -> TransactionOutcome:
        """Abort transactions past their timeout and remove ids past their expiration."""
        outcome = TransactionOutcome()
        limit_ms = self.limits.transactional_id_expiration_ms
        for known in tuple(self.transactions.values()):
            if known.state is TransactionState.ONGOING:
                if now_ms >= known.start_ms + known.timeout_ms:
                    fenced = self._fence(known, now_ms)
                    outcome.records += fenced.records
                    outcome.decided += fenced.decided
            elif known.state in IDLE and now_ms - known.update_ms >= limit_ms:
                next_state(known.state, TransactionEvent.EXPIRED)
                del self.transactions[known.transactional_id]
                self._added_by.pop(known.transactional_id, None)
                outcome.records.append(StoredRecord(encode_key(known.transactional_id), None))
        return outcome

    # Inside

    def _fence(self, known: Transaction, now_ms: int) -> TransactionOutcome:
        """Abort under the next epoch, in either version, which fences the producer."""
        return self._decide(
            known,
            is_commit=False,
            client_version=EPOCH_RAISED_SINCE,
            next_producer_id=NO_PRODUCER_ID,
            now_ms=now_ms,
        )

    def _decide(
        self,
        known: Transaction,
        *,
        is_commit: bool,
        client_version: int,
        next_producer_id: int,
        now_ms: int,
    ) -> TransactionOutcome:
        changed = known.prepare(
            is_commit=is_commit,
            client_version=client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )
        outcome = self._store(changed)
        outcome.decided.append(changed)
        return outcome

    def _store(self, changed: Transaction) -> TransactionOutcome:
        self.transactions[changed.transactional_id] = changed
        record = StoredRecord(encode_key(changed.transactional_id), encode_value(changed))
        return TransactionOutcome(records=[record])


def _is_producer(known: Transaction, request: InitRequest) -> bool:
    """Return whether an InitProducerId names no producer, the current one, the next one, or the
    previous one whose epochs were exhausted (KIP-360)."""
    if request.producer_id in (NO_PRODUCER_ID, known.producer_id):
        return True
    if known.is_next(request.producer_id, request.producer_epoch):
        return True
    return (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch >= EPOCH_EXHAUSTED
    )


def _check_producer(known: Transaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """Check that this is the current producer, and that its transaction may begin or continue."""
    if known is None:
        return ErrorCode.invalid_producer_id_mapping
    if known.is_next(producer_id, epoch):
        return ErrorCode.concurrent_transactions
    if known.producer_id != producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if known.producer_epoch != epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if known.state in PREPARED else ErrorCode.none


def _current(transaction: Transaction) -> ProducerResponse:
    """Return the producer as it is."""
    return ProducerResponse(ErrorCode.none, transaction.producer_id, transaction.producer_epoch)


def _refused(error: ErrorCode) -> TransactionOutcome:
    return TransactionOutcome(response=ProducerResponse(error))


def _needs_producer_id() -> TransactionOutcome:
    return TransactionOutcome(response=ProducerResponse(ErrorCode.none, needs_producer_id=True))
