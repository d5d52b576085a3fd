"""Transactions as Kafka's Java 4.3 tools see them: read_committed, and kafka-transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import NewTopic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.java_process import run_java

pytestmark = pytest.mark.real

WAIT_SECONDS = 30.0
STRAY_PRODUCER_ID = 4711


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    # Without verification a transaction can hang: a write unknown to the coordinator.
    config = {"transaction.partition.verification.enable": "false"}
    async with running_broker(zookeeper, tmp_path, config=config) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
        yield broker


def new_producer(broker: BrokerProcess, transactional_id: str) -> Any:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(WAIT_SECONDS)
    return producer


def run_transaction(producer: Any, value: str, *, commit: bool | None) -> None:
    """Write a value; None leaves the transaction open."""
    producer.begin_transaction()
    producer.produce("t", value=value.encode())
    assert producer.flush(WAIT_SECONDS) == 0
    if commit is not None:
        (producer.commit_transaction if commit else producer.abort_transaction)(WAIT_SECONDS)


async def consume(broker: BrokerProcess, count: int, isolation_level: str) -> list[str]:
    """Return the first records by the console consumer."""
    told = await run_java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", "t", "--from-beginning"),
        *("--isolation-level", isolation_level, "--max-messages", str(count)),
    )
    return told.split()


async def transactions(broker: BrokerProcess, *arguments: str) -> list[dict[str, str]]:
    """Return the table that kafka-transactions prints: a mapping for each row."""
    told = await run_java(
        "org.apache.kafka.tools.TransactionsCommand",
        *("--bootstrap-server", broker.bootstrap),
        *arguments,
    )
    rows = [line.split("\t") for line in told.splitlines() if "\t" in line]
    if not rows:
        return []
    head = [cell.strip() for cell in rows[0]]
    return [dict(zip(head, (cell.strip() for cell in row), strict=False)) for row in rows[1:]]


async def test_console_consumer_reads_what_is_committed(broker: BrokerProcess) -> None:
    producer = await asyncio.to_thread(new_producer, broker, "tx")
    for value, commit in (("a", True), ("b", False), ("c", True), ("d", False), ("e", True)):
        await asyncio.to_thread(run_transaction, producer, value, commit=commit)
    assert await consume(broker, 3, "read_committed") == ["a", "c", "e"]
    assert await consume(broker, 5, "read_uncommitted") == ["a", "b", "c", "d", "e"]


async def test_transactions_are_listed_described_and_terminated(broker: BrokerProcess) -> None:
    done, opened = [await asyncio.to_thread(new_producer, broker, name) for name in ("x-1", "y-1")]
    await asyncio.to_thread(run_transaction, done, "done", commit=True)
    await asyncio.to_thread(run_transaction, opened, "open", commit=None)
    listed = {row["TransactionalId"]: row for row in await transactions(broker, "list")}
    assert listed.keys() == {"x-1", "y-1"}
    assert listed["x-1"]["TransactionState"] == "CompleteCommit"
    assert listed["y-1"]["TransactionState"] == "Ongoing"
    some = await transactions(broker, "list", "--transactional-id-pattern", "[x]-\\d+")
    assert [row["TransactionalId"] for row in some] == ["x-1"]
    (row,) = await transactions(broker, "describe", "--transactional-id", "y-1")
    assert (row["TransactionState"], row["TopicPartitions"]) == ("Ongoing", "t-0")
    assert row["ProducerId"] == listed["y-1"]["ProducerId"]
    described = await transactions(broker, "describe-producers", "--topic", "t", "--partition", "0")
    starts = {entry["ProducerId"]: entry["CurrentTransactionStartOffset"] for entry in described}
    # After the record of the first transaction and its marker.
    assert starts == {listed["x-1"]["ProducerId"]: "None", row["ProducerId"]: "2"}
    await transactions(broker, "forceTerminateTransaction", "--transactionalId", "y-1")
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            (row,) = await transactions(broker, "describe", "--transactional-id", "y-1")
            if row["TransactionState"] in ("CompleteAbort", "Empty"):
                break
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        await asyncio.to_thread(opened.commit_transaction, WAIT_SECONDS)
    assert fenced.value.args[0].fatal()
    await asyncio.to_thread(run_transaction, done, "last", commit=True)
    assert await consume(broker, 2, "read_committed") == ["done", "last"]


async def write_stray(broker: BrokerProcess) -> None:
    """Write a transactional batch of a producer without a transaction at its coordinator."""
    batch = encode_batch(
        [NewRecord(0, None, b"stray")],
        attributes=TRANSACTIONAL_BIT,
        producer_id=STRAY_PRODUCER_ID,
        producer_epoch=0,
        base_sequence=0,
    )
    records = codec.PartitionRecords("t", 0, memoryview(batch))
    body = codec.encode_request(9, codec.ProduceRequest("stray", -1, 30_000, [records]))
    host, port = broker.bootstrap.split(":")
    line = await connect(host, int(port), client_id="test", timeout_ms=5_000)
    frame, position = await line.send(ApiKey.PRODUCE, 9, body)
    assert codec.decode_response(9, frame, position)[0].error_code == ErrorCode.none
    await line.close()


async def test_a_hanging_transaction_is_found_and_aborted(broker: BrokerProcess) -> None:
    producer = await asyncio.to_thread(new_producer, broker, "tx")
    await asyncio.to_thread(run_transaction, producer, "before", commit=True)
    await write_stray(broker)
    await asyncio.to_thread(run_transaction, producer, "behind", commit=True)
    (hanging,) = await transactions(
        broker, "find-hanging", "--topic", "t", "--max-transaction-timeout", "0"
    )
    assert (hanging["Topic"], hanging["Partition"]) == ("t", "0")
    assert hanging["ProducerId"] == str(STRAY_PRODUCER_ID)
    assert await consume(broker, 1, "read_committed") == ["before"]
    offset = hanging["StartOffset"]
    await transactions(
        broker, "abort", "--topic", "t", "--partition", "0", "--start-offset", offset
    )
    assert await consume(broker, 2, "read_committed") == ["before", "behind"]
    assert not await transactions(
        broker, "find-hanging", "--topic", "t", "--max-transaction-timeout", "0"
    )
