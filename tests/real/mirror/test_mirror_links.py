"""Features of a link besides failures: transactions, discovery, sharing, stops, the map in time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.admin.group_offsets import committed_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.records.compress import Codec
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.kafka_from_maven import running_kafka
from tests.support.mirror_process import MirrorProcess, check_map, mirror, read_map, read_records
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

T0 = TopicPartition("t", 0)
COPY = TopicPartition("a.t", 0)
LONG_SESSION_MS = 300_000
"""Longer than anything here is waited for."""
Brokers = tuple[BrokerProcess, BrokerProcess]


async def write(
    client: KafkaClient, at: TopicPartition, count: int, codec: int = 0, first: int = 0
) -> None:
    now_ms = time.time_ns() // 1_000_000
    records = [NewRecord(now_ms, b"k%d" % n, b"v", ()) for n in range(first, first + count)]
    await produce_to(client, at, encode_batch(records, codec=codec))


async def create(client: KafkaClient, name: str, partitions: int = 1) -> None:
    assert (await client.create_topics([NewTopic(name=name, partitions=partitions)]))[name] is None


async def until_copied(client: KafkaClient, at: TopicPartition, count: int) -> list[Record]:
    async with asyncio.timeout(30):
        while len(records := await read_records(client, at)) < count:
            await asyncio.sleep(0.05)
    return records


async def test_every_codec_passes_and_the_link_runs(
    brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_broker, target_broker = brokers
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        for codec in Codec:
            await write(source, T0, 50, codec, first=50 * codec)
        async with mirror(
            tmp_path,
            source_broker.bootstrap,
            target_broker.bootstrap,
            source_group="seen-by-lag-tools",
            trace_batches=True,
        ) as worker:
            copies = await until_copied(target, COPY, 250)
            assert [r[1:] for r in copies] == [r[1:] for r in await read_records(source, T0)]
            link: dict[str, Any] = {}

            async def knows_of_all() -> bool:
                # The target may show the last records before the worker has its answer.
                link.update(await worker.link())
                flows = link["flows"]
                return bool(link["state"] == "RUNNING" and flows[0]["records_copied"] == 250)

            await worker.until(knows_of_all)
            assert (link["lag_records"], link["partitions"], link["topics"]) == (0, 1, 1)
            assert link["flows"][0]["batches"]["passthrough"] == 5
            metrics = await worker.get("/metrics")
            assert "heliograph_mirror_records_copied_total" in metrics
            latency = 'seconds_count{link="a-b",topic="t"} 250\n'
            assert f"heliograph_mirror_replication_latency_{latency}" in metrics
            await until_committed(source, "seen-by-lag-tools", 250)
            assert await worker.stop() == 0
            assert not Path(worker.settings.ready_file).exists()
            assert '"name": "copy a.t"' in worker.log_text()
        check_map(await read_map(target, T0), await read_records(source, T0), copies)


async def until_committed(client: KafkaClient, group: str, offset: int) -> None:
    """Wait until a group at the source has this position, as its lag tools would see it."""
    async with asyncio.timeout(60):
        while True:
            found = (await committed_offsets(client, [group])).get(group, {}).get(T0)
            if found is not None and found.offset == offset:
                return
            await asyncio.sleep(0.1)


async def test_topics_and_partitions_that_come_later(brokers: Brokers, tmp_path: Path) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
        mirror(
            tmp_path,
            source_broker.bootstrap,
            target_broker.bootstrap,
            topics=("t", "later.*"),
        ),
    ):
        await create(source, "later-1", 2)
        await create(source, "other", 1)
        later = TopicPartition("later-1", 1)
        await write(source, later, 5)
        await until_copied(target, later._replace(topic="a.later-1"), 5)
        topics = (await target.metadata()).topics
        assert len(topics["a.later-1"].partitions) == 2
        assert "a.other" not in topics
        assert (await source.create_partitions({"later-1": 3}))["later-1"] is None
        grown = TopicPartition("later-1", 2)
        async with asyncio.timeout(30):
            while len((await source.metadata(["later-1"])).topics["later-1"].partitions) < 3:
                await asyncio.sleep(0.05)
        await write(source, grown, 4)
        await until_copied(target, grown._replace(topic="a.later-1"), 4)


async def test_workers_share_and_hand_over(brokers: Brokers, tmp_path: Path) -> None:
    source_broker, target_broker = brokers
    peers = (source_broker.bootstrap, target_broker.bootstrap)
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t", 4)
        async with (
            mirror(tmp_path, *peers, worker_id="w1", session_timeout_ms=LONG_SESSION_MS) as first,
            mirror(tmp_path, *peers, worker_id="w2", session_timeout_ms=LONG_SESSION_MS) as second,
        ):
            await until_partitions(first, 2)
            await until_partitions(second, 2)
            for index in range(4):
                await write(source, TopicPartition("t", index), 10)
                await until_copied(target, TopicPartition("a.t", index), 10)
            assert await first.stop() == 0
            # It left the group cleanly, so no member waits for its session timeout.
            await until_partitions(second, 4)
            for index in range(4):
                await write(source, TopicPartition("t", index), 10, first=10)
                copies = await until_copied(target, TopicPartition("a.t", index), 20)
                assert [r.key for r in copies] == [b"k%d" % n for n in range(20)]


async def until_partitions(worker: MirrorProcess, count: int) -> None:
    async with asyncio.timeout(30):
        while (await worker.link())["partitions"] != count:
            await asyncio.sleep(0.05)


async def test_a_re_created_topic_stops_its_flow_and_no_other(
    brokers: Brokers, tmp_path: Path
) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await create(source, "u")
        await write(source, T0, 3)
        async with mirror(
            tmp_path, source_broker.bootstrap, target_broker.bootstrap, topics=("t", "u")
        ) as worker:
            await until_copied(target, COPY, 3)
            assert (await source.delete_topics(["t"]))["t"] is None
            await create_again(source, "t")
            await write(source, T0, 7, first=100)
            link = await worker.until_state("DEGRADED")
            failed = next(flow for flow in link["flows"] if flow["topic"] == "t")
            async with asyncio.timeout(30):
                while failed["state"] != "FAILED":
                    await asyncio.sleep(0.1)
                    link = await worker.link()
                    failed = next(flow for flow in link["flows"] if flow["topic"] == "t")
            assert "re-created" in failed["reason"]
            await write(source, TopicPartition("u", 0), 3)
            await until_copied(target, TopicPartition("a.u", 0), 3)
            assert len(await read_records(target, COPY)) == 3


async def create_again(client: KafkaClient, name: str) -> None:
    """Re-create the topic; its deletion may take a moment."""
    async with asyncio.timeout(30):
        while (await client.create_topics([NewTopic(name=name, partitions=1)]))[name] is not None:
            await asyncio.sleep(0.1)


@pytest.mark.oracle
async def test_transactions_of_kafka(zookeeper: str, tmp_path: Path) -> None:
    """Committed ones arrive, aborted ones do not, an open one holds back later records."""
    from confluent_kafka import Producer

    async with (
        running_kafka(tmp_path / "source") as source_kafka,
        running_broker(zookeeper, tmp_path / "target", cluster="target") as target_broker,
        KafkaClient(source_kafka.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")

        def transactional(transactional_id: str) -> Producer:
            producer = Producer(
                {
                    "bootstrap.servers": source_kafka.bootstrap,
                    "transactional.id": transactional_id,
                    "compression.type": "lz4",
                }
            )
            producer.init_transactions(30)
            return producer

        def send(producer: Producer, *values: bytes) -> None:
            for value in values:
                producer.produce("t", value, partition=0)
            producer.flush(30)

        def transactions() -> Producer:
            one, other = transactional("one"), transactional("other")
            for number in range(4):
                one.begin_transaction()
                other.begin_transaction()
                send(one, b"committed-%d-a" % number)
                send(other, b"aborted-%d" % number)
                send(one, b"committed-%d-b" % number)
                one.commit_transaction(30)
                other.abort_transaction(30)
            one.begin_transaction()
            send(one, b"open")
            return one

        async with mirror(tmp_path, source_kafka.bootstrap, target_broker.bootstrap) as worker:
            still_open = await asyncio.to_thread(transactions)
            await write(source, T0, 1)  # behind the open transaction
            copies = await until_copied(target, COPY, 8)
            await asyncio.sleep(1)
            assert [r.value for r in await read_records(target, COPY)] == [
                b"committed-%d-%s" % (number, part) for number in range(4) for part in (b"a", b"b")
            ]
            await asyncio.to_thread(still_open.commit_transaction, 30)
            copies = await until_copied(target, COPY, 10)
            assert [r.value for r in copies[8:]] == [b"open", b"v"]
            assert await worker.stop() == 0
        offset_map = await read_map(target, T0)
        end = (await source.list_offsets({T0: -1}))[T0].offset
        assert offset_map.source_next == end
        assert offset_map.translate(end).target_offset == 10
        originals = [
            r for r in await read_records(source, T0) if not (r.value or b"").startswith(b"aborted")
        ]
        assert len(originals) == 10
        for original, copy in zip(originals, copies, strict=True):
            assert original[1:] == copy[1:]
            assert offset_map.source_of(copy.offset) == original.offset
            assert offset_map.translate(original.offset).target_offset == copy.offset


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_link_creates_more_partitions_than_kafka_takes_in_a_request(
    zookeeper: str, tmp_path: Path
) -> None:
    """Apache Kafka refuses a request for more than 10,000 partitions, whole."""
    names = [f"t{index}" for index in range(110)]
    async with (
        running_broker(zookeeper, tmp_path / "source", cluster="source") as source_broker,
        running_kafka(tmp_path / "target") as target_kafka,
        KafkaClient(source_broker.bootstrap) as source,
    ):
        for name in names:
            await create(source, name, partitions=100)
        link = mirror(
            tmp_path, source_broker.bootstrap, target_kafka.bootstrap, topics=("t[0-9]+",)
        )
        async with link as worker, asyncio.timeout(600):
            while (await worker.link())["partitions"] < 100 * len(names):
                await asyncio.sleep(1)
            await worker.until_state("RUNNING", seconds_max=500)
