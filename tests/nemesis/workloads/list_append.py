"""Transactions that append to lists and read them, abort at random, die, return as zombies."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import confluent_kafka

from local_cluster.client.model import NewTopic
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.list_append import End, Transaction, check_list_append
from tests.nemesis.workloads.reading import read_all
from tests.nemesis.workloads.transactional import Fenced, TransactionalProducer, Undecided
from tests.nemesis.workloads.workload import LIBRDKAFKA, Worker, Workload, end_all, spread_topic

TOPIC: Final = "list-append"
PARTITIONS: Final = 3
CLIENTS: Final = 3
LIST_LENGTH_MAX: Final = 60
"""Then a partition's next list begins: reads hold whole lists."""
ABORT_SHARE: Final = 0.15
CRASH_SHARE: Final = 0.02
READ_SHARE: Final = 0.4


class ListAppend(Workload):
    """Each partition holds one list after the other; see `checkers/list_append.py`."""

    name: ClassVar = "list-append"
    title: ClassVar = "transactions over lists, searched for cycles"
    must_check: ClassVar = ("committed", "reads", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, PARTITIONS)]

    async def start(self) -> None:
        self._lock = threading.Lock()
        self._next_value = 0
        self._appended: Counter[int] = Counter()
        self._clients = [
            Client(self, f"list-append-{n}", random.Random(self.random.random()))
            for n in range(CLIENTS)
        ]
        for client in self._clients:
            client.start()

    async def stop(self) -> None:
        await end_all(self._clients)

    async def check(self) -> Findings:
        read = await read_all(self.cluster.bootstrap, {TOPIC: PARTITIONS}, committed=True)
        final: dict[str, list[int]] = defaultdict(list)
        for messages in read.values():
            for message in messages:
                final[message.key].append(int(message.value or -1))
        history = [each for client in self._clients for each in client.history]
        return check_list_append(history, final)

    def new_value(self, partition: int) -> tuple[str, int]:
        """The list that a partition is at, and a value that nobody else appends."""
        with self._lock:
            self._next_value += 1
            self._appended[partition] += 1
            return self.list_of(partition), self._next_value

    def list_of(self, partition: int) -> str:
        return f"{partition}.{self._appended[partition] // LIST_LENGTH_MAX}"

    def committed(self) -> None:
        with self._lock:
            self.progress += 1


class Client(Worker):
    """One transactional id, one transaction after the other."""

    def __init__(self, workload: ListAppend, name: str, randomly: random.Random) -> None:
        super().__init__(name)
        self.history: list[Transaction] = []
        self._workload = workload
        self._random = randomly
        self._reader: ListReader | None = None

    def work(self) -> None:
        servers = self._workload.cluster.bootstrap
        self._reader = ListReader(servers, self.name)
        try:
            while not self.stopping.is_set():
                producer = TransactionalProducer(servers, self.name, self.stopping)
                try:
                    producer.open()
                    self._life(producer)
                except Fenced:
                    # By nobody but the cluster: an id belongs to one client.
                    self.pause(0.2)
                except Undecided:
                    return
        finally:
            self._reader.close()

    def _life(self, producer: TransactionalProducer) -> None:
        """Transactions until the end, or a crash that leaves one open."""
        while not self.stopping.is_set():
            appends: dict[str, list[int]] = defaultdict(list)
            reads: dict[str, Sequence[int]] = {}
            end = End.UNKNOWN
            crashes = self._random.random() < CRASH_SHARE
            producer.begin()
            try:
                self._operate(producer, appends, reads)
                # A transaction without a write is none: the client would end it without asking.
                if crashes and appends:
                    # Whoever opens the id next aborts it, and this one must not commit it.
                    end = End.ABORTED
                    self._come_back_as_zombie(producer)
                    return
                if self._random.random() < ABORT_SHARE:
                    producer.abort()
                    end = End.ABORTED
                else:
                    end = End.COMMITTED if producer.commit() else End.ABORTED
            finally:
                self.history.append(Transaction(end, dict(appends), reads))
            if end is End.COMMITTED:
                self._workload.committed()
            self.pause(0.02)

    def _operate(
        self,
        producer: TransactionalProducer,
        appends: dict[str, list[int]],
        reads: dict[str, Sequence[int]],
    ) -> None:
        assert self._reader is not None
        for _ in range(self._random.randint(1, 4)):
            partition = self._random.randrange(PARTITIONS)
            if self._random.random() < READ_SHARE:
                self._reader.poll(0.05)
                key = self._workload.list_of(partition)
                found = self._reader.whole(partition, key)
                if found is not None and key not in reads and key not in appends:
                    reads[key] = found
            else:
                key, value = self._workload.new_value(partition)
                appends[key].append(value)
                producer.producer.produce(TOPIC, key=key, value=str(value), partition=partition)

    def _come_back_as_zombie(self, old: TransactionalProducer) -> None:
        producer = TransactionalProducer(self._workload.cluster.bootstrap, self.name, self.stopping)
        producer.open()
        try:
            old.producer.commit_transaction(5.0)
        except confluent_kafka.KafkaException:
            pass
        else:
            raise RuntimeError(f"a zombie of {self.name} was told that it committed")


class ListReader:
    """Reads committed records of all partitions, and remembers the lists at each end it came to.

    At the end of what is committed a reader has seen all of a transaction in that partition, or
    nothing of it; in between it is only on its way.
    """

    def __init__(self, servers: str, name: str) -> None:
        self._lists: dict[str, list[int]] = defaultdict(list)
        self._known: dict[int, dict[str, int]] = {}
        """Partition -> length of each list at its last end."""
        self._consumer = confluent_kafka.Consumer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": servers,
                "group.id": f"reader-of-{name}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(TOPIC, p, confluent_kafka.OFFSET_BEGINNING)
                for p in range(PARTITIONS)
            ]
        )

    def close(self) -> None:
        self._consumer.close()

    def poll(self, seconds: float) -> None:
        """Take what is there."""
        while (message := self._consumer.poll(seconds)) is not None:
            seconds = 0.0
            error: Any = message.error()
            partition = message.partition() or 0
            if error is None:
                key, value = message.key(), message.value()
                assert key is not None and value is not None
                self._lists[key.decode()].append(int(value))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                mine = f"{partition}."
                self._known[partition] = {
                    key: len(values) for key, values in self._lists.items() if key.startswith(mine)
                }

    def whole(self, partition: int, key: str) -> Sequence[int] | None:
        """The list as it was at the last end; None before the first."""
        known = self._known.get(partition)
        return None if known is None else self._lists[key][: known.get(key, 0)]
