"""Coordinators of groups and transactions move with their partition, also after a kill -9."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.coordinator_runtime.partitioning import partition_of as partition_of_key
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.replicas import all_in_sync, bootstrap, eventually, leader_of, running_cluster

pytestmark = pytest.mark.real

KILLS = 1
LONG_SESSION_MS = 30_000


async def advance(task: asyncio.Task[None], count: Callable[[], int], by: int) -> None:
    """Wait until a counter has grown by `by`; raise if the task that moves it has failed."""
    wanted = count() + by

    def done() -> bool:
        if task.done():
            task.result()
        return count() >= wanted

    await eventually(done)


class Committer:
    """Commits growing offsets of a group, and reads each back."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.committed = 0
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap_servers, "group.id": "g", "enable.auto.commit": False}
        )
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stop.set()
        await self.task
        await asyncio.to_thread(self._consumer.close)

    async def _run(self) -> None:
        attempted = 0
        while not self._stop.is_set():
            attempted += 1
            if await asyncio.to_thread(self._commit, attempted):
                self.committed = attempted
                known = await asyncio.to_thread(self._read_back)
                assert known == attempted, "the next read returns the acknowledged commit"

    def _commit(self, offset: int) -> bool:
        try:
            at = confluent_kafka.TopicPartition("t", 0, offset)
            (done,) = self._consumer.commit(offsets=[at], asynchronous=False)
        except confluent_kafka.KafkaException:
            return False
        return done.error is None

    def _read_back(self) -> int:
        while True:
            try:
                at = confluent_kafka.TopicPartition("t", 0)
                (known,) = self._consumer.committed([at], timeout=10)
            except confluent_kafka.KafkaException:
                continue
            return int(known.offset)


async def test_no_committed_offset_is_lost_or_goes_back(zookeeper: str, tmp_path: Path) -> None:
    config = {"offsets.topic.num.partitions": "1"}
    async with (
        running_cluster(zookeeper, tmp_path, config=config) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        committer = Committer(bootstrap(brokers))
        await advance(committer.task, lambda: committer.committed, 5)
        for _ in range(KILLS):
            killed = await leader_of(brokers, client, "__consumer_offsets")
            await killed.kill()
            await advance(committer.task, lambda: committer.committed, 5)
            await killed.start()
            await eventually(lambda: all_in_sync(client, "__consumer_offsets"))
        await committer.stop()


async def delete_and_recreate(client: KafkaClient, new: NewTopic) -> None:
    """Delete the topic, and create another one with its name."""

    async def is_there() -> bool:
        return new.name in (await client.metadata()).topics

    async def is_gone() -> bool:
        with contextlib.suppress(KafkaError):
            await client.delete_topics([new.name], timeout_ms=1_000)
        return not await is_there()

    async def is_there_again() -> bool:
        # The response waits for a broker that hangs.
        with contextlib.suppress(KafkaError):
            await client.create_topics([new], timeout_ms=1_000)
        return await is_there()

    await eventually(is_gone)
    await eventually(is_there_again)


async def test_a_coordinator_that_missed_a_deletion_deletes_the_offsets(
    zookeeper: str, tmp_path: Path
) -> None:
    partitions = 6
    config = {
        "offsets.topic.num.partitions": str(partitions),
        "offsets.topic.replication.factor": "1",
    }
    async with (
        running_cluster(
            zookeeper, tmp_path, config=config, session_timeout_ms=LONG_SESSION_MS
        ) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        controller_id = (await client.metadata([])).controller_id
        names = ("recreated", "stays")
        new = [NewTopic(name=name, assignments={0: (controller_id,)}) for name in names]
        await client.create_topics(new)
        position = CommittedOffset(7, -1, "")
        positions = {TopicPartition(name, 0): position for name in names}

        # The first commit creates the offsets topic.
        await eventually(lambda: has_positions(client, "any", positions))
        leaders = {
            index: (await leader_of(brokers, client, OFFSETS_TOPIC, index))
            for index in range(partitions)
        }
        group, coordinator = next(
            (name, leaders[partition_of_key(name, partitions)])
            for name in map("g{}".format, range(1000))
            if leaders[partition_of_key(name, partitions)].settings.broker_id != controller_id
        )
        await eventually(lambda: has_positions(client, group, positions))

        coordinator.pause()
        others = [broker for broker in brokers if broker is not coordinator]
        async with KafkaClient(bootstrap(others)) as other:
            await delete_and_recreate(other, new[0])
        coordinator.resume()

        async def are_forgotten() -> bool:
            found = await committed_offsets(client, [group])
            return found == {group: {TopicPartition("stays", 0): position}}

        await eventually(are_forgotten)


async def has_positions(
    client: KafkaClient, group: str, positions: dict[TopicPartition, CommittedOffset]
) -> bool:
    """Commit them once; return whether all are committed."""
    with contextlib.suppress(KafkaError):
        answers = await commit_offsets(client, group, positions)
        return set(answers.values()) == {ErrorCode.none}
    return False


class Transactor:
    """Writes a number to two partitions in each transaction."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.committed: list[int] = []
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": "x"}
        )
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stop.set()
        await self.task

    async def _run(self) -> None:
        await asyncio.to_thread(self._settle, self._producer.init_transactions)
        number = 0
        while not self._stop.is_set():
            if await asyncio.to_thread(self._transact, number):
                self.committed.append(number)
            number += 1

    def _transact(self, number: int) -> bool:
        self._producer.begin_transaction()
        for partition in (0, 1):
            self._producer.produce("t", key=b"%d" % number, partition=partition)
        return self._settle(self._producer.commit_transaction)

    def _settle(self, call: Callable[[float], Any]) -> bool:
        """Call until done; return False if the transaction had to be aborted."""
        while True:
            try:
                call(30)
            except confluent_kafka.KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    assert self._settle(self._producer.abort_transaction)
                    return False
                assert error.retriable(), error
            else:
                return True


async def test_transactions_are_whole_when_their_coordinator_is_killed(
    zookeeper: str, tmp_path: Path
) -> None:
    config = {"transaction.state.log.num.partitions": "1"}
    async with (
        running_cluster(zookeeper, tmp_path, config=config) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=2)])
        transactor = Transactor(bootstrap(brokers))
        await advance(transactor.task, lambda: len(transactor.committed), 5)
        for _ in range(KILLS):
            killed = await leader_of(brokers, client, "__transaction_state")
            await killed.kill()
            await advance(transactor.task, lambda: len(transactor.committed), 5)
            await killed.start()
            await eventually(lambda: all_in_sync(client, "__transaction_state"))
            await eventually(lambda: all_in_sync(client, "t"))
        await transactor.stop()
        for partition in (0, 1):
            keys = await asyncio.to_thread(read_committed, bootstrap(brokers), partition)
            assert keys == transactor.committed


def read_committed(bootstrap_servers: str, partition: int) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("t", partition, 0)])
    keys: list[int] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "the end of the partition was not reached in time"
        error = message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            consumer.close()
            return keys
        keys.append(int(message.key() or b""))
