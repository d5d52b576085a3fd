"""What becomes of calls of librdkafka's that fail, or never return."""

from __future__ import annotations

import threading

import confluent_kafka
import pytest

from tests.nemesis.workloads import transactional
from tests.nemesis.workloads.transactional import Fenced, Hung, TransactionalProducer


@pytest.fixture
def producer() -> TransactionalProducer:
    # Nothing listens there, and nothing is sent.
    return TransactionalProducer("127.0.0.1:1", "t", threading.Event())


def test_a_call_that_returns_has_settled(producer: TransactionalProducer) -> None:
    timeouts: list[float] = []
    assert producer.settled(timeouts.append)
    assert timeouts == [transactional.CALL_SECONDS_MAX]


def test_a_call_that_never_returns_is_left_behind(
    producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "HANG_SECONDS", 0.05)
    goes_on = threading.Event()
    with pytest.raises(Hung):
        producer.settled(lambda _: goes_on.wait(60))
    goes_on.set()


def test_what_is_refused_for_good_ends_the_producer(producer: TransactionalProducer) -> None:
    def refused(_: float) -> None:
        raise confluent_kafka.KafkaException(
            confluent_kafka.KafkaError(confluent_kafka.KafkaError._FENCED, "fenced", True)
        )

    with pytest.raises(Fenced, match="fenced") as over:
        producer.settled(refused)
    assert not isinstance(over.value, Hung)
