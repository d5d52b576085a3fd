"""Outside producers of transactions: committed, aborted, left open for a while, abandoned."""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any, Final

import confluent_kafka

from tests.referee.clients import END_SECONDS_MAX, Client
from tests.referee.history import Fate
from tests.referee.ledger import Ledger
from tests.referee.modes import State
from tests.referee.writers import Outbox, burst_size, producer_settings

TRANSACTION_MS_MAX: Final = 30_000
"""After that the coordinator aborts what nobody ends."""
ANSWER_SECONDS_MAX: Final = 20.0
ATTEMPTS_MAX: Final = 4
"""Requests to end a transaction; then its outcome is unknown."""
TRANSACTION_RECORDS_MAX: Final = 60


class TransactionalWriter(Client):
    """Writes transactions, of which some are aborted, some are left open for a while, and some are
    abandoned."""

    def __init__(
        self,
        ledger: Ledger,
        cluster: str,
        bootstrap: str,
        state: State,
        partitions: int,
        codec: str,
        seed: str,
        prefix: str = "",
    ) -> None:
        super().__init__(f"transactions-{cluster}-{seed}")
        self._ledger = ledger
        self._state = state
        self._partitions = partitions
        self._settings = {
            **producer_settings(bootstrap, codec, 5, TRANSACTION_MS_MAX),
            "transactional.id": f"referee-{seed}",
            "transaction.timeout.ms": TRANSACTION_MS_MAX,
        }
        self._random = random.Random(seed)
        self._outbox = Outbox(ledger, cluster, f"t{seed}", self._random, prefix)

    def work(self) -> None:
        producer: Any = None
        while not self.stopping.is_set():
            producer = producer or self._new_producer()
            if producer is None:
                self.pause(0.5)
            elif not self._transact(producer):
                _give_up(producer)
                producer = None
            self.pause(self._random.expovariate(8.0))
        # The next producer with the id ends the transaction that was abandoned last.
        deadline = time.monotonic() + END_SECONDS_MAX / 2
        while self._new_producer() is None:
            if time.monotonic() > deadline:
                raise RuntimeError("the transactional id could not be taken again in the end")
            time.sleep(0.5)

    def _new_producer(self) -> Any:
        """A producer that has the id; None where the cluster does not answer."""
        producer = confluent_kafka.Producer(self._settings)
        try:
            producer.init_transactions(ANSWER_SECONDS_MAX)
        except confluent_kafka.KafkaException:
            return None
        return producer

    def _transact(self, producer: Any) -> bool:
        """One transaction; False where the producer cannot be used any more."""
        number = self._ledger.begin_transaction()
        try:
            producer.begin_transaction()
            self._fill(producer, number)
        except (BufferError, confluent_kafka.KafkaException):
            # Nobody ever asks to commit it.
            self._ledger.end_transaction(number, Fate.NEVER)
            return False
        ending = self._random.random()
        if ending < 0.3:
            self._ledger.end_transaction(number, Fate.NEVER)
            # librdkafka 2.16 may end the process where it aborts, or is let go of, before all
            # partitions were added: "Assertion `rk->rk_eos.txn_req_cnt > 0' failed".
            is_settled = producer.flush(ANSWER_SECONDS_MAX) == 0
            is_abandoned = ending < 0.05
            return is_settled and not is_abandoned and self._ask(producer.abort_transaction) is None
        error = self._ask(producer.commit_transaction)
        if error is None:
            self._ledger.end_transaction(number, Fate.READABLE)
            return True
        if error.txn_requires_abort() and self._ask(producer.abort_transaction) is None:
            self._ledger.end_transaction(number, Fate.NEVER)
            return True
        return False  # the outcome stays unknown

    def _fill(self, producer: Any, number: int) -> None:
        for _ in range(self._random.randint(1, 4)):
            partition = self._random.randrange(self._partitions)
            for _ in range(min(burst_size(self._random), TRANSACTION_RECORDS_MAX)):
                self._outbox.produce(producer, "transaction", self._state, partition, number)
            producer.poll(0)
            if self._random.random() < 0.1:
                self.pause(self._random.uniform(0.2, 2.0))

    def _ask(self, end: Any) -> Any:
        """Have a transaction ended; the error of the last attempt, None where it worked."""
        error: Any = None
        for _ in range(ATTEMPTS_MAX):
            try:
                end(ANSWER_SECONDS_MAX)
            except confluent_kafka.KafkaException as failed:
                error = failed.args[0]
                if not error.retriable():
                    return error
            else:
                return None
        return error


def _give_up(producer: Any) -> None:
    """Settle what a producer has left; one that is not usable any more may raise."""
    with contextlib.suppress(confluent_kafka.KafkaException):
        producer.purge()
        producer.poll(0.1)
