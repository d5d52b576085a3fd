"""A broker's disk fills up: writes are refused, reads continue, and space heals it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    eventually,
    partition_of,
    replica_directory,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real

DISK_BYTES = 48 << 20
FREE_BYTES = 6 << 20
"""What the ballast leaves for the logs."""
VALUE_BYTES = 4096
FOLLOWER_VALUE_BYTES = 200_000
PARTITIONS = 3
WAIT_SECONDS = 60.0
CONFIG = {"log.segment.bytes": str(1 << 20)}
COORDINATOR_ERRORS = {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk for the logs of the broker in `tmp_path`."""
    mounted = tmp_path / "broker-1" / "log"
    mounted.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(mounted)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount on this machine")
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)


class Ballast:
    """A file that takes the space of the disk and releases it."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "ballast"

    def leave(self, free_bytes: int) -> None:
        with self._path.open("ab") as file:
            file.write(bytes(max(shutil.disk_usage(self._path.parent).free - free_bytes, 0)))

    def remove(self) -> None:
        self._path.unlink()


class SteadyProducer(threading.Thread):
    """An idempotent librdkafka producer that runs until `stop` and records acknowledgements."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "linger.ms": 1,
                "retry.backoff.ms": 50,
            }
        )
        self._ending = threading.Event()
        self.acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.errors: list[Any] = []
        self.sent = 0

    def run(self) -> None:
        while not self._ending.is_set():
            partition = self.sent % PARTITIONS
            value = b"%d:" % self.sent + b"." * VALUE_BYTES
            self.sent += 1
            self._producer.produce("t", value, partition=partition, on_delivery=self._delivered)
            # Some requests are in flight at any time, and never many.
            while len(self._producer) > 30 and not self._ending.is_set():
                self._producer.poll(0.05)
            self._producer.poll(0)

    def end(self) -> None:
        self._ending.set()
        self.join(WAIT_SECONDS)
        assert self._producer.flush(WAIT_SECONDS) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.partition()].append(message.value())

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged))


async def until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def read_values(broker: BrokerProcess, topic: str, partition: int) -> list[bytes]:
    async with KafkaClient(broker.bootstrap) as client:
        found = [record async for record in read_topic(client, topic, partition=partition)]
    return [record.value or b"" for record in found]


async def ask(broker: BrokerProcess, api: ApiKey, fields: dict[str, Any], version: int) -> Any:
    connection = await connect("127.0.0.1", broker.port, client_id="t", timeout_ms=10_000)
    try:
        return await connection.call(api, fields, version)
    finally:
        await connection.close()


def commit_of(offset: int) -> dict[str, Any]:
    position = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m" * 2000}
    return {"group_id": "g", "member_id": "", "topics": [{"name": "t", "partitions": [position]}]}


async def commit(broker: BrokerProcess, offset: int) -> ErrorCode:
    answer = await ask(broker, ApiKey.OFFSET_COMMIT, commit_of(offset), 7)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def test_a_full_disk_refuses_writes_and_heals(
    zookeeper: str, tmp_path: Path, disk: Path
) -> None:
    async with running_broker(zookeeper, tmp_path, config=CONFIG) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=PARTITIONS)])
        # FindCoordinator creates the internal topics.
        await ask(broker, ApiKey.FIND_COORDINATOR, {"key": "g"}, 0)
        await until_committed(broker)
        ballast = Ballast(disk)
        ballast.leave(FREE_BYTES)
        producer = SteadyProducer(broker.bootstrap)
        producer.start()
        await until(lambda: "no space is left" in broker.log_text(), "the disk fills up")

        # Acknowledged records are readable, refused ones are not there.
        await asyncio.sleep(0.2)
        kept = [list(each) for each in producer.acknowledged]
        for partition in range(PARTITIONS):
            values = await read_values(broker, "t", partition)
            assert values[: len(kept[partition])] == kept[partition]

        # Other writers get clear errors.
        async with KafkaClient(broker.bootstrap) as client:
            batch = encode_batch([NewRecord(0, b"k", b"." * 900_000)])
            answer = await produce_once(client, 1, TopicPartition("t", 0), batch)
            assert answer.error is ErrorCode.kafka_storage_error
            created = await client.create_topics([NewTopic(name="late", partitions=1)])
            assert created["late"] is None or created["late"].code.retriable
        errors = {await commit(broker, 2) for _ in range(10)}
        assert errors & COORDINATOR_ERRORS, errors
        assert errors <= {*COORDINATOR_ERRORS, ErrorCode.coordinator_load_in_progress}
        assert broker.process is not None
        assert broker.process.poll() is None, "the broker lives"

        # A crash, and a start without free space.
        ballast.leave(0)
        await broker.kill()
        await broker.start()
        for partition in range(PARTITIONS):
            values = await read_values(broker, "t", partition)
            assert values[: len(kept[partition])] == kept[partition]

        await until(lambda: broker.log_text().count("no space is left") == 2, "still full")
        ballast.remove()
        await until(lambda: "there is space again" in broker.log_text(), "the space is seen")
        before = producer.count
        await until(lambda: producer.count > before + 300, "the producer goes on")
        await asyncio.to_thread(producer.end)  # before it fills the disk once more
        await until_committed(broker)
        await until_produced(broker, "late")
        assert not producer.errors
        for partition, expected in enumerate(producer.acknowledged):
            assert await read_values(broker, "t", partition) == expected, "once each, in order"
        assert sum(map(len, producer.acknowledged)) == producer.sent
        assert await broker.stop() == 0
        await broker.start()
        for partition, expected in enumerate(producer.acknowledged):
            assert await read_values(broker, "t", partition) == expected


