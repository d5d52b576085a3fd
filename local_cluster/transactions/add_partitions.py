"""AddPartitionsToTxn to the coordinators on other brokers: one request at a time to each.

What comes while a request is under way goes with the next one (Kafka's AddPartitionsToTxnManager).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from local_cluster.transactions.broker_connections import BrokerLines
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

ADD_PARTITIONS_VERSION: Final = 5
TRANSACTIONS_MAX: Final = 1_000
"""Of one request."""
WAITING_MAX: Final = 100_000
"""Questions that may wait for one broker at one time."""

Errors = Mapping[TopicPartition, ErrorCode]


class _Question(NamedTuple):
    request: AddRequest
    verify_only: bool
    answer: asyncio.Future[Errors]


class JoinBatches:
    """Questions to other brokers, and a task for each broker that has some."""

    def __init__(self, lines: BrokerLines) -> None:
        self._lines = lines
        self._waiting: dict[int, deque[_Question]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def ask(
        self, broker_id: int, request: AddRequest, *, verify_only: bool
    ) -> asyncio.Future[Errors]:
        """One error per partition; the future may fail with KafkaError. Raises KafkaError."""
        waiting = self._waiting.setdefault(broker_id, deque())
        if len(waiting) >= WAITING_MAX:
            raise KafkaError(ErrorCode.coordinator_not_available, "too many transactions wait")
        answer: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        waiting.append(_Question(request, verify_only, answer))
        if broker_id not in self._tasks:
            self._tasks[broker_id] = asyncio.create_task(
                self._send(broker_id), name=f"partitions of transactions to broker {broker_id}"
            )
        return answer

    async def close(self) -> None:
        """End the tasks; whoever waits is told to ask again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._waiting.values():
            _fail(waiting, KafkaError(ErrorCode.network_exception, "the broker stops"))

    async def _send(self, broker_id: int) -> None:
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                batch = _take(waiting)
                try:
                    response = await self._lines.call(
                        broker_id,
                        ApiKey.ADD_PARTITIONS_TO_TXN,
                        {"transactions": [_transaction(question) for question in batch]},
                        ADD_PARTITIONS_VERSION,
                    )
                    if response.error_code:
                        raise KafkaError(response.error_code)
                    answers = {
                        entry.transactional_id: entry for entry in response.results_by_transaction
                    }
                    for question in batch:
                        _answer(question, answers.get(question.request.transactional_id))
                except KafkaError as error:
                    _fail(batch, error)
                except BaseException:
                    # This task ends: whoever waits for it must not wait for ever.
                    _fail([*batch, *waiting], KafkaError(ErrorCode.network_exception, "no answer"))
                    waiting.clear()
                    raise
        finally:
            del self._tasks[broker_id]


def _take(waiting: deque[_Question]) -> list[_Question]:
    """The next request's questions: one of each transactional id, which is its key there."""
    batch: dict[str, _Question] = {}
    while waiting and len(batch) < TRANSACTIONS_MAX:
        if waiting[0].request.transactional_id in batch:
            break
        question = waiting.popleft()
        batch[question.request.transactional_id] = question
    return list(batch.values())


def _transaction(question: _Question) -> dict[str, Any]:
    request = question.request
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(request.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return {
        "transactional_id": request.transactional_id,
        "producer_id": request.producer_id,
        "producer_epoch": request.producer_epoch,
        "verify_only": question.verify_only,
        "topics": [
            {"name": topic, "partitions": tuple(indexes)} for topic, indexes in by_topic.items()
        ],
    }


def _answer(question: _Question, result: Any) -> None:
    if question.answer.done():
        return
    # A partition of which nothing is said is asked about again.
    errors = dict.fromkeys(question.request.partitions, ErrorCode.network_exception)
    for topic in () if result is None else result.topic_results:
        for entry in topic.results_by_partition:
            errors[topic.name, entry.partition_index] = entry.partition_error_code
    question.answer.set_result(errors)


def _fail(questions: Iterable[_Question], error: KafkaError) -> None:
    for question in questions:
        if not question.answer.done():
            question.answer.set_exception(error)
            question.answer.exception()  # whoever asked may be gone
