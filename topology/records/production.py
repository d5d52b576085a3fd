"""Writes records with aiokafka's producer, in the order of the input."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError

from topology.records.clients import code_of
from topology.records.input_lines import BadLineError, InputRecord

WAITING_RECORDS_MAX: Final = 2_000
"""Records that were sent and are not acknowledged yet."""
LINGER_MS: Final = 5


class _Written:
    """Counts acknowledged records, and the offsets of each partition."""

    def __init__(self) -> None:
        self.records = 0
        self._offsets: dict[int, tuple[int | None, int | None]] = {}

    def add(self, partition: int, offset: int) -> None:
        self.records += 1
        known = None if offset < 0 else offset  # with acks=0 nobody says
        first, last = self._offsets.get(partition, (known, known))
        if known is not None and first is not None and last is not None:
            first, last = min(first, known), max(last, known)
        self._offsets[partition] = (first, last)

    def document(self, error: str | None, line: int | None) -> dict[str, Any]:
        partitions = [
            {"partition": partition, "first": first, "last": last}
            for partition, (first, last) in sorted(self._offsets.items())
        ]
        return {"records": self.records, "partitions": partitions, "error": error, "line": line}


async def produce_records(
    options: Mapping[str, Any], topic: str, records: Iterable[tuple[int, InputRecord]]
) -> dict[str, Any]:
    """Write records, and return what was acknowledged; stop at the first refusal.

    The result has `records`, `partitions` with first and last offsets, and `error` with the `line`
    of the first record that was refused. Records after that one were perhaps written as well, up to
    `WAITING_RECORDS_MAX` of them.
    """
    producer = AIOKafkaProducer(**options, linger_ms=LINGER_MS)
    written = _Written()
    waiting: deque[tuple[int, asyncio.Future[Any]]] = deque()
    error: tuple[str, int | None] | None = None
    number = 0
    try:
        await producer.start()
        for number, record in records:
            sent = await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
            waiting.append((number, sent))
            if len(waiting) >= WAITING_RECORDS_MAX:
                error = await _take_first(waiting, written)
                if error is not None:
                    break
    except BadLineError as bad:
        error = (str(bad), bad.line)
    except (AioKafkaError, TimeoutError) as failure:
        error = (code_of(failure), number or None)
    finally:
        while waiting:
            refused = await _take_first(waiting, written)
            error = error or refused
        await producer.stop()
    return written.document(*(error or (None, None)))


async def _take_first(
    waiting: deque[tuple[int, asyncio.Future[Any]]], written: _Written
) -> tuple[str, int] | None:
    """Await the oldest record, and count it. Return the refusal with its line."""
    number, sent = waiting.popleft()
    try:
        result = await sent
    except (AioKafkaError, TimeoutError) as failure:
        return code_of(failure), number
    written.add(result.partition, result.offset)
    return None
