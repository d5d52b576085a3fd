"""Openings of many flows in one request; topics of state created in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from local_cluster.client.model import ClusterMetadata, NewTopic, ProducedPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.records.batch import decode_batch
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.metadata import PartitionMetadata, TopicMetadata
from mirror_maker.formats import FlowKey, MapTopic, Opening, Registration
from mirror_maker.ports import DataSink, SystemClock
from mirror_maker.stores.map_store import MapStore
from mirror_maker.stores.state_topic import StateTopic, create_missing_topics


class Sink:
    """A target; each write waits until the test releases it."""

    def __init__(self, *topics: str, refused: Sequence[str] = ()) -> None:
        self.topics = set(topics)
        self.made: list[list[str]] = []
        self.writes: list[list[tuple[bytes | None, bytes | None]]] = []
        self.announced: list[tuple[int, int]] = []
        self.answers = asyncio.Semaphore(0)
        self._refused = refused

    async def until_written(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.writes) < count:
                await asyncio.sleep(0)

    async def metadata(self, names: Sequence[str]) -> ClusterMetadata:
        partitions = {0: PartitionMetadata(0, 0, 0, (0,), (0,), ErrorCode.none)}
        topics = {
            name: TopicMetadata(name, None, ErrorCode.none, False, partitions)
            for name in names
            if name in self.topics
        }
        return ClusterMetadata("c", 0, {}, topics)

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError | None]:
        self.made.append([topic.name for topic in topics])
        answers: dict[str, KafkaError | None] = {}
        for topic in topics:
            refusal = KafkaError(ErrorCode.topic_authorization_failed, topic.name)
            answers[topic.name] = refusal if topic.name in self._refused else None
        return answers

    async def announce_producer(self, producer_id: int, producer_epoch: int) -> None:
        self.announced.append((producer_id, producer_epoch))
        raise KafkaError(ErrorCode.network_exception, "down")

    async def produce(self, node_id: int, batches: ProduceBatches) -> Any:
        ((at, batch),) = batches.items()
        records = decode_batch(batch, 0, read_header(batch))
        self.writes.append([(record.key, record.value) for record in records])
        await self.answers.acquire()
        return {at: ProducedPartition(ErrorCode.none, 0, -1, 0, None)}


def map_store(sink: Sink) -> MapStore:
    store = MapStore(
        cast(DataSink, sink),
        link="a-b",
        terms={},
        worker_id="w",
        replication_factor=1,
        clock=SystemClock(),
        random=Random(1),
    )
    sink.topics.add(store.topic)
    return store


def opening(partition: int) -> Opening:
    return Opening(
        flow=FlowKey("t", partition, UUID(int=1), UUID(int=2)),
        producer_id=1,
        producer_epoch=0,
        nonce=0,
        target_topic="a.t",
        source_offset=0,
        target_offset=0,
        opened_at_ms=0,
        worker_id="w",
    )


def opened(sink: Sink) -> list[int]:
    topic = MapTopic()
    for write in sink.writes:
        for key, value in write:
            topic.replay(key, value)
    return sorted(flow.partition for flow in topic.flows())


async def test_openings_due_at_once_are_written_in_one_request() -> None:
    sink = Sink()
    store = map_store(sink)
    tasks = [asyncio.create_task(store.append_opening(opening(n))) for n in range(50)]
    await sink.until_written(1)
    assert not any(task.done() for task in tasks), "none of them is durable yet"
    late = asyncio.create_task(store.append_opening(opening(50)))
    sink.answers.release()
    await asyncio.gather(*tasks)
    await sink.until_written(2)
    assert not late.done()
    sink.answers.release()
    await late
    assert [len(write) for write in sink.writes] == [50, 1]
    assert opened(sink) == list(range(51))


async def test_openings_written_again_for_other_callers_are_other_records() -> None:
    """Otherwise compaction would keep the later record, after another worker's opening."""
    sink = Sink()
    store = map_store(sink)
    leader, other = (asyncio.create_task(store.append_opening(opening(n))) for n in range(2))
    await sink.until_written(1)
    leader.cancel()
    await sink.until_written(2)
    sink.answers.release()
    await other
    keys = [key for write in sink.writes for key, _ in write]
    assert len(keys) == len(set(keys)) == 4
    assert opened(sink) == [0, 1]


async def test_a_link_that_starts_again_names_its_producer_id_and_needs_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = Sink()
    store = map_store(sink)
    store.state.registrations.append(
        Registration(
            producer_id=7,
            producer_epoch=2,
            link="a-b",
            source_cluster_id="here",
            target_cluster_id="there",
            registered_at_ms=0,
            worker_id="w",
        )
    )

    async def nothing() -> None: ...

    monkeypatch.setattr(store, "catch_up", nothing)
    monkeypatch.setattr(store, "_wait_until_listed", nothing)
    await store.open("here")
    assert sink.announced == [(7, 2)]
    assert store.registration.producer_id == 7


def state_topic(sink: Sink, name: str) -> StateTopic:
    return StateTopic(
        cast(DataSink, sink),
        name,
        replication_factor=1,
        clock=SystemClock(),
        replay=lambda key, value: None,
    )


async def test_topics_of_state_are_made_in_one_request() -> None:
    sink = Sink("there", refused=["refused"])
    topics = [state_topic(sink, name) for name in ("there", "new", "refused")]
    failures = await create_missing_topics(cast(DataSink, sink), topics)
    assert sink.made == [["new", "refused"]]
    assert failures.keys() == {"refused"}
    with pytest.raises(KafkaError, match="refused"):
        await topics[2].ensure()
    await topics[0].ensure()
    assert len(sink.made) == 2
