"""Numbered records by idempotent producers of ours, one request at a time; a last reader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Found, Outcome, Write, check_set
from tests.nemesis.workloads.reading import Message, read_all
from tests.nemesis.workloads.workload import Workload, spread_topic
from tests.support.producing import produce_once

TOPIC: Final = "set-full"
PARTITIONS: Final = 2
REQUEST_MS_MAX: Final = 5_000
PAUSE_SECONDS: Final = 0.02
LAST_SECONDS_MAX: Final = 60.0


class SetFull(Workload):
    """Every record is repeated until it is answered, as an idempotent producer may."""

    name: ClassVar = "set-full"
    title: ClassVar = "numbered records, idempotent, all read in the end"
    must_check: ClassVar = ("acknowledged", "read", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, PARTITIONS)]

    async def start(self) -> None:
        self._writes: list[Write] = []
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._produce(p)) for p in range(PARTITIONS)]

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def check(self) -> Findings:
        return check_set(self._writes, await read_numbers(self.cluster.bootstrap, TOPIC))

    async def _produce(self, partition: int) -> None:
        """One producer for one partition."""
        at = TopicPartition(TOPIC, partition)
        producer = f"p{partition}"
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            identity: tuple[int, int] | None = None
            number = 0
            while not self._stop.is_set():
                try:
                    identity = identity or await client.init_producer_id()
                except KafkaError:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                offset = await self._until_answered(client, at, producer, number, identity)
                outcome = Outcome.UNKNOWN if offset is None else Outcome.ACKNOWLEDGED
                self._writes.append(
                    Write(producer, number, partition, outcome, -1 if offset is None else offset)
                )
                if offset is None:
                    return
                self.progress += 1
                number += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _until_answered(
        self,
        client: KafkaClient,
        at: TopicPartition,
        producer: str,
        number: int,
        identity: tuple[int, int],
    ) -> int | None:
        """The offset; None where the end came before an answer."""
        records = encode_batch(
            # Of now: what is old is deleted by retention.
            [NewRecord(int(time.time() * 1000), b"k", f"{producer}:{number}".encode())],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=number,
        )
        stopped_at: float | None = None
        loop = asyncio.get_running_loop()
        while stopped_at is None or loop.time() < stopped_at + LAST_SECONDS_MAX:
            if self._stop.is_set() and stopped_at is None:
                stopped_at = loop.time()
            try:
                known = (await client.metadata([at.topic])).topics[at.topic].partitions
                answer = await produce_once(
                    client, known[at.partition].leader, at, records, timeout_ms=REQUEST_MS_MAX
                )
            except (KafkaError, KeyError):
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if answer.error is ErrorCode.none:
                return answer.base_offset
            if not answer.error.retriable:
                raise RuntimeError(f"{producer}:{number} is refused: {answer}")
            await asyncio.sleep(PAUSE_SECONDS)
        return None


async def read_numbers(bootstrap: str, topic: str) -> dict[int, list[Found]]:
    """What is in a topic of `PARTITIONS` partitions whose values are "producer:number"."""
    return found_numbers(await read_all(bootstrap, {topic: PARTITIONS}))


def found_numbers(read: Mapping[tuple[str, int], Sequence[Message]]) -> dict[int, list[Found]]:
    """The records of one topic, their values "producer:number" taken apart."""
    found: dict[int, list[Found]] = {}
    for (_, partition), messages in read.items():
        found[partition] = []
        for message in messages:
            producer, _, number = (message.value or "?:-1").partition(":")
            found[partition].append(Found(message.offset, producer, int(number)))
    return found
