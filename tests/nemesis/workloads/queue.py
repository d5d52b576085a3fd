"""Unique values by librdkafka; consumers that seek, share a group, leave and come back."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import confluent_kafka

from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.constants import LATEST_TIMESTAMP
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.queue import Polled, Sent, check_queue
from tests.nemesis.checkers.resent import check_log, superseded
from tests.nemesis.checkers.set_full import Outcome
from tests.nemesis.cluster import until
from tests.nemesis.workloads.reading import read_all, read_written
from tests.nemesis.workloads.workload import (
    DELIVERY_MS_MAX,
    LIBRDKAFKA,
    SESSION_MS,
    Worker,
    Workload,
    end_all,
    offset_told,
    room,
    spread_topic,
)

TOPIC: Final = "queue"
GROUP: Final = "queue-readers"
PARTITIONS: Final = 4
PRODUCERS: Final = 2
MEMBERS: Final = 2
RECORDS_PER_SECOND: Final = 40
"""Of each producer."""


class Queue(Workload):
    """Random commits, rejoins, seeks; see `checkers/queue.py` and `checkers/resent.py`."""

    name: ClassVar = "queue"
    title: ClassVar = "unique values; consumers that seek, commit, leave and rejoin"
    must_check: ClassVar = ("sent", "polled", "group-polled", "sequences", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, PARTITIONS)]

    async def start(self) -> None:
        bootstrap = self.cluster.bootstrap
        self._producers = [
            Producer(self, f"p{n}", random.Random(self.random.random())) for n in range(PRODUCERS)
        ]
        self._members = [
            Member(bootstrap, f"member-{n}", random.Random(self.random.random()))
            for n in range(MEMBERS)
        ]
        self._seeker = Seeker(bootstrap, "seeker", random.Random(self.random.random()))
        for worker in self._workers:
            worker.start()

    @property
    def _workers(self) -> list[Worker]:
        return [*self._producers, *self._members, self._seeker]

    async def stop(self) -> None:
        """Once the group has read everything, or should have: then the checker says so."""
        await end_all(self._producers)
        with contextlib.suppress(TimeoutError):
            await until(self._group_is_at_the_ends, "the group reads everything")
        await end_all([*self._members, self._seeker])

    async def _group_is_at_the_ends(self) -> bool:
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        async with self.cluster.client() as client:
            ends = await client.list_offsets(dict.fromkeys(places, LATEST_TIMESTAMP))
        return all(
            not ends[at].error
            and ends[at].offset <= max(member.behind[at.partition] for member in self._members)
            for at in places
        )

    async def check(self) -> Findings:
        sent = [each for producer in self._producers for each in producer.sent]
        polled = [each for member in self._members for each in member.polled]
        polled += self._seeker.polled
        read = await read_all(self.cluster.bootstrap, {TOPIC: PARTITIONS})
        polled += [
            Polled("last", partition, message.offset, message.value or "", 0)
            for (_, partition), messages in read.items()
            for message in messages
        ]
        log = await read_written(self.cluster, TOPIC, PARTITIONS)
        again = superseded(log)
        group = [member.name for member in self._members]
        findings = check_queue(sent, polled, [group], again)
        findings.merge(check_log(log))
        return findings


class Producer(Worker):
    """Idempotent, acks=all, paced."""

    def __init__(self, workload: Queue, name: str, randomly: random.Random) -> None:
        super().__init__(name)
        self.sent: list[Sent] = []
        self._workload = workload
        self._random = randomly
        self._number = 0

    def work(self) -> None:
        producer = confluent_kafka.Producer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self._workload.cluster.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": DELIVERY_MS_MAX,
                "linger.ms": 20,
            }
        )
        while not self.stopping.is_set():
            partition = self._random.randrange(PARTITIONS)
            value = f"{self.name}-{self._number}"
            self._number += 1
            producer.produce(TOPIC, value, partition=partition, on_delivery=self._delivered)
            producer.poll(0)
            self.pause(1 / RECORDS_PER_SECOND)
            while not room(producer, while_idle=False) and not self.stopping.is_set():
                producer.poll(0.1)
        producer.flush(DELIVERY_MS_MAX / 1000)
        assert len(producer) == 0, "every record has an outcome within its timeout"

    def _delivered(self, error: Any, message: Any) -> None:
        outcome = Outcome.ACKNOWLEDGED if error is None else Outcome.UNKNOWN
        offset = offset_told(message) if error is None else -1
        value = message.value().decode()
        self.sent.append(Sent(self.name, value, message.partition(), outcome, offset))
        self._workload.progress += error is None


class Consumer(Worker):
    """What members and seekers share: polls are noted with the life of their position."""

    def __init__(self, bootstrap: str, name: str, randomly: random.Random) -> None:
        super().__init__(name)
        self.polled: list[Polled] = []
        self.behind = [0] * PARTITIONS
        """By partition the offset behind the greatest that was polled."""
        self.random = randomly
        self.life = 0
        self._servers = bootstrap

    def new_life(self, *_: object) -> None:
        self.life += 1

    def open(self, group: str) -> Any:
        self.new_life()
        return confluent_kafka.Consumer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self._servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "partition.assignment.strategy": "range",
            }
        )

    def poll(self, consumer: Any) -> None:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            value = message.value().decode()
            partition, offset = message.partition(), message.offset()
            self.polled.append(Polled(self.name, partition, offset, value, self.life))
            self.behind[partition] = max(self.behind[partition], offset + 1)


class Member(Consumer):
    """Subscribes, commits now and then, leaves and comes back."""

    def work(self) -> None:
        while not self.stopping.is_set():
            consumer = self.open(GROUP)
            consumer.subscribe([TOPIC], on_assign=self.new_life, on_revoke=self.new_life)
            try:
                while not self.stopping.is_set() and self.random.random() > 0.001:
                    self.poll(consumer)
                    if self.random.random() < 0.02:
                        self._commit(consumer)
                self._commit(consumer)
            finally:
                consumer.close()

    def _commit(self, consumer: Any) -> None:
        try:
            consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException:
            # Nothing to commit, a rebalance, or no answer: it reads again from the last commit.
            self.pause(0.05)


class Seeker(Consumer):
    """Assigns all partitions from random places, again and again."""

    def work(self) -> None:
        consumer = self.open("queue-seeker")
        try:
            while not self.stopping.is_set():
                self.new_life()
                consumer.assign([
                    confluent_kafka.TopicPartition(
                        TOPIC, p, self.random.randint(0, max(self.behind[p] - 1, 0))
                    )
                    for p in range(PARTITIONS)
                ])  # fmt: skip
                for _ in range(self.random.randrange(20, 200)):
                    if self.stopping.is_set():
                        break
                    self.poll(consumer)
        finally:
            consumer.close()
