"""Rows of transactions of one record: send, offsets, commit, by librdkafka."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.bench import Bench
from tests.bench.model import (
    CPU_PER_REQUESTS,
    MEAN_MS,
    P50_MS,
    P99_MS,
    REQUESTS_PER_SECOND,
    Figures,
    Wanted,
    Work,
)
from tests.bench.raw_frames import RECORD_BYTES
from tests.bench.raw_loops import percentile
from tests.bench.systems import System

PRODUCERS: Final = (1, 4)
WARM_UP_TRANSACTIONS: Final = 20
TIMEOUT_SECONDS: Final = 60.0


def works() -> list[Work]:
    """The rows, in the order of the table."""
    return [_transactions(producers) for producers in PRODUCERS]


def _transactions(producers: int) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        each = max(1, bench.scale.transactions // producers)
        async with system.topic(bench.new_name("transactions"), producers) as topic:
            clients = [
                _Client(system.bootstrap, topic, partition, bench.new_name("transactions"))
                for partition in range(producers)
            ]
            await _commit_all(clients, WARM_UP_TRANSACTIONS)
            with system.cost() as cost:
                latencies = await _commit_all(clients, each)
            for client in clients:
                client.close()
        count = each * producers
        return {
            CPU_PER_REQUESTS: cost.per_100k(count),
            REQUESTS_PER_SECOND: count / cost.seconds,
            MEAN_MS: sum(latencies) / len(latencies),
            P50_MS: percentile(latencies, 0.5),
            P99_MS: percentile(latencies, 0.99),
        }

    return Work(
        name=f"transactions-{producers}",
        title=f"Transactions of one record and its offset, {producers} at a time (per transaction)",
        measure=measure,
        wanted={
            CPU_PER_REQUESTS: [Wanted(0.7), Wanted(0.7, "fsync")],
            REQUESTS_PER_SECOND: [Wanted(2.0)],
        },
    )


async def _commit_all(clients: list[_Client], count: int) -> list[float]:
    """The latencies of all transactions in ms; the clients work side by side."""
    done = await asyncio.gather(*(asyncio.to_thread(client.commit, count) for client in clients))
    return [latency for latencies in done for latency in latencies]


class _Client:
    """One transactional producer, and the group whose offsets it commits."""

    def __init__(self, bootstrap: str, topic: str, partition: int, name: str) -> None:
        self._topic, self._partition = topic, partition
        self._value = b"x" * RECORD_BYTES
        self._position = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0}
        )
        self._producer.init_transactions(TIMEOUT_SECONDS)
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})

    def commit(self, count: int) -> list[float]:
        """Commit transactions one after the other; the latency of each in ms."""
        producer, group = self._producer, self._consumer.consumer_group_metadata()
        latencies = []
        for _ in range(count):
            start = time.perf_counter()
            producer.begin_transaction()
            producer.produce(self._topic, self._value, partition=self._partition)
            self._position += 1
            offset = TopicPartition(self._topic, self._partition, self._position)
            producer.send_offsets_to_transaction([offset], group, TIMEOUT_SECONDS)
            producer.commit_transaction(TIMEOUT_SECONDS)
            latencies.append((time.perf_counter() - start) * 1000)
        return latencies

    def close(self) -> None:
        self._consumer.close()
