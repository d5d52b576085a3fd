"""A transactional producer of librdkafka's that survives faults, for several workloads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import confluent_kafka

from tests.nemesis.workloads.workload import LIBRDKAFKA

CALL_SECONDS_MAX: Final = 15.0
HANG_SECONDS: Final = 20.0
"""A call that is still not back then is not coming back."""
SETTLE_SECONDS_MAX: Final = 90.0
"""After the end, how long a transaction may take to be decided."""
TRANSACTION_MS_MAX: Final = 30_000
"""What a client that is gone leaves open is aborted after this."""


class Fenced(Exception):
    """This producer has ended for good; continue with a new one."""


class Hung(Fenced):
    """A call does not return. librdkafka's send_offsets_to_transaction waits for ever, past its
    timeout, for a group coordinator that Metadata once did not name (confluentinc/librdkafka#5511,
    #5456)."""


class Undecided(Exception):
    """The end came before an answer."""


class TransactionalProducer:
    """Repeats what may be repeated. Every call raises Fenced or Undecided."""

    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        stopping: threading.Event,
        *,
        transaction_ms: int = TRANSACTION_MS_MAX,
    ) -> None:
        self._stopping = stopping
        self._stopped_at: float | None = None
        self.producer = confluent_kafka.Producer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": transaction_ms,
                "message.timeout.ms": transaction_ms,
                "linger.ms": 0,
            }
        )

    def open(self) -> None:
        """Fence earlier producers of the same id and abort what they left open."""
        assert self.settled(self.producer.init_transactions), "nothing can ask for an abort"

    def begin(self) -> None:
        self.producer.begin_transaction()

    def commit(self) -> bool:
        """Whether it was committed; false where it had to be aborted."""
        return self.settled(self.producer.commit_transaction) or not self.abort()

    def abort(self) -> bool:
        """True when it is aborted."""
        return self.settled(self.producer.abort_transaction)

    def settled(self, call: Callable[[float], Any]) -> bool:
        """Whether the call succeeded; false where the transaction is to be aborted instead."""
        while True:
            try:
                self._returned(call)
            except confluent_kafka.KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    return False
                if error.fatal() or not error.retriable():
                    raise Fenced(str(error)) from None
                self._check_time()
            else:
                return True

    def _returned(self, call: Callable[[float], Any]) -> None:
        """In a thread of its own, which stays behind with the producer where it raises Hung."""
        outcome: Future[Any] = Future()

        def run() -> None:
            try:
                outcome.set_result(call(CALL_SECONDS_MAX))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                outcome.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            outcome.result(HANG_SECONDS)
        except TimeoutError:
            raise Hung from None

    def _check_time(self) -> None:
        if not self._stopping.is_set():
            return
        now = time.monotonic()
        self._stopped_at = self._stopped_at or now
        if now > self._stopped_at + SETTLE_SECONDS_MAX:
            raise Undecided