async def test_a_full_disk_of_a_follower_holds_up_its_replicas_and_no_others(
    zookeeper: str, tmp_path: Path, disk: Path
) -> None:
    async with (
        running_cluster(zookeeper, tmp_path, brokers=2, log_dirs=(disk.name, "large")) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        follower = brokers[0]
        await client.create_topics(
            [
                NewTopic(
                    name="t",
                    assignments=dict.fromkeys(range(2), (2, 1)),
                    configs={"min.insync.replicas": "1"},
                )
            ]
        )
        await eventually(lambda: all_in_sync(client, "t"))
        homes = [replica_directory(follower, "t", index) for index in range(2)]
        (sick,) = [index for index, home in enumerate(homes) if home and home.parent == disk]
        well = 1 - sick
        ballast = Ballast(disk)
        ballast.leave(2 << 20)
        producer = IdempotentProducer(bootstrap(brokers), "t", well)
        await producer.advance(5)
        values = [b"%d" % index + b"." * FOLLOWER_VALUE_BYTES for index in range(20)]
        for value in values:
            at = TopicPartition("t", sick)
            # With current timestamps: retention deletes old segments on a full disk too.
            records = [NewRecord(time.time_ns() // 1_000_000, b"k", value)]
            answer = await produce_once(client, 2, at, encode_batch(records))
            assert answer.error is ErrorCode.none, "its leader continues alone"
        await eventually(lambda: "no space is left" in follower.log_text())

        async def in_sync(index: int) -> list[int]:
            return sorted((await partition_of(client, "t", index)).isr)

        async def is_out() -> bool:
            return await in_sync(sick) == [2]

        await eventually(is_out)
        await producer.advance(50)
        assert await in_sync(well) == [1, 2]
        assert follower.log_text().count(f"t-{sick} cannot be followed") == 1
        assert f"t-{well} cannot" not in follower.log_text()

        ballast.remove()
        await eventually(lambda: all_in_sync(client, "t"))
        await producer.stop()
        for index in range(2):
            await replicas_are_equal(brokers, "t", index)
        found = [each.value async for each in read_topic(client, "t", partition=sick)]
        assert found == values
        assert f"t-{sick} is followed again" in follower.log_text()


async def until_committed(broker: BrokerProcess) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while await commit(broker, 3) is not ErrorCode.none:
            await asyncio.sleep(0.05)


async def until_produced(broker: BrokerProcess, topic: str) -> None:
    at = TopicPartition(topic, 0)
    async with asyncio.timeout(WAIT_SECONDS), KafkaClient(broker.bootstrap) as client:
        while True:
            with contextlib.suppress(KafkaError):
                answer = await produce_once(client, 1, at, encode_batch([NewRecord(0, b"k", b"v")]))
                if answer.error is ErrorCode.none:
                    return
            await asyncio.sleep(0.05)


async def test_a_transaction_waits_for_space(zookeeper: str, tmp_path: Path, disk: Path) -> None:
    async with running_broker(zookeeper, tmp_path, config=CONFIG) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "tx"}
        )
        await asyncio.to_thread(producer.init_transactions, WAIT_SECONDS)
        ballast = Ballast(disk)
        ballast.leave(0)
        producer.begin_transaction()
        for index in range(200):
            producer.produce("t", b"%d" % index + b"." * VALUE_BYTES)
        committing = asyncio.create_task(
            asyncio.to_thread(producer.commit_transaction, WAIT_SECONDS)
        )
        await until(lambda: "no space is left" in broker.log_text(), "the disk is full")
        fields = {"transactional_id": "other", "transaction_timeout": 10_000}
        answer = await ask(broker, ApiKey.INIT_PRODUCER_ID, fields, 4)
        assert ErrorCode(answer.error_code) in {
            *COORDINATOR_ERRORS,
            ErrorCode.coordinator_load_in_progress,
            ErrorCode.concurrent_transactions,
        }
        ballast.remove()
        await committing
        values = await read_values(broker, "t", 0)
        assert [int(value.partition(b".")[0]) for value in values] == list(range(200))
