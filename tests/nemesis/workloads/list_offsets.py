"""Tails that diverge (acks=1), timestamps out of order; offsets by time and by leader epoch."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import ClassVar, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.records.header import iter_headers
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.list_offsets import (
    Stamped,
    check_epochs,
    check_repeatable,
    check_timestamps,
)
from tests.nemesis.cluster import until
from tests.nemesis.workloads.workload import Workload, spread_topic
from tests.support.producing import produce_once

TOPIC: Final = "list-offsets"
PARTITIONS: Final = 2
REQUEST_MS_MAX: Final = 5_000
PAUSE_SECONDS: Final = 0.02
DAY_MS: Final = 86_400_000
TIMESTAMPS_ASKED: Final = 40
FETCH_BYTES_MAX: Final = 4 << 20
SEEK_SHARE: Final = 0.02
SEEK_BACK_RECORDS_MAX: Final = 2_000
"""What may have changed are tails; all of the log is read again in the end."""


class ListOffsets(Workload):
    """Nobody promises that a record written with acks=1 stays; what a consumer saw has to."""

    name: ClassVar = "list-offsets"
    title: ClassVar = "diverging tails (acks=1), offsets by time and epoch"
    must_check: ClassVar = ("seen", "timestamps", "epochs", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, PARTITIONS, retention_ms="-1")]

    async def start(self) -> None:
        self._stop = asyncio.Event()
        self._seen: dict[int, dict[int, str]] = {p: {} for p in range(PARTITIONS)}
        self._contradictions = Findings()
        self._tasks = [
            asyncio.create_task(client(partition))
            for partition in range(PARTITIONS)
            for client in (self._produce, self._consume)
        ]

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def check(self) -> Findings:
        findings = Findings()
        findings.merge(self._contradictions)
        for partition in range(PARTITIONS):
            at = TopicPartition(TOPIC, partition)
            where = str(at)
            await until(lambda at=at: self._is_readable(at), f"{where} can be read")  # type: ignore[misc]
            async with KafkaClient(self.cluster.bootstrap) as client:
                end = (await client.list_offsets({at: LATEST_TIMESTAMP}))[at].offset
                leader = (await client.metadata([TOPIC])).topics[TOPIC].partitions[partition].leader
                records, values = await self._read(client, leader, at, end)
                findings.merge(check_repeatable(where, self._seen[partition], values))
                times = [each.timestamp_ms for each in records]
                asked = {0, *self.random.sample(times, min(TIMESTAMPS_ASKED, len(times)))}
                asked |= {each + 1 for each in tuple(asked)}
                answers = {
                    each: (await client.list_offsets({at: each}))[at].offset
                    for each in sorted(asked)
                }
                findings.merge(check_timestamps(where, records, answers))
                epochs = sorted({each.leader_epoch for each in records})
                ends = {epoch: await self._end_of(client, leader, at, epoch) for epoch in epochs}
                findings.merge(check_epochs(where, records, end, ends))
        return findings

    async def _is_readable(self, at: TopicPartition) -> bool:
        async with KafkaClient(self.cluster.bootstrap) as client:
            return not (await client.list_offsets({at: LATEST_TIMESTAMP}))[at].error

    async def _produce(self, partition: int) -> None:
        """Produce with acks=1 and acks=all in turn, to the supposed leader; never retry."""
        at = TopicPartition(TOPIC, partition)
        number = 0
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            leader: int | None = None
            while not self._stop.is_set():
                await asyncio.sleep(PAUSE_SECONDS)
                number += 1
                try:
                    if leader is None:
                        known = (await client.metadata([TOPIC])).topics[TOPIC].partitions
                        leader = known[partition].leader
                    batch = _batch(self.random, f"{partition}-{number}")
                    answer = await produce_once(
                        client,
                        leader,
                        at,
                        batch,
                        acks=1 if number % 2 else -1,
                        timeout_ms=REQUEST_MS_MAX,
                    )
                except (KafkaError, KeyError):
                    leader = None
                    continue
                if answer.error is ErrorCode.none:
                    self.progress += 1
                else:
                    leader = None

    async def _consume(self, partition: int) -> None:
        """Note what is at each offset, and whether it ever changes."""
        at = TopicPartition(TOPIC, partition)
        seen = self._seen[partition]
        position = 0
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            while not self._stop.is_set():
                try:
                    leader = (
                        (await client.metadata([TOPIC])).topics[TOPIC].partitions[partition].leader
                    )
                    fetched = (await client.fetch(leader, {at: FetchPosition(position)}))[at]
                except (KafkaError, KeyError):
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                if fetched.error is ErrorCode.offset_out_of_range:
                    self._contradictions.add("out-of-range", f"{at} at {position}")
                    position = 0
                if fetched.error is not ErrorCode.none:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                for start, header in iter_headers(fetched.records):
                    for record in decode_batch(fetched.records, start, header):
                        value = (record.value or b"").decode()
                        if seen.setdefault(record.offset, value) != value:
                            self._contradictions.add("changed", f"{at}/{record.offset}: {value}")
                    position = max(position, header.next_offset)
                if self.random.random() < SEEK_SHARE:
                    position -= self.random.randint(0, min(position, SEEK_BACK_RECORDS_MAX))

    async def _read(
        self, client: KafkaClient, leader: int, at: TopicPartition, end: int
    ) -> tuple[list[Stamped], dict[int, str]]:
        """Every record below `end`, and its value by offset."""
        records: list[Stamped] = []
        values: dict[int, str] = {}
        position = 0
        while position < end:
            fetched = (
                await client.fetch(
                    leader, {at: FetchPosition(position)}, partition_bytes_max=FETCH_BYTES_MAX
                )
            )[at]
            if fetched.error:
                raise KafkaError(fetched.error, str(at))
            for start, header in iter_headers(fetched.records):
                for record in decode_batch(fetched.records, start, header):
                    if position <= record.offset < end:
                        records.append(
                            Stamped(
                                record.offset, record.timestamp_ms, header.partition_leader_epoch
                            )
                        )
                        values[record.offset] = (record.value or b"").decode()
                position = max(position, header.next_offset)
        return records, values

    async def _end_of(
        self, client: KafkaClient, leader: int, at: TopicPartition, epoch: int
    ) -> int:
        entry = {"partition": at.partition, "current_leader_epoch": -1, "leader_epoch": epoch}
        answer = await client.call(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            {"replica_id": -1, "topics": [{"topic": at.topic, "partitions": [entry]}]},
            node_id=leader,
        )
        (told,) = answer.topics[0].partitions
        return int(told.end_offset) if told.error_code is ErrorCode.none else -1


def _batch(randomly: random.Random, name: str) -> bytearray:
    """One to three records of any time of the last day."""
    now_ms = int(time.time() * 1000)
    return encode_batch(
        [
            NewRecord(now_ms - randomly.randrange(DAY_MS), b"k", f"{name}-{n}".encode())
            for n in range(randomly.randint(1, 3))
        ]
    )
