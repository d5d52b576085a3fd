"""Three groups in a chain: consume, transform, produce in transactions; members come and go."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import confluent_kafka

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis.checkers.copies import check_copy, check_positions
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.ownership import Partition, check_ownership, owned
from tests.nemesis.checkers.set_full import check_set
from tests.nemesis.workloads.numbered import NumberedProducer
from tests.nemesis.workloads.reading import read_all
from tests.nemesis.workloads.set_full import found_numbers
from tests.nemesis.workloads.transactional import (
    CALL_SECONDS_MAX,
    Fenced,
    Hung,
    TransactionalProducer,
    Undecided,
)
from tests.nemesis.workloads.workload import (
    LIBRDKAFKA,
    SESSION_MS,
    Worker,
    Workload,
    end_all,
    end_watcher,
    spread_topic,
)

SOURCE: Final = "etl-0"
STRATEGIES: Final = ("range", "cooperative-sticky", "static")
"""Of the groups, level by level; "static" members have a name that outlives them."""
PARTITIONS: Final = 3
MEMBERS: Final = 2
RECORDS_PER_SECOND: Final = 30
TRANSACTION_RECORDS_MAX: Final = 25
ABORT_SHARE: Final = 0.1
LEAVE_SHARE: Final = 0.02
SETTLE_SECONDS_MAX: Final = 180.0
STABLE: Final = "Stable"
"""The state of a group whose members know what they own, by its name in DescribeGroups."""


class Etl(Workload):
    """Level n reads etl-(n-1) and writes etl-n; each record keeps its partition."""

    name: ClassVar = "etl"
    title: ClassVar = "consume, transform, produce: three groups in a chain"
    must_check: ClassVar = (
        "acknowledged",
        "read",
        "copied",
        "positions",
        "assignments",
        "replicas",
    )

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(f"etl-{level}", PARTITIONS) for level in range(len(STRATEGIES) + 1)]

    async def start(self) -> None:
        servers = self.cluster.bootstrap
        self._source = NumberedProducer(
            servers, "source", SOURCE, PARTITIONS, per_second=RECORDS_PER_SECOND
        )
        self._members = [
            Member(self, level, number, random.Random(self.random.random()))
            for level in range(1, len(STRATEGIES) + 1)
            for number in range(MEMBERS)
        ]
        for worker in (self._source, *self._members):
            worker.start()
        self._positions: dict[tuple[str, int], list[int]] = {}
        self._owners: dict[str, list[dict[str, list[Partition]]]] = {}
        """By group, every answer that was of a stable one: member -> its partitions."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        await self._source.end()
        try:
            await self._until_copied()
        finally:
            await end_all(self._members)
            await end_watcher(self._watching)

    async def check(self) -> Findings:
        levels = {f"etl-{level}": PARTITIONS for level in range(len(STRATEGIES) + 1)}
        read = await read_all(self.cluster.bootstrap, levels, committed=True)
        source = {at: messages for at, messages in read.items() if at[0] == SOURCE}
        findings = check_set(self._source.writes, found_numbers(source))
        original = {at[1]: [m.value or "" for m in messages] for at, messages in source.items()}
        for topic in levels:
            if topic != SOURCE:
                copy = {p: [m.value or "" for m in read[topic, p]] for p in range(PARTITIONS)}
                findings.merge(check_copy(topic, original, copy))
        for (group, partition), positions in self._positions.items():
            findings.merge(check_positions(f"{group}/{partition}", positions))
        for group, answers in self._owners.items():
            findings.merge(check_ownership(group, answers))
        findings.allowed["hung"] += sum(member.hung for member in self._members)
        return findings

    async def _until_copied(self) -> None:
        """Wait until the last level has as many records as the first. Raises TimeoutError."""
        last = f"etl-{len(STRATEGIES)}"
        async with asyncio.timeout(SETTLE_SECONDS_MAX):
            while True:
                read = await read_all(
                    self.cluster.bootstrap, {SOURCE: PARTITIONS, last: PARTITIONS}, committed=True
                )
                count = {SOURCE: 0, last: 0}
                for (topic, _), messages in read.items():
                    count[topic] += len(messages)
                if count[last] >= count[SOURCE]:
                    return
                await asyncio.sleep(1.0)

    async def _watch(self) -> None:
        """What is committed for each group, and who owns what, again and again."""
        while True:
            for level in range(1, len(STRATEGIES) + 1):
                group = f"etl-group-{level}"
                with contextlib.suppress(KafkaError):
                    async with KafkaClient(
                        self.cluster.bootstrap, request_timeout_ms=5_000
                    ) as client:
                        await self._look_at_positions(client, group, f"etl-{level - 1}")
                        await self._look_at_owners(client, group)
            await asyncio.sleep(0.5)

    async def _look_at_positions(self, client: KafkaClient, group: str, topic: str) -> None:
        fields = {
            "group_id": group,
            "topics": [{"name": topic, "partition_indexes": tuple(range(PARTITIONS))}],
            "require_stable": True,
        }
        answer = await client.call_coordinator(group, ApiKey.OFFSET_FETCH, fields, version_max=7)
        for entry in answer.topics[0].partitions:
            if entry.error_code is ErrorCode.none:
                at = group, int(entry.partition_index)
                self._positions.setdefault(at, []).append(int(entry.committed_offset))

    async def _look_at_owners(self, client: KafkaClient, group: str) -> None:
        """As its coordinator has it; a group that is not stable has no owners yet."""
        fields = {"groups": [group], "include_authorized_operations": False}
        answer = await client.call_coordinator(group, ApiKey.DESCRIBE_GROUPS, fields, version_max=5)
        (described,) = answer.groups
        if described.error_code is ErrorCode.none and described.group_state == STABLE:
            self._owners.setdefault(group, []).append(
                {each.member_id: owned(each.member_assignment) for each in described.members}
            )

    def copied(self, count: int) -> None:
        self.progress += count


