"""A transactional producer for tests: one frame at a time, by connection and version."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from local_cluster.client.connection import Connection, connect
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import BrokerProcess

ID = "tx"
WAIT_SECONDS = 30.0
BUSY = (ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas)
"""While the markers of the transaction before are written."""


class Producer(NamedTuple):
    """The id and epoch of a transactional producer, and its connection."""

    line: Connection
    producer_id: int
    epoch: int

    @property
    def named(self) -> dict[str, Any]:
        return {
            "transactional_id": ID,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


async def line_to(broker: BrokerProcess) -> Connection:
    host, port = broker.bootstrap.split(":")
    return await connect(host, int(port), client_id="test", timeout_ms=5_000)


async def find(line: Connection) -> int:
    """Find the coordinator; the first request creates the transaction topic."""
    fields = {"key": ID, "key_type": 1}
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            found = await line.call(ApiKey.FIND_COORDINATOR, fields, 3)
            if found.error_code is ErrorCode.none:
                return int(found.node_id)
            await asyncio.sleep(0.02)


async def begin(line: Connection) -> Producer:
    await find(line)
    fields = {"transactional_id": ID, "transaction_timeout": 60_000}
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            answer = await line.call(ApiKey.INIT_PRODUCER_ID, fields, 5)
            if answer.error_code is not ErrorCode.coordinator_load_in_progress:
                break
            await asyncio.sleep(0.02)
    assert answer.error_code is ErrorCode.none
    return Producer(line, answer.producer_id, answer.producer_epoch)


async def add(producer: Producer, topic: str) -> None:
    """Send AddPartitionsToTxn, and retry until the previous transaction is over."""
    fields = {
        "v3_and_below_transactional_id": ID,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.epoch,
        "v3_and_below_topics": [{"name": topic, "partitions": (0,)}],
    }
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            answer = await producer.line.call(ApiKey.ADD_PARTITIONS_TO_TXN, fields, 3)
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            if result.partition_error_code not in BUSY:
                break
    assert result.partition_error_code is ErrorCode.none


async def write(
    producer: Producer,
    topic: str,
    value: str,
    *,
    sequence: int,
    version: int,
    partition: int = 0,
) -> None:
    """Produce one record, and retry until it is accepted.

    Several may be in flight. As in real clients, a later one is retried if it was refused because
    of an earlier one.
    """
    later = BUSY if not sequence else (*BUSY, ErrorCode.out_of_order_sequence_number)
    batch = encode_batch(
        [NewRecord(0, None, value.encode())],
        attributes=TRANSACTIONAL_BIT,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )
    records = codec.PartitionRecords(topic, partition, memoryview(batch))
    body = codec.encode_request(version, codec.ProduceRequest(ID, -1, 30_000, [records]))
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            frame, position = await producer.line.send(ApiKey.PRODUCE, version, body)
            (result,) = codec.decode_response(version, frame, position)
            if result.error_code not in later:
                break
    assert result.error_code == ErrorCode.none, result


async def end(producer: Producer, *, commit: bool, version: int) -> Any:
    fields = {**producer.named, "committed": commit}
    return await producer.line.call(ApiKey.END_TXN, fields, version)


async def settle(line: Connection) -> str:
    """Wait until the markers of the last end are written; return the state."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (state := await state_of(line)).startswith("Complete"):
            await asyncio.sleep(0.01)
    return state


async def state_of(line: Connection) -> str:
    """Return the transaction's state by DescribeTransactions."""
    answer = await line.call(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": (ID,)}, 0)
    return str(answer.transaction_states[0].transaction_state)
