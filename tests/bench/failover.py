"""A producer that notes its longest wait between two acknowledgements (librdkafka)."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

RECORDS_PER_SECOND: Final = 200
ANSWERED_AGAIN_SECONDS: Final = 2.0
"""How long records have to be acknowledged again before the gap counts as over."""
DELIVERY_MS_MAX: Final = 90_000


class LongestGap:
    """Paced, idempotent, acks=all, one partition; `run` blocks until `stop`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": DELIVERY_MS_MAX,
            }
        )
        self._stopping = threading.Event()
        self._answered: list[float] = []
        self._refused: list[str] = []

    @property
    def longest_gap_ms(self) -> float:
        """Raises RuntimeError where a record was not acknowledged in the end."""
        if self._refused:
            raise RuntimeError(f"{len(self._refused)} records refused: {self._refused[0]}")
        pairs = zip(self._answered, self._answered[1:], strict=False)
        return max(after - before for before, after in pairs) * 1000

    def run(self) -> None:
        """Produce until `stop`, then wait for what is in flight."""
        number = 0
        start = time.monotonic()
        while not self._stopping.is_set():
            self._producer.produce(
                self._topic, b"%d" % number, partition=0, on_delivery=self._delivered
            )
            number += 1
            self._producer.poll(max(0.0, start + number / RECORDS_PER_SECOND - time.monotonic()))
        self._producer.flush(DELIVERY_MS_MAX / 1000)

    def wait_until_answered_again(self) -> None:
        """Returns once records that were sent from now on have been acknowledged for a while."""
        called = time.monotonic()
        while not self._stopping.is_set():
            recent = self._answered[-1] if self._answered else 0.0
            if recent > called + ANSWERED_AGAIN_SECONDS:
                return
            time.sleep(0.05)

    def stop(self) -> None:
        self._stopping.set()

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._refused.append(str(error))
        else:
            self._answered.append(time.monotonic())
