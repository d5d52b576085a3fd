"""Transactional writes that wait for their coordinator."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.handlers.data import verified_produce as module
from local_cluster.handlers.data.verified_produce import Verified, verify_and_produce
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.partition_verification import SupportedOperation
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.transactions.add_partitions import ProducerWriteQueue
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

VERSION = 12
BATCH = encode_batch(
    [NewRecord(1_000, b"k", b"v")],
    producer_id=7,
    producer_epoch=0,
    base_sequence=0,
    attributes=TRANSACTIONAL_BIT,
)


async def test_nobody_waits_for_writes_under_another_transactional_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any client may send the producer id of another one, and it could send very many."""
    answer = asyncio.Event()

    async def verify_or_add(
        broker: object, wanted: AddRequest, operation: object
    ) -> dict[tuple[str, int], ErrorCode]:
        if wanted.transactional_id == "forger":
            await answer.wait()
            return dict.fromkeys(wanted.partitions, ErrorCode.invalid_producer_id_mapping)
        return dict.fromkeys(wanted.partitions, ErrorCode.none)

    monkeypatch.setattr(module, "verify_or_add", verify_or_add)
    partition = SimpleNamespace(log=SimpleNamespace(producers=ProducerState()))
    broker: Any = SimpleNamespace(
        transactions=SimpleNamespace(write_queue=ProducerWriteQueue()),
        replicas=SimpleNamespace(get_leader=lambda topic, index: partition),
        may=lambda *_: True,
    )

    async def write(transactional_id: str) -> Verified:
        found: list[Verified] = []

        def produce(verified: Verified) -> bytes:
            found.append(verified)
            return b""

        entry = codec.PartitionRecords("t", 0, memoryview(BATCH))
        request = codec.ProduceRequest(transactional_id, -1, 30_000, [entry])
        context = RequestContext(ApiKey.PRODUCE, VERSION, 1, None, "User:p", "l", "h", 1)
        operation = SupportedOperation.of_produce(VERSION)
        await verify_and_produce(cast(BrokerServices, broker), context, request, operation, produce)
        return found[0]

    forged = asyncio.create_task(write("forger"))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await write("tx") == {("t", 0): ErrorCode.none}
    assert not forged.done()
    answer.set()
    assert await forged == {("t", 0): ErrorCode.invalid_producer_id_mapping}
