"""A broker that tests fill as mirrors would: copies, and offset maps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats import (
    Block,
    FlowKey,
    Opening,
    Registration,
    Run,
    encode_record,
    map_topic_name,
)
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    Hold,
    Statement,
    completeness_topic_name,
    encode_statement,
)
from spark_global.links import MirrorLink
from spark_global.views import Aggregate
from tests.support.cluster import running_broker
from tests.support.listed_statements import with_listing
from tests.support.producing import produce_to

SHIFT = 1_000
"""Source offsets are so much higher than those of the aggregate."""
FOREIGN = 900_000
"""Values from here on belong to no source."""


@dataclass
class Aggregated:
    """A broker that tests fill as mirrors would."""

    bootstrap: str
    runner: asyncio.Runner
    published: set[str] = field(default_factory=set)
    rounds: int = 0
    has_sources: bool = False
    """By its maps each source is a cluster of its own; otherwise it is this cluster itself."""
    first: int = 0
    """Offset of the first copy in every partition."""

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(step)

    def aggregate(self, *sources: str) -> Aggregate:
        links = tuple(
            MirrorLink(name=f"{source}-nyc", source=source, datacenter=source.upper())
            for source in sources
        )
        return Aggregate(name="nyc", bootstrap=self.bootstrap, links=links)

    async def create(self, topic: str, partitions: int = 1, cleanup: str = "delete") -> None:
        # The records are of 1970, so retention would delete them at its next check.
        configs = {"cleanup.policy": cleanup, "retention.ms": "-1"}
        new = NewTopic(name=topic, partitions=partitions, configs=configs)
        async with KafkaClient(self.bootstrap) as client:
            created = await client.create_topics([new])
            assert not any(created.values()), created

    async def copy(
        self, topic: str, values: range, partition: int = 0, keys: int = 0, said: str = ""
    ) -> None:
        """Append one record per value, in batches of ten. The timestamp is the value in seconds.

        With `keys` the records have so many keys in turn. They begin with `said`, or the topic.
        """
        async with KafkaClient(self.bootstrap) as client:
            at = TopicPartition(topic, partition)
            for first in range(values.start, values.stop, 10):
                batch = range(first, min(first + 10, values.stop))
                records = [
                    NewRecord(
                        i * 1_000,
                        f"k{i % keys}".encode() if keys else None,
                        f"{said or topic} {i}".encode(),
                    )
                    for i in batch
                ]
                await produce_to(client, at, encode_batch(records))

    async def append(self, topic: str, values: Sequence[bytes | None]) -> None:
        """Append values as they are, with timestamp 0."""
        async with KafkaClient(self.bootstrap) as client:
            records = [NewRecord(0, None, value) for value in values]
            await produce_to(client, TopicPartition(topic, 0), encode_batch(records))

    async def delete_key(self, topic: str, value: int, key: bytes) -> None:
        """Append a tombstone."""
        async with KafkaClient(self.bootstrap) as client:
            record = NewRecord(value * 1_000, key, None)
            await produce_to(client, TopicPartition(topic, 0), encode_batch([record]))

    async def fill(self, topic: str) -> None:
        """Write what no link has copied before the first copy."""
        await self.copy(topic, range(FOREIGN, FOREIGN + self.first))

    async def committed(self, group: str) -> dict[str, int]:
        async with KafkaClient(self.bootstrap) as client:
            positions = (await committed_offsets(client, [group])).get(group, {})
            return {str(at): position.offset for at, position in positions.items()}

    async def commit(self, group: str, topic: str, offset: int) -> None:
        async with KafkaClient(self.bootstrap) as client:
            at = TopicPartition(topic, 0)
            answers = await commit_offsets(client, group, {at: CommittedOffset(offset, -1, "")})
            assert not answers[at]

    async def register(self, source: str, map_topic: str) -> None:
        """Say in a new map that the source is this cluster itself."""
        async with KafkaClient(self.bootstrap) as client:
            cluster_id = (await client.metadata([])).cluster_id or ""
            registration = Registration(
                producer_id=1,
                producer_epoch=0,
                link=f"{source}-nyc",
                source_cluster_id=f"cluster-{source}" if self.has_sources else cluster_id,
                target_cluster_id=cluster_id,
                registered_at_ms=0,
                worker_id="w",
            )
            record = NewRecord(0, *encode_record(registration))
            await produce_to(client, TopicPartition(map_topic, 0), encode_batch([record]))

    async def publish_map(
        self,
        source: str,
        topic: str,
        end: int,
        partition: int = 0,
        shift: int = SHIFT,
        target: str = "",
    ) -> None:
        """Write the map of a link: its copies have the offsets [first, first + end).

        They are in `target`, by default in SOURCE.TOPIC.
        """
        name = map_topic_name(f"{source}-nyc")
        if name not in self.published:
            self.published.add(name)
            await self.create(name, cleanup="compact")
            await self.register(source, name)
        block = Block(
            flow=FlowKey(topic, partition, UUID(int=0), UUID(int=0)),
            producer_id=1,
            producer_epoch=0,
            nonce=1,
            target_topic=target or f"{source}.{topic}",
            source_start=shift,
            target_start=self.first,
            source_next=shift + end,
            next_sequence=end,
            runs=(Run(shift, self.first, end),) if end else (),
        )
        key, value = encode_record(block)
        async with KafkaClient(self.bootstrap) as client:
            await produce_to(
                client, TopicPartition(name, 0), encode_batch([NewRecord(0, key, value)])
            )

    async def open_again(self, source: str, topic: str, start: int, end: int) -> None:
        """Say that the source topic is another one: its copies have the offsets [start, end)."""
        flow = FlowKey(topic, 0, UUID(int=2), UUID(int=0))
        opening = Opening(
            flow=flow,
            producer_id=1,
            producer_epoch=1,
            nonce=2,
            target_topic=f"{source}.{topic}",
            source_offset=0,
            target_offset=start,
            opened_at_ms=0,
            worker_id="w",
        )
        block = Block(
            flow=flow,
            producer_id=1,
            producer_epoch=1,
            nonce=2,
            target_topic=f"{source}.{topic}",
            source_start=0,
            target_start=start,
            source_next=end - start,
            next_sequence=end - start,
            runs=(Run(0, start, end - start),),
        )
        at = TopicPartition(map_topic_name(f"{source}-nyc"), 0)
        records = [NewRecord(0, *encode_record(each)) for each in (opening, block)]
        async with KafkaClient(self.bootstrap) as client:
            await produce_to(client, at, encode_batch(records))

    async def state_complete(
        self,
        source: str,
        topic: str,
        end: int,
        through_ms: int,
        hold: Hold = NO_HOLD,
        gaps: int = 0,
    ) -> None:
        """State that a copy with the source offsets below `end` is complete through a time."""
        name = completeness_topic_name(f"{source}-nyc")
        if name not in self.published:
            self.published.add(name)
            await self.create(name)
        self.rounds += 1
        entry = Entry(
            topic=topic,
            topic_id=UUID(int=1),
            partition=0,
            generation=0,
            position=end,
            session=None,
            epoch=0,
            sampled_ms=through_ms,
            end=end,
            complete_through_ms=through_ms,
            proved_through_ms=through_ms,
            gaps=gaps,
            hold=hold,
        )
        now_ms = round(time.time() * 1_000)
        statement = Statement(True, "w", self.rounds, 1, 0, 1, now_ms, (), (entry,))
        async with KafkaClient(self.bootstrap) as client:
            records = [
                NewRecord(now_ms, None, encode_statement(each)) for each in with_listing(statement)
            ]
            await produce_to(client, TopicPartition(name, 0), encode_batch(records))


@contextmanager
def running_aggregated(zookeeper: str, directory: Path) -> Iterator[Aggregated]:
    """A broker of its own that the mirrors of a test copy into, for tests without a loop."""
    with asyncio.Runner() as runner:
        context = running_broker(zookeeper, directory)
        broker = runner.run(context.__aenter__())
        try:
            yield Aggregated(broker.bootstrap, runner)
        finally:
            runner.run(context.__aexit__(None, None, None))
