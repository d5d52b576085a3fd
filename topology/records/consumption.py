"""Reads records of topics with aiokafka: up to the present end, or on and on; in a group or not."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition as Place
from local_cluster.wire.constants import LATEST_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from local_cluster.wire.errors import KafkaError
from topology.records.shown_record import ReadRecord

POLL_MS: Final = 200
RECORDS_PER_POLL_MAX: Final = 1_000
COMMIT_SECONDS: Final = 5.0
"""Time between two commits of a group."""
ASSIGN_SECONDS_MAX: Final = 60.0
"""How long a member of a group waits for partitions."""
CLOSE_SECONDS_MAX: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What to read."""

    starts: Mapping[Place, int]
    """The first offset of each partition; of a group's member, where nothing is committed."""
    group: str | None = None
    follow: bool = False
    committed_only: bool = False
    records_max: int | None = None


async def ends_of(
    client: KafkaClient, places: Sequence[Place], *, committed_only: bool
) -> dict[Place, int]:
    """Return where reading ends now: the high watermark, or the last stable offset."""
    listed = await client.list_offsets(
        dict.fromkeys(places, LATEST_TIMESTAMP),
        isolation_level=READ_COMMITTED if committed_only else READ_UNCOMMITTED,
    )
    for at, each in listed.items():
        if each.error:
            raise KafkaError(each.error, str(at))
    return {at: each.offset for at, each in listed.items()}


async def read_records(
    options: Mapping[str, Any], reading: Reading, ends: Mapping[Place, int]
) -> AsyncGenerator[ReadRecord, None]:
    """Yield records until the ends, the wanted number, or on and on with `follow`.

    A group's offsets are committed after the records were yielded and taken, and at the end. A
    killed reader reads the last `COMMIT_SECONDS` again. Raises aiokafka's KafkaError, TimeoutError.
    """
    consumer = AIOKafkaConsumer(
        **options,
        group_id=reading.group,
        enable_auto_commit=False,
        auto_offset_reset="none" if reading.group is None else "earliest",
        isolation_level="read_committed" if reading.committed_only else "read_uncommitted",
    )
    reader = _Reader(consumer, reading, ends)
    async with contextlib.aclosing(reader.records()) as records:
        async for record in records:
            yield record


class _Reader:
    """One consumer from its start to its stop."""

    def __init__(self, consumer: Any, reading: Reading, ends: Mapping[Place, int]) -> None:
        self._consumer = consumer
        self._reading = reading
        self._ends = {TopicPartition(*at): end for at, end in ends.items()}
        self._taken: dict[Any, int] = {}
        """The offset after the last record that the caller took."""
        self._committed_at = time.monotonic()

    async def records(self) -> AsyncGenerator[ReadRecord, None]:
        await self._consumer.start()
        try:
            await self._assign()
            left = self._reading.records_max
            while left is None or left > 0:
                polled = await self._consumer.getmany(
                    timeout_ms=POLL_MS, max_records=min(RECORDS_PER_POLL_MAX, left or 1_000)
                )
                for at, batch in polled.items():
                    for message in batch:
                        if not self._reading.follow and message.offset >= self._end(at):
                            break
                        yield _record(message)
                        self._taken[at] = message.offset + 1
                        left = None if left is None else left - 1
                await self._commit_sometimes()
                if not self._reading.follow and await self._is_at_ends():
                    break
        finally:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._commit()
                await self._consumer.stop()

    def _end(self, at: Any) -> int:
        return self._ends.get(at, 0)

    async def _assign(self) -> None:
        places = {TopicPartition(*at): offset for at, offset in self._reading.starts.items()}
        if self._reading.group is None:
            self._consumer.assign(list(places))
            for at, offset in places.items():
                self._consumer.seek(at, offset)
            return
        assigned = asyncio.Event()
        listener = _StartAt(self._consumer, places, assigned)
        self._consumer.subscribe(sorted({at.topic for at in places}), listener=listener)
        async with asyncio.timeout(ASSIGN_SECONDS_MAX):
            await assigned.wait()

    async def _is_at_ends(self) -> bool:
        """Return whether every partition of this consumer was read up to its end."""
        for at in self._consumer.assignment():
            if await self._consumer.position(at) < self._end(at):
                return False
        return True

    async def _commit_sometimes(self) -> None:
        if time.monotonic() - self._committed_at >= COMMIT_SECONDS:
            await self._commit()

    async def _commit(self) -> None:
        if self._reading.group is None:
            return
        mine = self._consumer.assignment()
        offsets = {at: offset for at, offset in self._taken.items() if at in mine}
        if offsets:
            await self._consumer.commit(offsets)
        self._committed_at = time.monotonic()


class _StartAt(ConsumerRebalanceListener):  # type: ignore[misc]
    """Lets a group's member start at the wanted offset where nothing is committed."""

    def __init__(self, consumer: Any, starts: Mapping[Any, int], assigned: asyncio.Event) -> None:
        self._consumer = consumer
        self._starts = starts
        self._assigned = assigned

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing: positions are committed when records were taken."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Seek to the start of partitions without a committed offset."""
        for at in assigned:
            if await self._consumer.committed(at) is None and at in self._starts:
                self._consumer.seek(at, self._starts[at])
        self._assigned.set()


def _record(message: Any) -> ReadRecord:
    return ReadRecord(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        tuple((name, value) for name, value in message.headers),
    )
