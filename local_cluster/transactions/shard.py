"""One partition of `__transaction_state` as a state machine: requests in, records and answers out.

A request changes the shard at once and yields the record that tells of the change; the runtime
appends it, and when it is committed lets the answer go and writes the markers. Loading replays the
same records. Where an append fails the runtime throws the shard away and replays.

Rules (Kafka's TransactionCoordinator and TransactionMetadata):

- only the current producer id and epoch may add partitions and end; older epochs are fenced
- InitProducerId raises the epoch; a transaction still ongoing is aborted first, under an epoch
  that fences its producer, and the caller told CONCURRENT_TRANSACTIONS until that is over
- a decision is never changed: an EndTxn that repeats it is told so, one that contradicts it refused
- what is granted is written first, also where nothing changes (a repetition): who leads no more and
  does not know it yet commits nothing, so it cannot take the end of one transaction for that of the
  one before, which in version 1 look alike (Kafka answers from memory)
- a transaction older than its timeout is aborted, and its producer fenced
- in transactions of version 2 (KIP-890) every end raises the epoch, so that the EndTxn of one
  transaction can be told from that of the next (ending.py)
- in version 1 it cannot; there an EndTxn is refused that comes by an older connection than
  partitions of the transaction did: its client has gone on without it

Not here: who leads, waiting, markers (coordinator_runtime/, markers.py), producer ids.
"""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.coordinator_runtime.outcome import Now, StoredRecord, UnreadableRecordError
from local_cluster.coordinator_runtime.outcome import Outcome as RuntimeOutcome
from local_cluster.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from local_cluster.transactions.ending import Verdict, judge
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
    Outcome,
    ProducerAnswer,
    TransactionLimits,
)
from local_cluster.transactions.transaction import (
    EPOCH_EXHAUSTED,
    EPOCH_RAISED_SINCE,
    PRODUCER_EPOCH_MAX,
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
        """The youngest connection that added partitions to the transaction, by id. Not in the
        log: connections do not outlive this process."""

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
        """Nobody writes to this topic in a transaction."""
        raise UnreadableRecordError(f"a record in a transaction of producer {producer_id}")

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """As above: the marker of nothing."""

    def finish_load(self, now: Now) -> RuntimeOutcome:
        """After the last replayed record: what was decided gets its markers."""
        decided = [item for item in self.transactions.values() if item.state in PREPARED]
        return Outcome(decided=decided).to_runtime()

    def next_deadline_ms(self) -> int | None:
        """Timeouts are looked for at intervals, see `expire`."""
        return None

    def expire_timers(self, now: Now) -> RuntimeOutcome:
        """There are no timers."""
        return RuntimeOutcome()

    def put_off_timers(self, until_ms: int) -> None:
        """As above."""

    # Requests

    def init_producer_id(self, request: InitRequest, now_ms: int) -> Outcome:
        """InitProducerId with a transactional id."""
        transactional_id = request.transactional_id
        if not transactional_id or len(transactional_id.encode()) > TRANSACTIONAL_ID_BYTES_MAX:
            return _refused(ErrorCode.invalid_request)
        if not 0 < request.timeout_ms <= self.limits.transaction_max_timeout_ms:
            return _refused(ErrorCode.invalid_transaction_timeout)
        known = self.transactions.get(transactional_id)
        if known is None:
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
                # Who begins a transaction has the newest epoch: this one comes late.
                return _refused(ErrorCode.producer_fenced)
            outcome = self._fence(known, now_ms)
            outcome.answer = ProducerAnswer(ErrorCode.concurrent_transactions)
            return outcome
        return self._initialize(known, request, now_ms)

    def _initialize(self, known: Transaction, request: InitRequest, now_ms: int) -> Outcome:
        names_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
        if known.is_epoch_exhausted and (
            not names_epoch
            or request.producer_epoch == known.producer_epoch
            # Fenced under the last epoch there is, which no producer is given.
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
                # The answer to the call before was lost: the epoch was raised already.
                return Outcome(answer=_current(known))
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
        outcome.answer = _current(changed)
        return outcome

    def add_partitions(self, request: AddRequest, now_ms: int) -> Outcome:
        """AddPartitionsToTxn, AddOffsetsToTxn: all of the partitions or none."""
        known = self.transactions.get(request.transactional_id)
        error = _check_producer(known, request.producer_id, request.producer_epoch)
        if error is not ErrorCode.none or known is None:
            return Outcome(answer=error)
        is_ongoing = known.state is TransactionState.ONGOING
        youngest = self._added_by.get(request.transactional_id, NO_CONNECTION)
        self._added_by[request.transactional_id] = (
            max(youngest, request.connection_id) if is_ongoing else request.connection_id
        )
        changed = known
        if not (is_ongoing and request.partitions <= known.partitions):
            changed = known.add(request.partitions, request.client_version, now_ms)
        outcome = self._store(changed)
        outcome.answer = ErrorCode.none
        return outcome

    def verify(self, request: AddRequest) -> Mapping[TopicPartition, ErrorCode]:
        """Whether each partition belongs to the ongoing transaction (KIP-890); changes nothing."""
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

    def end(self, request: EndRequest, now_ms: int) -> Outcome:
        """EndTxn. The answer is given when the decision is in the log, not the markers."""
        known = self.transactions.get(request.transactional_id)
        if known is None:
            return _refused(ErrorCode.invalid_producer_id_mapping)
        verdict = judge(known, request)
        if verdict is Verdict.REPETITION:
            if known.producer_epoch == PRODUCER_EPOCH_MAX:
                return _refused(ErrorCode.producer_fenced)
            outcome = self._store(known)
            outcome.answer = _current(known)
            return outcome
        if isinstance(verdict, ErrorCode):
            return _refused(verdict)
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
        # A producer whose epochs are used up never sees the last one, which its markers carry.
        outcome.answer = _current(outcome.decided[0].complete(now_ms))
        return outcome

    # What the coordinator tells

    def complete(self, decided: Transaction, now_ms: int) -> Outcome:
        """Every marker of a decided transaction is committed."""
        known = self.transactions.get(decided.transactional_id)
        if known != decided:
            # The shard was replayed, and its own load sent the markers again.
            return Outcome()
        return self._store(known.complete(now_ms))

    def expire(self, now_ms: int) -> Outcome:
        """Abort transactions past their timeout, forget ids that were not used for long."""
        outcome = Outcome()
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

    def _fence(self, known: Transaction, now_ms: int) -> Outcome:
        """Abort under the next epoch, whatever the client's version: what its producer still
        sends is refused."""
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
    ) -> Outcome:
        changed = known.prepare(
            is_commit=is_commit,
            client_version=client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )
        outcome = self._store(changed)
        outcome.decided.append(changed)
        return outcome

    def _store(self, changed: Transaction) -> Outcome:
        self.transactions[changed.transactional_id] = changed
        record = StoredRecord(encode_key(changed.transactional_id), encode_value(changed))
        return Outcome(records=[record])


def _is_producer(known: Transaction, request: InitRequest) -> bool:
    """Whether an InitProducerId that names a producer names ours, or the one before it whose
    epochs were used up (KIP-360)."""
    if request.producer_id in (NO_PRODUCER_ID, known.producer_id):
        return True
    if known.is_next(request.producer_id, request.producer_epoch):
        return True
    return (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch >= EPOCH_EXHAUSTED
    )


def _check_producer(known: Transaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """Whether this is the producer, and its transaction can go on or begin now."""
    if known is None:
        return ErrorCode.invalid_producer_id_mapping
    if known.is_next(producer_id, epoch):
        return ErrorCode.concurrent_transactions
    if known.producer_id != producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if known.producer_epoch != epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if known.state in PREPARED else ErrorCode.none


def _current(transaction: Transaction) -> ProducerAnswer:
    """Its producer as it is."""
    return ProducerAnswer(ErrorCode.none, transaction.producer_id, transaction.producer_epoch)


def _refused(error: ErrorCode) -> Outcome:
    return Outcome(answer=ProducerAnswer(error))


def _needs_producer_id() -> Outcome:
    return Outcome(answer=ProducerAnswer(ErrorCode.none, needs_producer_id=True))
