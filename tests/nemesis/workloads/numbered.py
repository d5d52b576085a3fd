"""A paced, idempotent producer of librdkafka's: numbered values, and what became of each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka

from tests.nemesis.checkers.set_full import Outcome, Write
from tests.nemesis.workloads.workload import DELIVERY_MS_MAX, LIBRDKAFKA, Worker, offset_told


class NumberedProducer(Worker):
    """Values "name:number", the number counted up per partition; keys where `key_of` is given."""

    def __init__(
        self,
        servers: str,
        name: str,
        topic: str,
        partitions: int,
        *,
        per_second: float,
        requests_in_flight_max: int = 1,
        config: Mapping[str, Any] | None = None,
        padding: int = 0,
        on_acknowledged: Callable[[], None] = lambda: None,
    ) -> None:
        """With more than one request in flight it may write records twice (checkers/resent.py): who
        only needs a producer would have to tell those from its own."""
        super().__init__(name)
        self.writes: list[Write] = []
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._per_second = per_second
        self._requests_in_flight_max = requests_in_flight_max
        self._config = dict(config or {})
        self._padding = b"." * padding
        self._on_acknowledged = on_acknowledged

    def work(self) -> None:
        producer = confluent_kafka.Producer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "message.timeout.ms": DELIVERY_MS_MAX,
                "linger.ms": 5,
                "max.in.flight": self._requests_in_flight_max,
                **self._config,
            }
        )
        numbers: Counter[int] = Counter()
        turns = itertools.count()

        def produce() -> None:
            partition = next(turns) % self._partitions
            number = numbers[partition]
            numbers[partition] += 1
            producer.produce(
                self._topic,
                value=f"{self.name}:{number}",
                partition=partition,
                headers={"padding": self._padding} if self._padding else None,
                on_delivery=self._noting(partition, number),
            )

        self.produce_paced(
            producer, self._per_second, produce, while_idle=self._requests_in_flight_max == 1
        )

    def _noting(self, partition: int, number: int) -> Callable[[Any, Any], None]:
        def delivered(error: Any, message: Any) -> None:
            outcome = Outcome.ACKNOWLEDGED if error is None else Outcome.UNKNOWN
            offset = offset_told(message) if error is None else -1
            timestamp_ms = message.timestamp()[1] if error is None else -1
            self.writes.append(Write(self.name, number, partition, outcome, offset, timestamp_ms))
            if error is None:
                self._on_acknowledged()

        return delivered
