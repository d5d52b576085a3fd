"""The transaction coordinator's shard under clients with lost responses and late requests.

Clients of both protocol versions share one transactional id. The response to a request may arrive
or get lost. Or the request stalls: then the client continues on a new connection, and the stalled
request arrives at any later time. Markers arrive late, twice, or after a reload. The model knows
the transaction of each request, which the shard does not. It checks:

- only an EndTxn of its own client, a newer producer or its timeout ends a transaction, and it is
  committed only if its client asked for that
- a client that gets a success has the requested result for that transaction
- a client that was not fenced gets only successes or CONCURRENT_TRANSACTIONS
- epochs never decrease, a new producer id was never used, no client gets the last epoch
- from version 2 on, and when fencing, the epoch of the markers is above that of the records
- after every step a replay of the log gives the shard's state
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from local_cluster.records.header import PRODUCER_EPOCH_MAX
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
from local_cluster.transactions.transaction_fsm import IDLE, PREPARED, TransactionState
from local_cluster.wire.errors import ErrorCode

ID = "tx"
TIMEOUT_MS = 1_000
CLIENTS_MAX = 2
STEPS_TO_NEXT_MAX = 8
"""The requests, each at most twice, from any phase to the next transaction."""
ONGOING = TransactionState.ONGOING
Owner = tuple[int, int]
"""(client, number of its transaction)"""


@dataclass
class Client:
    """One producer process with its own view."""

    number: int
    version: int
    connection: int
    producer_id: int = -1
    epoch: int = -1
    phase: str = "new"
    """new, idle, open, ending, or dead"""
    transaction: int = 0
    wants_commit: bool = False
    is_fenced: bool = False
    """Whether it may be refused: another producer or the broker raised the epoch."""
    is_misled: bool = False
    """Whether a late end decided its transaction, which stays possible in version 1 after a reload
    (docs/design/coordinators-late-requests.md)."""

    @property
    def owner(self) -> Owner:
        return self.number, self.transaction


@dataclass
class Sent:
    """A request under way."""

    client: Client
    owner: Owner
    request: InitRequest | AddRequest | EndRequest
    is_late: bool = False


@dataclass
class Open:
    """The open transaction of the shard."""

    owner: Owner
    began_ms: int
    is_stray: bool = False
    """Begun by a late AddPartitionsToTxn of version 1, after the end of its transaction."""
    is_guarded: bool = True
    """Whether the shard knows the connections; after a reload it does not."""


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = TransactionShard(TransactionLimits())
        self.log: list[tuple[bytes, bytes | None]] = []
        self.decided: list[Transaction] = []
        self.clients: list[Client] = []
        self.stalled: list[Sent] = []
        self.open: Open | None = None
        self.outcomes: dict[Owner, bool] = {}
        self.producer_ids: set[int] = set()
        self.connections = 0
        self.now_ms = 0

    # -- state ------------------------------------------------------------------------------

    @initialize(epoch=st.sampled_from([None, 3, EPOCH_EXHAUSTED - 3, EPOCH_EXHAUSTED - 1]))
    def begin(self, epoch: int | None) -> None:
        """Start with a new transactional id, or with one that has used some of its epochs."""
        if epoch is not None:
            known = Transaction(
                transactional_id=ID, producer_id=0, producer_epoch=epoch, timeout_ms=TIMEOUT_MS
            )
            self.log.append((encode_key(ID), encode_value(known)))
            self.producer_ids.add(0)
            self.replay()

    @property
    def known(self) -> Transaction | None:
        return self.shard.transactions.get(ID)

    def alive(self) -> list[Client]:
        return [client for client in self.clients if client.phase != "dead"]

    def new_connection(self) -> int:
        self.connections += 1
        return self.connections

    def replay(self) -> list[Transaction]:
        self.shard = TransactionShard(TransactionLimits())
        for key, value in self.log:
            self.shard.replay(key, value)
        for client in self.clients:
            # The last epoch is not in the log, so the shard cannot recognize a repetition.
            client.is_fenced |= client.phase == "new" and client.producer_id >= 0
        return [item for item in self.shard.transactions.values() if item.state in PREPARED]

    def take(self, outcome: TransactionOutcome) -> Any:
        self.log += outcome.records
        self.decided += outcome.decided
        return outcome.response

    def deliver(self, sent: Sent) -> Any:
        """Deliver a request to the shard and return the response."""
        response = self._deliver(sent, sent.request)
        if isinstance(response, ProducerResponse) and response.needs_producer_id:
            assert not isinstance(sent.request, AddRequest)
            fresh = max(self.producer_ids, default=-1) + 1
            response = self._deliver(sent, sent.request._replace(new_producer_id=fresh))
        return response

    def _deliver(self, sent: Sent, request: InitRequest | AddRequest | EndRequest) -> Any:
        before = self.known
        if isinstance(request, InitRequest):
            response = self.take(self.shard.init_producer_id(request, self.now_ms))
        elif isinstance(request, AddRequest):
            response = self.take(self.shard.add_partitions(request, self.now_ms))
        else:
            response = self.take(self.shard.end(request, self.now_ms))
        self.observe(before, sent)
        return response

    # -- checks -----------------------------------------------------------------------------

    def observe(self, before: Transaction | None, sent: Sent | None) -> None:
        """Check that the request (None: timeout or markers) may cause the step from `before`."""
        after = self.known
        if after is None or after is before:
            return
        request = None if sent is None else sent.request
        if before is not None:
            self.check_epochs(before, after)
        self.producer_ids.add(after.producer_id)
        was = TransactionState.EMPTY if before is None else before.state
        if isinstance(request, InitRequest):
            assert sent is not None
            self.fence_others(sent)
        if after.state is ONGOING:
            assert isinstance(request, AddRequest) and sent is not None
            self.observe_add(was, sent)
        elif after.state in PREPARED:
            assert before is not None
            self.observe_decision(before, after, sent)
        elif was in PREPARED:
            assert sent is None, "only markers complete a transaction"
            assert (was is TransactionState.PREPARE_COMMIT) == (
                after.state is TransactionState.COMPLETE_COMMIT
            )
        else:
            assert isinstance(request, InitRequest)

    def check_epochs(self, before: Transaction, after: Transaction) -> None:
        if after.producer_id == before.producer_id:
            assert before.producer_epoch <= after.producer_epoch <= PRODUCER_EPOCH_MAX
        else:
            assert after.producer_epoch == 0
            assert after.producer_id not in self.producer_ids
            assert before.producer_epoch >= EPOCH_EXHAUSTED

    def observe_add(self, was: TransactionState, sent: Sent) -> None:
        assert isinstance(sent.request, AddRequest)
        is_second = sent.request.client_version >= 2
        if was is not ONGOING:
            is_stray = sent.owner in self.outcomes
            assert not (is_stray and is_second), "its epoch has passed"
            self.open = Open(sent.owner, self.now_ms, is_stray)
        elif sent.owner != (opened := self.opened()).owner and not sent.is_late:
            assert opened.is_stray, "two transactions at once"
            self.open = Open(sent.owner, opened.began_ms)
        elif not sent.is_late:
            opened.is_guarded = True

    def observe_decision(self, before: Transaction, after: Transaction, sent: Sent | None) -> None:
        is_commit = after.state is TransactionState.PREPARE_COMMIT
        is_end = sent is not None and isinstance(sent.request, EndRequest)
        if after.client_version >= 2:
            assert after.producer_epoch > before.producer_epoch
        assert after.client_version >= 2 or is_end, "a fenced producer must not have the epoch"
        if before.state in IDLE:
            assert is_end and sent is not None and not is_commit and after.client_version >= 2
            self.outcomes[sent.owner] = False
            return
        opened, self.open = self.opened(), None
        if is_end:
            assert sent is not None and isinstance(sent.request, EndRequest)
            assert sent.request.is_commit == is_commit
            if sent.request.client_version >= 2 or opened.is_guarded:
                assert sent.owner == opened.owner or opened.is_stray, "ended by another's end"
            elif sent.owner != opened.owner:
                self.clients[opened.owner[0]].is_misled = True
        else:
            assert not is_commit
            if sent is None:
                assert self.now_ms >= opened.began_ms + TIMEOUT_MS
                self.fence_others(None)
        if not opened.is_stray:
            assert opened.owner not in self.outcomes
            self.outcomes[opened.owner] = is_commit

    def opened(self) -> Open:
        assert self.open is not None
        return self.open

    def fence_others(self, sent: Sent | None) -> None:
        for client in self.clients:
            # Its own late InitProducerId fences a client too, after the response to the retry.
            if sent is None or client is not sent.client or sent.is_late:
                client.is_fenced = True

    # -- clients ----------------------------------------------------------------------------

    @precondition(lambda self: len(self.alive()) < CLIENTS_MAX)
    @rule(version=st.sampled_from([0, 2]))
    def start_client(self, version: int) -> None:
        self.clients.append(Client(len(self.clients), version, self.new_connection()))

    @precondition(lambda self: self.alive())
    @rule(
        data=st.data(),
        partition=st.sampled_from([("t", 0), ("t", 1), ("u", 0)]),
        ends=st.booleans(),
        commit=st.booleans(),
        fate=st.sampled_from(["received", "received", "lost", "stalled"]),
    )
    def act(
        self, data: Any, partition: tuple[str, int], ends: bool, commit: bool, fate: str
    ) -> None:
        """A client sends its next request, or repeats one without a response."""
        client = data.draw(st.sampled_from(self.alive()))
        sent = self.next_request(client, partition, ends=ends, commit=commit)
        if fate == "stalled":
            self.stalled.append(sent)
        else:
            response = self.deliver(sent)
            if fate == "received":
                self.receive(client, sent, response)
                return
        client.connection = self.new_connection()

    def next_request(
        self, client: Client, partition: tuple[str, int], *, ends: bool, commit: bool
    ) -> Sent:
        names = (client.producer_id, client.epoch)
        if client.phase == "new":
            return Sent(client, client.owner, InitRequest(ID, TIMEOUT_MS, *names))
        if client.phase == "idle":
            client.transaction += 1
            client.phase = "begun"
        if (client.phase == "open" and ends) or (
            client.phase == "begun" and ends and not commit and client.version >= 2
        ):
            client.phase, client.wants_commit = "ending", commit
        if client.phase == "ending":
            request = EndRequest(ID, *names, client.wants_commit, client.version, client.connection)
            return Sent(client, client.owner, request)
        # In version 2 the partition's leader sends them.
        connection = 0 if client.version >= 2 else client.connection
        added = AddRequest(ID, *names, frozenset({partition}), client.version, connection)
        return Sent(client, client.owner, added)

    def receive(self, client: Client, sent: Sent, response: Any) -> None:
        error = response.error if isinstance(response, ProducerResponse) else response
        if error is ErrorCode.concurrent_transactions:
            return
        if error is not ErrorCode.none:
            is_expected = client.is_fenced or client.is_misled
            assert is_expected, f"{sent.request} was refused: {error.name}"
            client.phase = "dead"
            return
        if isinstance(response, ProducerResponse) and (
            isinstance(sent.request, InitRequest) or client.version >= 2
        ):
            assert response.producer_epoch < PRODUCER_EPOCH_MAX
            client.producer_id, client.epoch = response.producer_id, response.producer_epoch
        if isinstance(sent.request, InitRequest):
            client.phase, client.is_fenced, client.is_misled = "idle", False, False
        elif isinstance(sent.request, AddRequest):
            client.phase = "open"
        else:
            assert client.is_misled or self.outcomes[sent.owner] == sent.request.is_commit
            client.phase = "idle"

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), commit=st.booleans())
    def continue_to_the_next_transaction(self, data: Any, commit: bool) -> None:
        """A client gets every response until it has begun another transaction."""
        client = data.draw(st.sampled_from(self.alive()))
        before = client.transaction
        for _ in range(STEPS_TO_NEXT_MAX):
            if client.phase == "dead" or (client.phase == "open" and client.transaction > before):
                return
            while self.decided:
                self.complete(self.decided.pop())
            sent = self.next_request(client, ("t", 0), ends=client.phase == "open", commit=commit)
            self.receive(client, sent, self.deliver(sent))
        raise AssertionError(f"{client} makes no progress")

    @precondition(lambda self: any(client.phase == "idle" for client in self.clients))
    @rule(data=st.data())
    def continue_with_a_new_epoch(self, data: Any) -> None:
        """After an error a producer names its id and epoch (KIP-360)."""
        idle = [client for client in self.clients if client.phase == "idle"]
        data.draw(st.sampled_from(idle)).phase = "new"

    # -- events -----------------------------------------------------------------------------

    @precondition(lambda self: self.stalled)
    @rule(data=st.data(), waited=st.booleans())
    def a_stalled_request_arrives(self, data: Any, waited: bool) -> None:
        """It was on its way, or an addition waited in the broker for markers."""
        sent = self.stalled.pop(data.draw(st.integers(0, len(self.stalled) - 1)))
        if isinstance(sent.request, AddRequest):
            sent = replace(sent, request=sent.request._replace(is_again=waited))
        self.deliver(replace(sent, is_late=True))

    @precondition(lambda self: self.decided)
    @rule(data=st.data(), again=st.booleans())
    def markers_are_written(self, data: Any, again: bool) -> None:
        index = data.draw(st.integers(0, len(self.decided) - 1))
        self.complete(self.decided[index] if again else self.decided.pop(index))

    def complete(self, decided: Transaction) -> None:
        before = self.known
        self.take(self.shard.complete(decided, self.now_ms))
        self.observe(before, None)

    @rule(elapsed_ms=st.sampled_from([1, 10, TIMEOUT_MS // 4, TIMEOUT_MS]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        before = self.known
        self.take(self.shard.expire(self.now_ms))
        self.observe(before, None)

    @rule()
    def the_state_is_loaded_again(self) -> None:
        """Reload after a failed append; connections and markers under way survive it."""
        self.decided += self.replay()
        if self.open is not None:
            self.open.is_guarded = False

    @rule()
    def the_broker_is_killed(self) -> None:
        self.decided = self.replay()
        self.stalled.clear()
        for client in self.clients:
            client.connection = self.new_connection()

    @invariant()
    def the_log_gives_the_state(self) -> None:
        twin = TransactionShard(TransactionLimits())
        for key, value in self.log:
            twin.replay(key, value)
        assert twin.transactions == {
            key: replace(item, last_producer_epoch=-1)
            for key, item in self.shard.transactions.items()
        }


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
