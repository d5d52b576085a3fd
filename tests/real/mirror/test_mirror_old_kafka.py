"""Kafka 2.8.2 as source and as target: every feature of a link, with and without topic ids."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from local_cluster.client.admin.configs import alter_topic_configs
from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.wire.errors import ErrorCode
from mirror_maker.formats.mm2 import (
    checkpoints_topic,
    decode_checkpoint,
    decode_offset_sync,
    offset_syncs_topic,
)
from mirror_maker.settings import Limits
from tests.support.mirror_peers import Peers, pair, running_peers
from tests.support.mirror_process import check_map, mirror, read_map, read_records
from tests.support.producing import produce_to

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600)]

T0 = TopicPartition("t", 0)
COPY = TopicPartition("a.t", 0)
CODECS = (0, 1, 2, 3, 4)
PER_CODEC = 20
BEFORE = len(CODECS) * PER_CODEC


@pytest.fixture(
    params=[
        pair("kafka-2.8->own"),
        pair("own->kafka-2.8"),
        pair("kafka-2.7->own"),
        pair("own->kafka-2.7"),
        pair("kafka-2.8->kafka"),
    ]
)
async def peers(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path: Path
) -> AsyncIterator[Peers]:
    async with running_peers(request.param, zookeeper, tmp_path) as found:
        yield found


async def write(client: KafkaClient, first: int, end: int, codec: int = 0) -> None:
    now_ms = time.time_ns() // 1_000_000
    records = [NewRecord(now_ms, b"k%d" % n, b"v%d" % n, (("h", b"x"),)) for n in range(first, end)]
    await produce_to(client, T0, encode_batch(records, codec=codec))


def write_transactions(bootstrap: str) -> None:
    """Write one transaction that is aborted, then one that is committed."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "x", "compression.type": "zstd"}
    )
    producer.init_transactions(60)
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.produce(T0.topic, value, partition=0)
        producer.flush(60)
        if value == b"aborted":
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


async def position(client: KafkaClient, group: str, at: TopicPartition) -> int | None:
    found = (await committed_offsets(client, [group])).get(group, {}).get(at)
    return found.offset if found is not None else None


async def test_every_feature_of_a_link_works(
    peers: Peers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source_peer, target_peer = peers
    async with (
        KafkaClient(source_peer.bootstrap) as source,
        KafkaClient(target_peer.bootstrap) as target,
    ):
        new = NewTopic(name="t", partitions=1, configs={"retention.ms": "-1"})
        assert (await source.create_topics([new]))["t"] is None
        for number, codec in enumerate(CODECS):
            await write(source, number * PER_CODEC, (number + 1) * PER_CODEC, codec)
        async with mirror(
            tmp_path,
            source_peer.bootstrap,
            target_peer.bootstrap,
            topics=("t", "later"),
            sync_group_offsets=True,
            sync_configs=True,
            mm2_topics="target",
            limits=Limits(topic_sync_ms=500),
        ) as worker:

            async def has_copies(count: int) -> bool:
                return len(await read_records(target, COPY)) >= count

            await worker.until(lambda: has_copies(BEFORE))
            await worker.kill()
            await write(source, BEFORE, BEFORE + 50)
            await asyncio.to_thread(write_transactions, source_peer.bootstrap)
            await worker.start()
            await worker.until(lambda: has_copies(BEFORE + 51))
            copies = await read_records(target, COPY)
            originals = [r for r in await read_records(source, T0) if r.value != b"aborted"]
            assert [r[1:] for r in copies] == [r[1:] for r in originals]

            # The group's position is behind the aborted record and the marker before `committed`.
            at_source = originals[-1].offset
            assert at_source > len(originals) - 1
            committed = await commit_offsets(
                source, "app", {T0: CommittedOffset(at_source, -1, "m")}
            )
            assert committed == {T0: ErrorCode.none}
            await worker.until(lambda: _is(position(target, "app", COPY), copies[-1].offset))

            checkpoints = TopicPartition(checkpoints_topic("a"), 0)

            async def has_checkpoint() -> bool:
                found = [decode(r) for r in await read_records(target, checkpoints)]
                return ("app", at_source, copies[-1].offset) in found

            await worker.until(has_checkpoint)
            syncs = await read_records(target, TopicPartition(offset_syncs_topic("a"), 0))
            found = [decode_offset_sync(r.key or b"", r.value or b"") for r in syncs]
            pairs = {r.offset: copy.offset for r, copy in zip(originals, copies, strict=True)}
            of_t = [sync for sync in found if sync.topic == "t"]
            assert of_t, "if the killed worker wrote none, its successor did"
            assert all(pairs[sync.upstream_offset] == sync.downstream_offset for sync in of_t)

            changed = await alter_topic_configs(source, {"t": {"retention.ms": "864000000"}})
            assert changed == {"t": None}

            async def has_config() -> bool:
                configs = (await target.describe_topic_configs(["a.t"]))["a.t"]
                return configs["retention.ms"] == ("864000000", False)

            await worker.until(has_config)

            # Later topics and partitions are found and copied.
            assert (await source.create_topics([NewTopic(name="later", partitions=1)]))[
                "later"
            ] is None
            await worker.until(lambda: _has_partitions(target, "a.later", 1))
            assert (await source.create_partitions({"later": 2}))["later"] is None
            await worker.until(lambda: _has_partitions(target, "a.later", 2))

            has_ids = [
                (await client.metadata([name])).topics[name].topic_id is not None
                for client, name in ((source, "t"), (target, "a.t"))
            ]
            assert has_ids == ["2.7" not in kind for kind in _kinds(request)]
            assert await worker.stop() == 0
        check_map(await read_map(target, T0), originals, copies)


def decode(record: Record) -> tuple[str, int, int]:
    checkpoint = decode_checkpoint(record.key or b"", record.value or b"")
    return checkpoint.group, checkpoint.upstream_offset, checkpoint.downstream_offset


async def _is(found: Awaitable[int | None], expected: int) -> bool:
    return await found == expected


async def _has_partitions(client: KafkaClient, topic: str, count: int) -> bool:
    found = (await client.metadata([topic])).topics[topic]
    return not found.error and len(found.partitions) == count


def _kinds(request: pytest.FixtureRequest) -> list[str]:
    callspec = request.node.callspec
    kinds: str = callspec.params["peers"]
    return kinds.split("->")
