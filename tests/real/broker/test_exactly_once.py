"""kill -9 in a loop under idempotent and transactional producers of both transaction versions.

    source <- idempotent producer (librdkafka), which records what was acknowledged
    source -> consume, transform, produce in transactions, with their offsets ->
              `java` (Kafka's TransactionalMessageCopier, version 2) and
              `librdkafka` (confluent-kafka, version 1), both aborting at random

At the end the source holds every acknowledged record once. Each copy, read committed, equals the
source: no record is missing, none is duplicated, none of an aborted transaction is visible.
Meanwhile the groups' committed offsets never decrease, and no call of librdkafka waits far beyond
its timeout.

librdkafka's transactional producer runs with `metadata.recovery.strategy` = `none`. By default
librdkafka (2.16.0) rebootstraps when every known broker is down, and drops its connection to the
group's coordinator for good. It still uses that coordinator: the next
`send_offsets_to_transaction` waits for that connection without limit, past its timeout, and sends
no TxnOffsetCommit (confluentinc/librdkafka issues 5511 and 5456, both open). One broker of Apache
Kafka 4.3.0 shows the same: commit offsets in a transaction, kill -9 the broker, start it some
seconds later, commit offsets again. With `none` both cases continue.

`make exactly-once` runs it for longer (60 kills, or as KILLS says).
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.java_process import JavaProcess
from tests.support.kafka_from_maven import broker_jars

pytestmark = pytest.mark.real

KILLS = int(os.environ.get("EXACTLY_ONCE_KILLS", "3"))
SECONDS_BETWEEN_KILLS = (1.0, 3.0)
SETTLE_SECONDS = 180.0
WAIT_SECONDS = 30.0
STUCK_SECONDS = 3 * WAIT_SECONDS
"""At most two calls, each with a timeout of WAIT_SECONDS, lie between two steps of a copier."""
PARTITIONS = 2
SOURCE = "source"
COPIES = ("java", "librdkafka")
RECORDS_PER_SECOND = 200
TRANSACTION_RECORDS = 50
QUIET = {"log_level": 0}
"""librdkafka would log every connection that a kill ends."""
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"


class Source:
    """An idempotent producer in a thread: a number per record, with its result."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[str] = []
        self.sent = 0
        self._producer = confluent_kafka.Producer(
            {
                **QUIET,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 300_000,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            value = f"{self.sent}"
            self._producer.produce(
                SOURCE, value=value, partition=self.sent % PARTITIONS, on_delivery=self._delivered
            )
            self.sent += 1
            self._producer.poll(1 / RECORDS_PER_SECOND)
        assert self._producer.flush(SETTLE_SECONDS) == 0, "records are neither there nor refused"

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append(message.value().decode())


class Copier:
    """consume, transform, produce with librdkafka in a thread; a new producer after an error."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.aborted = self.restarted = 0
        self.moved_at = time.monotonic()
        self._bootstrap = bootstrap
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copier", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; return also if it is stuck."""
        self._stop.set()
        self._thread.join(STUCK_SECONDS)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_stuck(self) -> bool:
        """Return whether a call waits far beyond its timeout."""
        return time.monotonic() - self.moved_at > STUCK_SECONDS

    def _run(self) -> None:
        while not self._stop.is_set():
            self.moved_at = time.monotonic()
            try:
                self._copy()
            except confluent_kafka.KafkaException:
                self.restarted += 1
                self._stop.wait(0.2)

    def _copy(self) -> None:
        producer = confluent_kafka.Producer(
            {
                **QUIET,
                "bootstrap.servers": self._bootstrap,
                "transactional.id": "librdkafka",
                "metadata.recovery.strategy": "none",
                "linger.ms": 0,
            }
        )
        producer.init_transactions(WAIT_SECONDS)
        consumer = confluent_kafka.Consumer(
            {
                **QUIET,
                "bootstrap.servers": self._bootstrap,
                "group.id": "librdkafka",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        partitions = [confluent_kafka.TopicPartition(SOURCE, p) for p in range(PARTITIONS)]
        try:
            while not self._stop.is_set():
                # Resume at the committed offsets, as after every abort.
                found = consumer.committed(partitions, WAIT_SECONDS)
                for at in found:
                    at.offset = max(at.offset, 0)
                consumer.assign(found)
                while not self._stop.is_set():
                    self.moved_at = time.monotonic()
                    messages = consumer.consume(TRANSACTION_RECORDS, 0.2)
                    messages = [message for message in messages if message.error() is None]
                    if messages and not self._transaction(producer, consumer, messages):
                        break
        finally:
            consumer.close()

    def _transaction(self, producer: Any, consumer: Any, messages: list[Any]) -> bool:
        """Run one transaction and return whether it was committed."""
        producer.begin_transaction()
        for message in messages:
            producer.produce("librdkafka", value=message.value(), partition=message.partition())
        positions = {message.partition(): message.offset() + 1 for message in messages}
        producer.send_offsets_to_transaction(
            [confluent_kafka.TopicPartition(SOURCE, p, at) for p, at in positions.items()],
            consumer.consumer_group_metadata(),
            WAIT_SECONDS,
        )
        if self._random.random() < 0.3:
            producer.abort_transaction(WAIT_SECONDS)
            self.aborted += 1
            return False
        producer.commit_transaction(WAIT_SECONDS)
        return True


def java_copier(broker: BrokerProcess, partition: int, directory: Path) -> JavaProcess:
    """Start a copier. It ends when it has copied the records present at its start, or fails."""
    copier = JavaProcess(
        COPIER,
        (
            *("--broker-list", broker.bootstrap, "--input-topic", SOURCE),
            *("--input-partition", str(partition), "--output-topic", "java"),
            *("--consumer-group", "java", "--transactional-id", f"java-{partition}"),
            *("--transaction-size", str(TRANSACTION_RECORDS), "--enable-random-aborts"),
            "--use-group-metadata",
        ),
        directory / f"copier-{partition}.log",
    )
    copier.start()
    return copier


class JavaCopiers:
    """One Java copier per partition, restarted when it has ended."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self._broker = broker
        self._directory = directory
        self.running: dict[int, JavaProcess] = {}
        self.runs = 0

    def keep_running(self) -> None:
        for partition in range(PARTITIONS):
            known = self.running.get(partition)
            if known is None or (known.process is not None and known.process.poll() is not None):
                self.running[partition] = java_copier(self._broker, partition, self._directory)
                self.runs += 1

    def text(self) -> str:
        return "".join(process.text()[-3000:] for process in self.running.values())

    async def kill(self) -> None:
        for process in self.running.values():
            await process.kill()


class Positions:
    """Watches the committed offsets of the copiers' groups."""

    def __init__(self) -> None:
        self.latest: dict[tuple[str, int], int] = {}

    async def look(self, client: KafkaClient) -> None:
        for group in COPIES:
            fields = {
                "group_id": group,
                "topics": [{"name": SOURCE, "partition_indexes": tuple(range(PARTITIONS))}],
                "require_stable": True,
            }
            try:
                response = await client.call_coordinator(group, ApiKey.OFFSET_FETCH, fields)
            except KafkaError:
                continue  # the broker is down
            for entry in response.topics[0].partitions:
                if entry.error_code is ErrorCode.none:
                    key = group, entry.partition_index
                    before = self.latest.get(key, -1)
                    assert entry.committed_offset >= before, f"{key} went back"
                    self.latest[key] = entry.committed_offset


def read_committed(bootstrap: str, topic: str) -> Counter[str]:
    """Count each value up to the last stable offset."""
    consumer = confluent_kafka.Consumer(
        {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    partitions = [confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)]
    consumer.assign(partitions)
    values: Counter[str] = Counter()
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None, "the consumer hangs"
        error, value, partition = message.error(), message.value(), message.partition()
        if error is None:
            assert value is not None
            values[value.decode()] += 1
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            assert partition is not None
            ended.add(partition)
    consumer.close()
    return values


@pytest.mark.timeout(2 * SETTLE_SECONDS + KILLS * 30)
async def test_exactly_once_over_kill_9(zookeeper: str, tmp_path: Path) -> None:
    broker_jars()
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    randomly = random.Random(seed)
    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    async with running_broker(zookeeper, tmp_path, config=config) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics(
                [NewTopic(name=topic, partitions=PARTITIONS) for topic in (SOURCE, *COPIES)]
            )
        source, copier = Source(broker.bootstrap), Copier(broker.bootstrap, seed)
        java, positions = JavaCopiers(broker, tmp_path), Positions()
        client = KafkaClient(broker.bootstrap, request_timeout_ms=3_000)
        try:
            loop = asyncio.get_running_loop()
            for _ in range(KILLS):
                until = loop.time() + randomly.uniform(*SECONDS_BETWEEN_KILLS)
                while loop.time() < until:
                    java.keep_running()
                    await positions.look(client)
                    await asyncio.sleep(0.05)
                await broker.kill()
                await broker.start()
            await asyncio.to_thread(source.stop)
            expected = await asyncio.to_thread(read_committed, broker.bootstrap, SOURCE)
            assert set(source.acknowledged) <= expected.keys(), "acknowledged and lost"
            assert set(expected.values()) == {1}, "written twice"
            copies: dict[str, Counter[str]] = {}
            async with asyncio.timeout(SETTLE_SECONDS):
                while any(copies.get(topic) != expected for topic in COPIES):
                    java.keep_running()
                    assert not copier.is_stuck, "a call of librdkafka's hangs"
                    for topic in COPIES:
                        await positions.look(client)
                        found = await asyncio.to_thread(read_committed, broker.bootstrap, topic)
                        assert found <= expected, f"{topic}: {(found - expected).most_common(3)}"
                        copies[topic] = found
                    await asyncio.sleep(0.2)
        except (AssertionError, TimeoutError) as error:
            error.add_note(f"Java's copiers:\n{java.text()}\nbroker:\n{broker.log_text()[-4000:]}")
            raise
        finally:
            await asyncio.to_thread(source.stop)
            await asyncio.to_thread(copier.stop)
            await java.kill()
            await client.close()
        assert not copier.is_running, "a call of librdkafka's hangs"
        print(
            f"{len(expected)} records, {KILLS} kills, {java.runs} runs of Java's copiers, "
            f"{copier.restarted} new producers and {copier.aborted} aborts of librdkafka's"
        )
        assert len(expected) > TRANSACTION_RECORDS
