"""Outside clients that work all the time, each on a listener that may change between two runs.

A client retries by itself. What it reports as failed is a failure here.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Final

import aiokafka
import confluent_kafka
from aiokafka.errors import CommitFailedError

from local_cluster.client.auth.security import ClientSecurity
from tests.support.python_clients import aiokafka_options, librdkafka_options
from tests.support.replicas import EVENTUALLY_SECONDS

PAUSE_S: Final = 0.01
"""Time between two records."""

RECORDS_PER_COMMIT: Final = 50


class SteadyProducer:
    """aiokafka, idempotent: numbered records to one partition, one at a time."""

    def __init__(self, topic: str, partition: int) -> None:
        self.acknowledged: list[bytes] = []
        self._topic, self._partition = topic, partition
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, bootstrap: str, security: ClientSecurity) -> None:
        producer = aiokafka.AIOKafkaProducer(
            **aiokafka_options(bootstrap, security), acks="all", enable_idempotence=True
        )
        await producer.start()
        self._stop.clear()
        self._task = asyncio.create_task(self._run(producer))

    async def _run(self, producer: aiokafka.AIOKafkaProducer) -> None:
        try:
            while not self._stop.is_set():
                value = b"%d:%d" % (self._partition, len(self.acknowledged))
                await producer.send_and_wait(self._topic, value, partition=self._partition)
                self.acknowledged.append(value)
                await asyncio.sleep(PAUSE_S)
        finally:
            await producer.stop()

    async def stop(self) -> None:
        """Wait for the record in flight. Raises what the client reported as failed."""
        self._stop.set()
        if self._task is not None:
            task, self._task = self._task, None
            await task

    async def advance(self, count: int = 5) -> None:
        """Wait until `count` more records are acknowledged."""
        assert self._task is not None
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            while len(self.acknowledged) < wanted:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(PAUSE_S)


class SteadyLibrdkafka:
    """librdkafka, idempotent: numbered records to one partition, many in flight."""

    def __init__(self, topic: str, partition: int) -> None:
        self.acknowledged: list[bytes] = []
        self.failures: list[str] = []
        self._topic, self._partition = topic, partition
        self._sent = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, bootstrap: str, security: ClientSecurity) -> None:
        options = {
            **librdkafka_options(bootstrap, security),
            "enable.idempotence": True,
            "linger.ms": 5,
        }
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._run, args=(confluent_kafka.Producer(options),), daemon=True
        )
        self._thread.start()

    def _run(self, producer: confluent_kafka.Producer) -> None:
        while not self._stop.wait(PAUSE_S):
            value = b"%d:%d" % (self._partition, self._sent)
            self._sent += 1
            producer.produce(
                self._topic, value, partition=self._partition, on_delivery=self._delivered
            )
            producer.poll(0)
        left = producer.flush(EVENTUALLY_SECONDS)
        if left:
            self.failures.append(f"{left} records were neither acknowledged nor refused")

    def _delivered(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is None:
            value = message.value()
            assert value is not None
            self.acknowledged.append(value)
        else:
            self.failures.append(str(error))

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    async def stop(self) -> None:
        """Wait for the records in flight."""
        self._stop.set()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await asyncio.to_thread(thread.join)

    async def advance(self, count: int = 5) -> None:
        """Wait until `count` more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            while len(self.acknowledged) < wanted:
                assert not self.failures, self.failures
                await asyncio.sleep(PAUSE_S)


class SteadyConsumer:
    """aiokafka in a group: every record of a topic, by partition and offset.

    It commits by itself. The last commit of aiokafka's own, when it is closed, is tried for ever
    if the coordinator is unknown at that moment, because a consumer that closes looks for none.
    """

    def __init__(self, topic: str, group: str) -> None:
        self.values: dict[tuple[int, int], bytes] = {}
        self._topic, self._group = topic, group
        self._task: asyncio.Task[None] | None = None

    async def start(self, bootstrap: str, security: ClientSecurity) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            self._topic,
            **aiokafka_options(bootstrap, security),
            group_id=self._group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        self._task = asyncio.create_task(self._run(consumer))

    async def _run(self, consumer: aiokafka.AIOKafkaConsumer) -> None:
        try:
            async for record in consumer:
                self.values[record.partition, record.offset] = record.value
                if not len(self.values) % RECORDS_PER_COMMIT:
                    with contextlib.suppress(CommitFailedError):  # the group rebalances: it rejoins
                        await consumer.commit()
        finally:
            await consumer.stop()

    async def stop(self) -> None:
        """Leave the group. Raises what the client reported as failed."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
