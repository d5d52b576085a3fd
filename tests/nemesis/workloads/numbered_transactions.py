"""A transactional producer of numbered values, and what became of each; some are aborted."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any, Final

from tests.nemesis.checkers.set_full import Outcome, Write
from tests.nemesis.workloads.transactional import (
    CALL_SECONDS_MAX,
    Fenced,
    TransactionalProducer,
    Undecided,
)
from tests.nemesis.workloads.workload import Worker, offset_told

RECORDS_MAX: Final = 6
"""Of a transaction."""
ABORT_SHARE: Final = 0.25


class NumberedTransactions(Worker):
    """Values "name:number", the number counted up per partition, aborted ones too."""

    def __init__(
        self,
        servers: str,
        name: str,
        topic: str,
        partitions: int,
        randomly: random.Random,
        *,
        per_second: float,
    ) -> None:
        super().__init__(name)
        self.writes: list[Write] = []
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._random = randomly
        self._per_second = per_second
        self._numbers: Counter[int] = Counter()

    def work(self) -> None:
        while True:
            producer = TransactionalProducer(self._servers, self.name, self.stopping)
            try:
                # Also after the end: it aborts what the one before left open.
                producer.open()
                while not self.stopping.is_set():
                    self._transact(producer)
                    self.pause(1 / self._per_second)
            except Fenced:
                self.pause(0.2)
            except Undecided:
                return
            else:
                return

    def _transact(self, producer: TransactionalProducer) -> None:
        tried: list[tuple[int, int]] = []
        offsets: dict[int, int] = {}
        """By place in `tried`."""

        def delivered(place: int, error: Any, message: Any) -> None:
            if error is None:
                offsets[place] = offset_told(message)

        outcome = Outcome.UNKNOWN
        producer.begin()
        try:
            for place in range(self._random.randint(1, RECORDS_MAX)):
                partition = self._random.randrange(self._partitions)
                number = self._numbers[partition]
                self._numbers[partition] += 1
                tried.append((partition, number))
                producer.producer.produce(
                    self._topic,
                    value=f"{self.name}:{number}",
                    partition=partition,
                    on_delivery=partial(delivered, place),
                )
            if self._random.random() < ABORT_SHARE:
                # So that there is something in the log which nobody may see.
                producer.producer.flush(CALL_SECONDS_MAX)
                producer.abort()
                outcome = Outcome.REFUSED
            else:
                outcome = Outcome.ACKNOWLEDGED if producer.commit() else Outcome.REFUSED
        finally:
            is_committed = outcome is Outcome.ACKNOWLEDGED
            self.writes += [
                Write(
                    self.name,
                    number,
                    partition,
                    outcome,
                    offsets.get(place, -1) if is_committed else -1,
                )
                for place, (partition, number) in enumerate(tried)
            ]
