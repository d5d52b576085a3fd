"""Questions about partitions to coordinators on other brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.transactions import add_partitions
from local_cluster.transactions.add_partitions import AddPartitionsSender
from local_cluster.transactions.broker_connections import BrokerConnections
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

BROKER, OTHER_BROKER = 2, 3
Sent = Mapping[str, Any]


def response(sent: Sent, error: ErrorCode = ErrorCode.none) -> Any:
    """One error for every partition that was asked about."""
    return SimpleNamespace(
        error_code=ErrorCode.none,
        results_by_transaction=[
            SimpleNamespace(
                transactional_id=transaction["transactional_id"],
                topic_results=[
                    SimpleNamespace(
                        name=topic["name"],
                        results_by_partition=[
                            SimpleNamespace(partition_index=index, partition_error_code=error)
                            for index in topic["partitions"]
                        ],
                    )
                    for topic in transaction["topics"]
                ],
            )
            for transaction in sent["transactions"]
        ],
    )


class Lines:
    """The other brokers: what they are sent, and an answer whenever the test has one."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Sent]] = []
        self._answers: list[asyncio.Future[Any]] = []

    async def call(self, broker_id: int, api: ApiKey, fields: Sent, version: int) -> Any:
        assert api is ApiKey.ADD_PARTITIONS_TO_TXN
        self.sent.append((broker_id, fields))
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return await answer

    async def answer(self, at: int, make: Callable[[Sent], Any] = response) -> None:
        self._answers[at].set_result(make(self.sent[at][1]))
        await steps()

    async def fail(self, at: int, error: Exception) -> None:
        self._answers[at].set_exception(error)
        await steps()

    def ids(self, at: int) -> list[str]:
        return [each["transactional_id"] for each in self.sent[at][1]["transactions"]]


