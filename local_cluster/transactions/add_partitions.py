"""Partitions that join a transaction by a write: the order of the writes that wait, and
AddPartitionsToTxn to coordinators on other brokers.

Each broker gets one request at a time; what is added meanwhile goes with the next request (Kafka's
AddPartitionsToTxnManager).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from local_cluster.transactions.broker_connections import BrokerCalls
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

ADD_PARTITIONS_VERSION: Final = 5
TRANSACTIONS_MAX: Final = 1_000
"""Per request."""
WAITING_MAX: Final = 100_000
"""Additions that may wait for one broker at one time."""

Errors = Mapping[TopicPartition, ErrorCode]


class ProducerWriteQueue:
    """Writes that wait for their coordinator, in order of arrival per transactional id.

    A producer has a queue only while one of its writes waits. Its name is the transactional id,
    which takes a right, and not the producer id, which any client may send.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._counts: dict[str, int] = {}

    def is_waiting(self, transactional_id: str) -> bool:
        """Return whether a write of this producer waits; a new write must not overtake it."""
        return transactional_id in self._counts

    @asynccontextmanager
    async def enter(self, transactional_id: str) -> AsyncIterator[None]:
        """Wait until every earlier write of the producer has left the queue."""
        lock = self._locks.setdefault(transactional_id, asyncio.Lock())
        self._counts[transactional_id] = self._counts.get(transactional_id, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._counts[transactional_id] -= 1
            if not self._counts[transactional_id]:
                del self._counts[transactional_id], self._locks[transactional_id]


class _Addition(NamedTuple):
    request: AddRequest
    verify_only: bool
    errors: asyncio.Future[Errors]


class AddPartitionsSender:
    """The additions that wait for other brokers, with a task for each broker that has some."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls
        self._waiting: dict[int, deque[_Addition]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def send(
        self, broker_id: int, request: AddRequest, *, verify_only: bool
    ) -> asyncio.Future[Errors]:
        """Return one error per partition; the future may fail with KafkaError.

        Raises KafkaError(coordinator_not_available) if too many additions wait.
        """
        waiting = self._waiting.setdefault(broker_id, deque())
        if len(waiting) >= WAITING_MAX:
            raise KafkaError(ErrorCode.coordinator_not_available, "too many transactions wait")
        errors: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        waiting.append(_Addition(request, verify_only, errors))
        if broker_id not in self._tasks:
            self._tasks[broker_id] = asyncio.create_task(
                self._send_waiting(broker_id), name=f"AddPartitionsToTxn to broker {broker_id}"
            )
        return errors

    async def close(self) -> None:
        """Stop the tasks; what waits fails with NETWORK_EXCEPTION, after which clients retry."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._waiting.values():
            _fail(waiting, KafkaError(ErrorCode.network_exception, "the broker stops"))

    async def _send_waiting(self, broker_id: int) -> None:
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                batch = _take_batch(waiting)
                try:
                    response = await self._calls.call(
                        broker_id,
                        ApiKey.ADD_PARTITIONS_TO_TXN,
                        {"transactions": [_transaction_fields(addition) for addition in batch]},
                        ADD_PARTITIONS_VERSION,
                    )
                    if response.error_code:
                        raise KafkaError(response.error_code)
                    results = {
                        entry.transactional_id: entry for entry in response.results_by_transaction
                    }
                    for addition in batch:
                        _complete(addition, results.get(addition.request.transactional_id))
                except KafkaError as error:
                    _fail(batch, error)
                except BaseException:
                    # This task ends, so nothing may go on waiting for it.
                    _fail([*batch, *waiting], KafkaError(ErrorCode.network_exception, "no answer"))
                    waiting.clear()
                    raise
        finally:
            del self._tasks[broker_id]


def _take_batch(waiting: deque[_Addition]) -> list[_Addition]:
    """Take the additions of the next request: one per transactional id, which is the key there."""
    batch: dict[str, _Addition] = {}
    while waiting and len(batch) < TRANSACTIONS_MAX:
        if waiting[0].request.transactional_id in batch:
            break
        addition = waiting.popleft()
        batch[addition.request.transactional_id] = addition
    return list(batch.values())


def _transaction_fields(addition: _Addition) -> dict[str, Any]:
    request = addition.request
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(request.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return {
        "transactional_id": request.transactional_id,
        "producer_id": request.producer_id,
        "producer_epoch": request.producer_epoch,
        "verify_only": addition.verify_only,
        "topics": [
            {"name": topic, "partitions": tuple(indexes)} for topic, indexes in by_topic.items()
        ],
    }


def _complete(addition: _Addition, result: Any) -> None:
    if addition.errors.done():
        return
    # A partition without a result gets an error after which it is sent again.
    errors = dict.fromkeys(addition.request.partitions, ErrorCode.network_exception)
    for topic in () if result is None else result.topic_results:
        for entry in topic.results_by_partition:
            errors[topic.name, entry.partition_index] = entry.partition_error_code
    addition.errors.set_result(errors)


def _fail(additions: Iterable[_Addition], error: KafkaError) -> None:
    for addition in additions:
        if not addition.errors.done():
            addition.errors.set_exception(error)
            addition.errors.exception()  # avoids asyncio's warning if the caller is gone
