"""Writes the records of one lane in one transaction, as one task. Shell.

    fence the lane -> read its position -> begin -> records + position -> commit

Guarantees: a lane writes a batch once. A task that runs again, or a second driver, fences the one
before it first. After that the position says for sure whether the batch is written. If it is, the
rows must be those that were written. A zombie that wakes up later is refused by the broker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_global.addresses import ClusterAddress
from spark_global.serving.clients import CALL_SECONDS, last_position, open_producer, repeated
from spark_global.serving.positions import (
    Batch,
    LanePosition,
    Tally,
    check_same,
    is_new,
    positions_topic_name,
    transactional_id,
)

DONE: Final = pa.schema([pa.field("lane", pa.int32()), pa.field("records", pa.int64())])
"""What a task reports; a lane that had written the batch before reports no records."""
POSITION_KEY: Final = b"position"
QUEUE_SECONDS: Final = 0.5
"""Seconds to wait for room in the producer's queue, which is bounded by its own defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTopic:
    """Where rows are written."""

    cluster: ClusterAddress
    topic: str
    name: str
    """Names the topic of positions and the transactional ids."""

    @property
    def positions_topic(self) -> str:
        return positions_topic_name(self.name)


def write_lane(
    batches: Iterable[pa.RecordBatch], target: ServedTopic, batch: Batch
) -> Iterator[pa.RecordBatch]:
    """Write the records of the one lane of this task, and yield a row of `DONE`.

    A lane without records does nothing. Raises KafkaException, ServedByAnotherError and
    BrokenPositionError.
    """
    filled = (each for each in batches if each.num_rows)
    first = next(filled, None)
    if first is None:
        return
    lane = first.column("lane")[0].as_py()
    rows = _of_lane(itertools.chain([first], filled), lane)
    producer = open_producer(target.cluster, transactional_id(target.name, lane))
    held = last_position(target.cluster, target.positions_topic, lane)
    tally = Tally()
    records = 0
    if is_new(held, batch):
        producer.begin_transaction()
        reports = _Reports()
        for each in rows:
            _produce(producer, reports, target.topic, each, tally)
        _send(
            producer,
            topic=target.positions_topic,
            partition=lane,
            key=POSITION_KEY,
            value=LanePosition(batch, tally).encode(),
            on_delivery=reports,
        )
        repeated(lambda: producer.commit_transaction(CALL_SECONDS))
        reports.check()
        records = tally.records
    else:
        assert held is not None, "a batch that is not new was written"
        for each in rows:
            for key, value in zip(*_columns(each, "key", "value"), strict=True):
                tally.add(key, value)
        check_same(held, tally)
    yield pa.RecordBatch.from_arrays([[lane], [records]], schema=DONE)


def _of_lane(batches: Iterable[pa.RecordBatch], lane: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, which are all of one lane."""
    for each in batches:
        assert set(each.column("lane").unique().to_pylist()) == {lane}, "a task has two lanes"
        yield each


class _Reports:
    """The delivery reports of a transaction: the first failure."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self._error = self._error or error

    def check(self) -> None:
        """Raises KafkaException."""
        if self._error is not None:
            raise KafkaException(self._error)


def _produce(
    producer: Producer, reports: _Reports, topic: str, rows: pa.RecordBatch, tally: Tally
) -> None:
    columns = _columns(rows, "key", "value", "headers", "timestamp_ms")
    for key, value, headers, timestamp_ms in zip(*columns, strict=True):
        more: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        if headers:
            more["headers"] = [(each["key"], each["value"]) for each in headers]
        _send(producer, topic=topic, key=key, value=value, on_delivery=reports, **more)
        tally.add(key, value)
    producer.poll(0)
    reports.check()


def _columns(rows: pa.RecordBatch, *names: str) -> Iterator[list[Any]]:
    return (rows.column(name).to_pylist() for name in names)


def _send(producer: Producer, **record: Any) -> None:
    """Queue a record. Messages in the queue time out, so a full queue does not last."""
    while True:
        try:
            producer.produce(**record)
            return
        except BufferError:
            producer.poll(QUEUE_SECONDS)
