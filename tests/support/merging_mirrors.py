"""Mirrors of two datacenters whose links merge into one topic; some records have no map yet."""

from __future__ import annotations

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats import Block, FlowKey, Registration, Run, encode_record, map_topic_name
from mirror_maker.formats.records import NO_TOPIC_ID
from tests.support.aggregated import Aggregated
from tests.support.producing import produce_to

PRODUCERS = {"jfk": 71, "lga": 72}


class MergingMirrors:
    """Two datacenters that copy their topic into one topic of that name."""

    def __init__(self, nyc: Aggregated, topic: str) -> None:
        self._nyc, self.topic = nyc, topic
        self._end = 0
        self._copied = dict.fromkeys(PRODUCERS, 0)
        self._runs: dict[str, list[Run]] = {name: [] for name in PRODUCERS}
        nyc.run(nyc.create(topic))
        for name in PRODUCERS:
            nyc.run(self._register(name))

    def copy(self, source: str, seconds: range, through: int, *, is_mapped: bool = True) -> None:
        """Copy a record of each second, and state that all before `through` is copied.

        Without a map nothing is stated either: the worker has died.
        """
        self._nyc.run(self._append(source, seconds))
        if is_mapped:
            self.publish(source, through)

    def publish(self, source: str, through: int) -> None:
        """Publish the map of all copies, and the statement."""
        self._nyc.run(self._publish_map(source))
        end = self._copied[source]
        self._nyc.run(self._nyc.state_complete(source, self.topic, end, through * 1_000))

    async def _append(self, source: str, seconds: range) -> None:
        records = [NewRecord(each * 1_000, b"k", f"{source} {each}".encode()) for each in seconds]
        first = self._copied[source]
        batch = encode_batch(
            records, producer_id=PRODUCERS[source], producer_epoch=0, base_sequence=first
        )
        async with KafkaClient(self._nyc.bootstrap) as client:
            await produce_to(client, TopicPartition(self.topic, 0), batch)
        self._runs[source].append(Run(first, self._end, len(records)))
        self._copied[source] += len(records)
        self._end += len(records)

    async def _publish_map(self, source: str) -> None:
        block = Block(
            flow=FlowKey(self.topic, 0, NO_TOPIC_ID, NO_TOPIC_ID),
            producer_id=PRODUCERS[source],
            producer_epoch=0,
            nonce=1,
            target_topic=self.topic,
            source_start=0,
            target_start=0,
            source_next=self._copied[source],
            next_sequence=self._copied[source],
            runs=tuple(self._runs[source]),
        )
        await self._write(source, NewRecord(0, *encode_record(block)))

    async def _register(self, source: str) -> None:
        name = map_topic_name(f"{source}-nyc")
        if name not in self._nyc.published:
            self._nyc.published.add(name)
            await self._nyc.create(name, cleanup="compact")
        async with KafkaClient(self._nyc.bootstrap) as client:
            cluster_id = (await client.metadata([])).cluster_id or ""
        registration = Registration(
            producer_id=PRODUCERS[source],
            producer_epoch=0,
            link=f"{source}-nyc",
            source_cluster_id=f"cluster-{source}",
            target_cluster_id=cluster_id,
            registered_at_ms=0,
            worker_id="w",
        )
        await self._write(source, NewRecord(0, *encode_record(registration)))

    async def _write(self, source: str, record: NewRecord) -> None:
        async with KafkaClient(self._nyc.bootstrap) as client:
            at = TopicPartition(map_topic_name(f"{source}-nyc"), 0)
            await produce_to(client, at, encode_batch([record]))