class Member(Worker):
    """One consumer and one transactional producer, opened anew whenever one of them is over."""

    def __init__(self, workload: Etl, level: int, number: int, randomly: random.Random) -> None:
        super().__init__(f"etl-{level}-{number}")
        self._workload = workload
        self._level = level
        self._random = randomly
        self.hung = 0
        """Producers whose client library did not come back."""

    def work(self) -> None:
        servers = self._workload.cluster.bootstrap
        while not self.stopping.is_set():
            consumer = self._consumer(servers)
            producer = TransactionalProducer(servers, self.name, self.stopping)
            try:
                producer.open()
                consumer.subscribe([f"etl-{self._level - 1}"])
                while not self.stopping.is_set() and self._random.random() > LEAVE_SHARE:
                    self._copy(consumer, producer)
            except Fenced as over:
                self.hung += isinstance(over, Hung)
                self.pause(0.2)
            except Undecided:
                return
            finally:
                consumer.close()

    def _consumer(self, servers: str) -> Any:
        strategy = STRATEGIES[self._level - 1]
        config: dict[str, Any] = {
            **LIBRDKAFKA,
            "bootstrap.servers": servers,
            "group.id": f"etl-group-{self._level}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 1_000,
            "partition.assignment.strategy": "range" if strategy == "static" else strategy,
        }
        if strategy == "static":
            config["group.instance.id"] = self.name
        return confluent_kafka.Consumer(config)

    def _copy(self, consumer: Any, producer: TransactionalProducer) -> None:
        """One transaction, or nothing where nothing is there."""
        messages = [
            message
            for message in consumer.consume(TRANSACTION_RECORDS_MAX, 0.2)
            if message.error() is None
        ]
        if not messages:
            return
        producer.begin()
        for message in messages:
            producer.producer.produce(
                f"etl-{self._level}", value=message.value(), partition=message.partition()
            )
        positions = {message.partition(): message.offset() + 1 for message in messages}
        if self._send_positions(consumer, producer, positions) and (
            self._random.random() > ABORT_SHARE
        ):
            if producer.commit():
                self._workload.copied(len(messages))
                return
        else:
            producer.abort()
        self._go_back(consumer)

    def _send_positions(
        self, consumer: Any, producer: TransactionalProducer, positions: dict[int, int]
    ) -> bool:
        """Whether they are part of the transaction; false where that is to be aborted."""
        topic = f"etl-{self._level - 1}"
        wanted = [confluent_kafka.TopicPartition(topic, p, at) for p, at in positions.items()]
        group = consumer.consumer_group_metadata()
        return producer.settled(
            lambda seconds: producer.producer.send_offsets_to_transaction(wanted, group, seconds)
        )

    def _go_back(self, consumer: Any) -> None:
        """To what is committed, as after every abort."""
        while not self.stopping.is_set():
            try:
                for at in consumer.committed(consumer.assignment(), CALL_SECONDS_MAX):
                    if at.error is not None:
                        raise confluent_kafka.KafkaException(at.error)
                    at.offset = max(at.offset, 0)
                    consumer.seek(at)
            except confluent_kafka.KafkaException:
                self.pause(0.1)
            else:
                return
