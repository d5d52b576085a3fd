"""AddPartitionsToTxn to coordinators on other brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from local_cluster.transactions import add_partitions
from local_cluster.transactions.add_partitions import ADD_PARTITIONS_VERSION, AddPartitionsSender
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

BROKER, OTHER_BROKER = 2, 3
Sent = Mapping[str, Any]


def response(
    sent: Sent, error: ErrorCode = ErrorCode.none, *, top_level: ErrorCode = ErrorCode.none
) -> Any:
    """Return kio's response with one error for every partition of the request."""
    results = [
        {
            "transactional_id": transaction["transactional_id"],
            "topic_results": [
                {
                    "name": topic["name"],
                    "results_by_partition": [
                        {"partition_index": index, "partition_error_code": error}
                        for index in topic["partitions"]
                    ],
                }
                for topic in transaction["topics"]
            ],
        }
        for transaction in sent["transactions"]
    ]
    fields = {"error_code": top_level, "results_by_transaction": results}
    body = messages.encode_response(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, fields)
    return messages.decode_response(
        ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, memoryview(body), 0
    )


class WithoutResults:
    """A response that lacks a field."""

    error_code = ErrorCode.none


class Connections:
    """The other brokers: what they receive, and responses when the test sends them."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Sent]] = []
        self._responses: list[asyncio.Future[Any]] = []

    async def call(self, broker_id: int, api: ApiKey, fields: Sent, version: int) -> Any:
        assert api is ApiKey.ADD_PARTITIONS_TO_TXN
        self.sent.append((broker_id, fields))
        future = asyncio.get_running_loop().create_future()
        self._responses.append(future)
        return await future

    async def respond(self, at: int, make: Callable[[Sent], Any] = response) -> None:
        self._responses[at].set_result(make(self.sent[at][1]))
        await steps()

    async def fail(self, at: int, error: Exception) -> None:
        self._responses[at].set_exception(error)
        await steps()

    def ids(self, at: int) -> list[str]:
        return [each["transactional_id"] for each in self.sent[at][1]["transactions"]]


async def steps() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def addition(transactional_id: str, *partitions: tuple[str, int]) -> AddRequest:
    return AddRequest(transactional_id, 1, 0, frozenset(partitions or {("t", 0)}))


def new_sender() -> tuple[Connections, AddPartitionsSender]:
    connections = Connections()
    return connections, AddPartitionsSender(connections)


async def add(
    sender: AddPartitionsSender, request: AddRequest, broker_id: int = BROKER
) -> asyncio.Future[Any]:
    future = sender.send(broker_id, request, verify_only=True)
    await steps()
    return future


async def test_an_addition_is_sent() -> None:
    connections, sender = new_sender()
    future = await add(sender, addition("x", ("b", 1), ("a", 2), ("a", 0)))
    assert connections.sent == [
        (
            BROKER,
            {
                "transactions": [
                    {
                        "transactional_id": "x",
                        "producer_id": 1,
                        "producer_epoch": 0,
                        "verify_only": True,
                        "topics": [
                            {"name": "a", "partitions": (0, 2)},
                            {"name": "b", "partitions": (1,)},
                        ],
                    }
                ]
            },
        )
    ]
    await connections.respond(0, lambda sent: response(sent, ErrorCode.transaction_abortable))
    assert await future == dict.fromkeys(
        [("a", 0), ("a", 2), ("b", 1)], ErrorCode.transaction_abortable
    )


async def test_additions_during_a_request_share_the_next_one() -> None:
    connections, sender = new_sender()
    first = await add(sender, addition("x"))
    later = [await add(sender, addition(name)) for name in ("y", "z")]
    assert len(connections.sent) == 1
    await connections.respond(0)
    assert first.done()
    assert connections.ids(1) == ["y", "z"]
    await connections.respond(1)
    assert all(future.done() for future in later)


async def test_a_transaction_is_in_a_request_once() -> None:
    connections, sender = new_sender()
    await add(sender, addition("w"))
    futures = [await add(sender, addition("x", ("t", index))) for index in (0, 1)]
    for at in range(3):
        await connections.respond(at)
    assert [connections.ids(at) for at in range(3)] == [["w"], ["x"], ["x"]]
    assert [await future for future in futures] == [
        {("t", 0): ErrorCode.none},
        {("t", 1): ErrorCode.none},
    ]


async def test_a_request_has_a_bounded_number_of_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(add_partitions, "TRANSACTIONS_MAX", 2)
    connections, sender = new_sender()
    for name in "wxyz":
        await add(sender, addition(name))
    for at in range(3):
        await connections.respond(at)
    assert [connections.ids(at) for at in range(3)] == [["w"], ["x", "y"], ["z"]]


async def test_waiting_additions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions, "WAITING_MAX", 1)
    connections, sender = new_sender()
    await add(sender, addition("sent"))
    await add(sender, addition("waits"))
    with pytest.raises(KafkaError) as refused:
        await add(sender, addition("one too many"))
    assert refused.value.code is ErrorCode.coordinator_not_available
    assert len(connections.sent) == 1


async def test_brokers_do_not_wait_for_each_other() -> None:
    connections, sender = new_sender()
    slow = await add(sender, addition("x"))
    quick = await add(sender, addition("y"), OTHER_BROKER)
    assert [broker_id for broker_id, _ in connections.sent] == [BROKER, OTHER_BROKER]
    await connections.respond(1)
    assert quick.done() and not slow.done()


async def test_a_failed_request_fails_only_its_own_additions() -> None:
    connections, sender = new_sender()
    failed = await add(sender, addition("x"))
    waits = await add(sender, addition("y"))
    await connections.fail(0, KafkaError(ErrorCode.request_timed_out, "no future"))
    with pytest.raises(KafkaError) as error:
        await failed
    assert error.value.code is ErrorCode.request_timed_out
    await connections.respond(1)
    assert await waits == {("t", 0): ErrorCode.none}


async def test_a_top_level_error_fails_the_additions() -> None:
    connections, sender = new_sender()
    future = await add(sender, addition("x"))
    refusal = ErrorCode.cluster_authorization_failed
    await connections.respond(0, lambda sent: response(sent, top_level=refusal))
    with pytest.raises(KafkaError) as error:
        await future
    assert error.value.code is ErrorCode.cluster_authorization_failed


async def test_a_missing_result_is_a_network_exception() -> None:
    connections, sender = new_sender()
    future = await add(sender, addition("x"))
    await connections.respond(0, lambda sent: response({"transactions": []}))
    assert await future == {("t", 0): ErrorCode.network_exception}


@pytest.mark.parametrize("broken", [PeerError("not that message"), AttributeError("no field")])
async def test_an_unreadable_response_fails_all_additions(broken: Exception) -> None:
    connections, sender = new_sender()
    futures = [await add(sender, addition(name)) for name in ("sent", "waits")]
    await connections.fail(0, broken)
    for future in futures:
        assert future.done(), "nothing may wait for a task that has ended"
        with pytest.raises(KafkaError) as error:
            await future
        assert error.value.code is ErrorCode.network_exception
    again = await add(sender, addition("again"))
    await connections.respond(1)
    assert await again == {("t", 0): ErrorCode.none}


async def test_a_response_without_results_fails_the_addition() -> None:
    connections, sender = new_sender()
    future = await add(sender, addition("x"))
    await connections.respond(0, lambda sent: WithoutResults())
    assert future.done()
    with pytest.raises(KafkaError):
        await future


async def test_a_cancelled_addition_does_not_disturb_others() -> None:
    connections, sender = new_sender()
    first = await add(sender, addition("w"))
    gone = await add(sender, addition("x"))
    stays = await add(sender, addition("y"))
    gone.cancel()
    await connections.respond(0)
    await connections.respond(1)
    assert first.done()
    assert await stays == {("t", 0): ErrorCode.none}


async def test_close_fails_all_additions() -> None:
    connections, sender = new_sender()
    futures = [await add(sender, addition(name)) for name in ("sent", "waits")]
    futures.append(sender.send(OTHER_BROKER, addition("not sent"), verify_only=True))
    await sender.close()
    for future in futures:
        with pytest.raises(KafkaError) as error:
            await future
        assert error.value.code is ErrorCode.network_exception
    assert len(connections.sent) == 1
