"""The book of what outside clients were told; threads of load write it, the checks read it."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from tests.referee.history import Content, Fate, Partition, Written


@dataclass(slots=True)
class _Sent:
    partition: Partition
    generation: int
    content: Content
    transaction: int | None
    is_settled: bool = False
    is_acknowledged: bool = False
    offset: int | None = None


@dataclass(slots=True)
class Ledger:
    """Everything that was sent, by identity, with what became of it."""

    _sent: dict[str, _Sent] = field(default_factory=dict)
    _transactions: dict[int, Fate] = field(default_factory=dict)
    _generations: Counter[tuple[str, str]] = field(default_factory=Counter)
    _unsettled: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records without an outcome yet, by cluster and topic."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(
        self,
        identity: str,
        partition: Partition,
        content: Content,
        transaction: int | None = None,
    ) -> None:
        """Note a record before it is given to a producer."""
        with self._lock:
            assert identity not in self._sent, identity
            topic = partition.cluster, partition.topic
            generation = self._generations[topic]
            self._sent[identity] = _Sent(partition, generation, content, transaction)
            self._unsettled[topic] += 1

    def acknowledge(self, identity: str, offset: int | None) -> None:
        """Note a delivery report; librdkafka may know that a record is written and not where."""
        with self._lock:
            sent = self._settle(identity)
            sent.is_acknowledged = True
            sent.offset = offset if offset is not None and offset >= 0 else None

    def lose_track(self, identity: str) -> None:
        """Note that a producer gave up: the record may be there or not."""
        with self._lock:
            self._settle(identity)

    def take_back(self, identity: str) -> None:
        """Forget a record that the producer did not even take."""
        with self._lock:
            self._settle(identity)
            del self._sent[identity]

    def begin_transaction(self) -> int:
        """A number for a new transaction, whose outcome is unknown until it is told."""
        with self._lock:
            number = len(self._transactions)
            self._transactions[number] = Fate.UNKNOWN
            return number

    def end_transaction(self, number: int, fate: Fate) -> None:
        """Note that a transaction was committed (readable), aborted (never) or neither is known."""
        with self._lock:
            self._transactions[number] = fate

    def unsettled(self, cluster: str, topic: str) -> int:
        """How many records of a topic have no outcome yet."""
        with self._lock:
            return self._unsettled[cluster, topic]

    def begin_generation(self, cluster: str, topic: str) -> None:
        """Note that a topic was deleted and re-created; no record of it may be without outcome."""
        with self._lock:
            assert not self._unsettled[cluster, topic], (cluster, topic)
            self._generations[cluster, topic] += 1

    def generation(self, cluster: str, topic: str) -> int:
        """How often a topic was deleted and re-created."""
        with self._lock:
            return self._generations[cluster, topic]

    def written(self) -> dict[str, Written]:
        """Every record that was sent, by identity, in the order of sending."""
        with self._lock:
            return {identity: self._as_written(identity) for identity in self._sent}

    def fates(self) -> Counter[Fate]:
        """How many transactions were committed, aborted, or have an unknown outcome."""
        with self._lock:
            return Counter(self._transactions.values())

    def _settle(self, identity: str) -> _Sent:
        sent = self._sent[identity]
        if not sent.is_settled:
            sent.is_settled = True
            self._unsettled[sent.partition.cluster, sent.partition.topic] -= 1
        return sent

    def _as_written(self, identity: str) -> Written:
        sent = self._sent[identity]
        fate = Fate.READABLE if sent.is_acknowledged else Fate.UNKNOWN
        if sent.transaction is not None:
            outcome = self._transactions[sent.transaction]
            # An abort settles it; the answer to the record itself does not matter.
            fate = outcome if outcome is not Fate.READABLE else fate
        return Written(identity, sent.partition, sent.generation, sent.content, fate, sent.offset)