async def steps() -> None:
    """Until every task has gone as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


def about(transactional_id: str, *partitions: tuple[str, int]) -> AddRequest:
    return AddRequest(transactional_id, 1, 0, frozenset(partitions or {("t", 0)}))


def new_sender() -> tuple[Lines, AddPartitionsSender]:
    lines = Lines()
    return lines, AddPartitionsSender(cast(BrokerConnections, lines))


async def ask(
    sender: AddPartitionsSender, request: AddRequest, broker_id: int = BROKER
) -> asyncio.Future[Any]:
    future = sender.send(broker_id, request, verify_only=True)
    await steps()
    return future


async def test_a_question_is_sent_and_answered() -> None:
    lines, sender = new_sender()
    answer = await ask(sender, about("x", ("b", 1), ("a", 2), ("a", 0)))
    assert lines.sent == [
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
    await lines.answer(0, lambda sent: response(sent, ErrorCode.transaction_abortable))
    assert await answer == dict.fromkeys(
        [("a", 0), ("a", 2), ("b", 1)], ErrorCode.transaction_abortable
    )


async def test_what_comes_meanwhile_goes_with_the_next_request() -> None:
    lines, sender = new_sender()
    first = await ask(sender, about("x"))
    later = [await ask(sender, about(name)) for name in ("y", "z")]
    assert len(lines.sent) == 1
    await lines.answer(0)
    assert first.done()
    assert lines.ids(1) == ["y", "z"]
    await lines.answer(1)
    assert all(answer.done() for answer in later)


async def test_a_transaction_is_in_a_request_once() -> None:
    lines, sender = new_sender()
    await ask(sender, about("w"))
    answers = [await ask(sender, about("x", ("t", index))) for index in (0, 1)]
    for at in range(3):
        await lines.answer(at)
    assert [lines.ids(at) for at in range(3)] == [["w"], ["x"], ["x"]]
    assert [await answer for answer in answers] == [
        {("t", 0): ErrorCode.none},
        {("t", 1): ErrorCode.none},
    ]


async def test_a_request_has_a_bounded_number_of_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(add_partitions, "TRANSACTIONS_MAX", 2)
    lines, sender = new_sender()
    for name in "wxyz":
        await ask(sender, about(name))
    for at in range(3):
        await lines.answer(at)
    assert [lines.ids(at) for at in range(3)] == [["w"], ["x", "y"], ["z"]]


async def test_a_bounded_number_of_questions_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions, "WAITING_MAX", 1)
    lines, sender = new_sender()
    await ask(sender, about("sent"))
    await ask(sender, about("waits"))
    with pytest.raises(KafkaError) as refused:
        await ask(sender, about("one too many"))
    assert refused.value.code is ErrorCode.coordinator_not_available
    assert len(lines.sent) == 1


async def test_brokers_do_not_wait_for_each_other() -> None:
    lines, sender = new_sender()
    slow = await ask(sender, about("x"))
    quick = await ask(sender, about("y"), OTHER_BROKER)
    assert [broker_id for broker_id, _ in lines.sent] == [BROKER, OTHER_BROKER]
    await lines.answer(1)
    assert quick.done() and not slow.done()


async def test_a_failed_request_is_told_to_its_own_questions_only() -> None:
    lines, sender = new_sender()
    failed = await ask(sender, about("x"))
    waits = await ask(sender, about("y"))
    await lines.fail(0, KafkaError(ErrorCode.request_timed_out, "no answer"))
    with pytest.raises(KafkaError) as error:
        await failed
    assert error.value.code is ErrorCode.request_timed_out
    await lines.answer(1)
    assert await waits == {("t", 0): ErrorCode.none}


async def test_an_error_of_the_whole_answer_is_told() -> None:
    lines, sender = new_sender()
    answer = await ask(sender, about("x"))
    refusal = SimpleNamespace(error_code=ErrorCode.cluster_authorization_failed)
    await lines.answer(0, lambda sent: refusal)
    with pytest.raises(KafkaError) as error:
        await answer
    assert error.value.code is ErrorCode.cluster_authorization_failed


async def test_what_is_not_spoken_of_has_to_be_asked_again() -> None:
    lines, sender = new_sender()
    answer = await ask(sender, about("x"))
    await lines.answer(0, lambda sent: response({"transactions": []}))
    assert await answer == {("t", 0): ErrorCode.network_exception}


@pytest.mark.parametrize("broken", [PeerError("not that message"), AttributeError("no field")])
async def test_where_an_answer_cannot_be_read_everyone_asks_again(broken: Exception) -> None:
    lines, sender = new_sender()
    answers = [await ask(sender, about(name)) for name in ("sent", "waits")]
    await lines.fail(0, broken)
    for answer in answers:
        assert answer.done(), "nobody may wait for a task that has ended"
        with pytest.raises(KafkaError) as error:
            await answer
        assert error.value.code is ErrorCode.network_exception
    again = await ask(sender, about("again"))
    await lines.answer(1)
    assert await again == {("t", 0): ErrorCode.none}


async def test_an_answer_that_lacks_its_results_is_told_as_well() -> None:
    lines, sender = new_sender()
    answer = await ask(sender, about("x"))
    await lines.answer(0, lambda sent: SimpleNamespace(error_code=ErrorCode.none))
    assert answer.done()
    with pytest.raises(KafkaError):
        await answer


async def test_who_gave_up_does_not_disturb_the_others() -> None:
    lines, sender = new_sender()
    first = await ask(sender, about("w"))
    gone = await ask(sender, about("x"))
    stays = await ask(sender, about("y"))
    gone.cancel()
    await lines.answer(0)
    await lines.answer(1)
    assert first.done()
    assert await stays == {("t", 0): ErrorCode.none}


async def test_when_the_broker_stops_everyone_is_told() -> None:
    lines, sender = new_sender()
    answers = [await ask(sender, about(name)) for name in ("sent", "waits")]
    answers.append(sender.send(OTHER_BROKER, about("not even begun"), verify_only=True))
    await sender.close()
    for answer in answers:
        with pytest.raises(KafkaError) as error:
            await answer
        assert error.value.code is ErrorCode.network_exception
    assert len(lines.sent) == 1
