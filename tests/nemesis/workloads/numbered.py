"""A paced, idempotent producer of librdkafka's: numbered values, and what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import confluent_kafka

from tests.nemesis.checkers.set_full import Outcome, Write
from tests.nemesis.workloads.workload import (
    DELIVERY_MS_MAX,
    LIBRDKAFKA,
    LINGER_MS,
    Worker,
    offset_told,
)

IN_FLIGHT_MAX: Final = 200


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
        config: Mapping[str, Any] | None = None,
        padding: int = 0,
        on_acknowledged: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name)
        self.writes: list[Write] = []
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._per_second = per_second
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
                "linger.ms": LINGER_MS,
                # With more it may write records twice (checkers/resent.py), and who only needs
                # a producer would have to tell those from its own.
                "max.in.flight": 1,
                **self._config,
            }
        )
        numbers: Counter[int] = Counter()
        turn = 0
        while not self.stopping.is_set():
            partition = turn % self._partitions
            turn += 1
            number = numbers[partition]
            numbers[partition] += 1
            producer.produce(
                self._topic,
                value=f"{self.name}:{number}",
                partition=partition,
                headers={"padding": self._padding} if self._padding else None,
                on_delivery=self._noting(partition, number),
            )
            producer.poll(0)
            self.pause(1 / self._per_second)
            while len(producer) > IN_FLIGHT_MAX and not self.stopping.is_set():
                producer.poll(0.1)
        producer.flush(DELIVERY_MS_MAX / 1000)
        assert len(producer) == 0, "every record has an outcome within its timeout"

    def _noting(self, partition: int, number: int) -> Callable[[Any, Any], None]:
        def delivered(error: Any, message: Any) -> None:
            outcome = Outcome.ACKNOWLEDGED if error is None else Outcome.UNKNOWN
            offset = offset_told(message) if error is None else -1
            timestamp_ms = message.timestamp()[1] if error is None else -1
            self.writes.append(Write(self.name, number, partition, outcome, offset, timestamp_ms))
            if error is None:
                self._on_acknowledged()

        return delivered
