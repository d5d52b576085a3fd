"""Records that cannot be copied, with real processes: split, waited for, or skipped and
journaled.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from mirror_maker.rules.trouble import Policies
from mirror_maker.settings import Limits
from tests.support.cluster import BrokerProcess
from tests.support.mirror_process import MirrorProcess, mirror, read_map, read_records
from tests.support.producing import produce_to
from topology.deployment.deployment import ClusterView, Deployment, LinkView
from topology.mirror.gaps import read_gaps

pytestmark = pytest.mark.real

T0 = TopicPartition("t", 0)
COPY = TopicPartition("a.t", 0)
WAIT_SECONDS_MAX = 60.0
LIMIT_BYTES = 20_000
Brokers = tuple[BrokerProcess, BrokerProcess]


async def write(client: KafkaClient, *values: bytes) -> None:
    """Write one batch."""
    batch = encode_batch([NewRecord(1_700_000_000_000 + n, b"k", v) for n, v in enumerate(values)])
    await produce_to(client, T0, batch)


async def create(client: KafkaClient, name: str, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(name=name, partitions=1, configs={"retention.ms": "-1", **named})
    assert (await client.create_topics([new]))[name] is None


async def until_copied(client: KafkaClient, worker: MirrorProcess, count: int) -> list[bytes]:
    copies = await read_records(client, COPY)
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(copies) < count:
                await asyncio.sleep(0.1)
                copies = await read_records(client, COPY)
    except TimeoutError:
        raise AssertionError(f"{len(copies)} of {count}\n{worker.log_text()[-4000:]}") from None
    return [record.value or b"" for record in copies]


async def journal(target: BrokerProcess) -> list[dict[str, object]]:
    """Return the output of `heliograph gaps`."""
    deployment = Deployment(
        name="test",
        topology_file="-",
        clusters=(ClusterView(name="b", kind="local", datacenter="b", bootstrap=target.bootstrap),),
        links=(LinkView(name="a-b", source="a", target="b", daemon="-"),),
    )
    return await asyncio.to_thread(read_gaps, deployment)


async def test_batches_too_large_are_split_and_records_too_large_skipped(
    brokers: Brokers, tmp_path: Path
) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await create(target, "a.t", max_message_bytes=str(LIMIT_BYTES))
        assert await journal(target_broker) == [], "the journal does not exist yet"
        small = [b"%04d" % n * 100 for n in range(200)]  # 80 kB in one batch
        large = b"large" * LIMIT_BYTES
        await write(source, *small[:100])
        await write(source, *small[100:150], large, *small[150:])
        await write(source, b"end")
        expected = [*small, b"end"]
        async with mirror(
            tmp_path,
            source_broker.bootstrap,
            target_broker.bootstrap,
            on=Policies(too_large="skip"),
        ) as worker:
            assert await until_copied(target, worker, len(expected)) == expected
            (gap,) = await journal(target_broker)
            place = (gap["source_from"], gap["source_to"], gap["records_count"], gap["reason"])
            assert place == (150, 151, 1, "too_large")
            assert gap["target_offset"] == 150
            flow = (await worker.link())["flows"][0]
            assert (flow["gaps"], flow["last_gap"]["source_from"]) == (1, 150)
            assert 'reason="too_large"} 1' in await worker.get("/metrics")
            await worker.kill()
            await worker.start()
            await write(source, b"after")
            assert await until_copied(target, worker, len(expected) + 1) == [*expected, b"after"]
            assert await worker.stop() == 0
        offset_map = await read_map(target, T0)
        originals = [r for r in await read_records(source, T0) if r.value != large]
        for copy, original in zip(await read_records(target, COPY), originals, strict=True):
            assert offset_map.source_of(copy.offset) == original.offset
        assert offset_map.translate(150).target_offset == offset_map.translate(151).target_offset
        assert len(await journal(target_broker)) == 1


async def test_a_paused_record_is_copied_when_the_target_takes_it(
    brokers: Brokers, tmp_path: Path
) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await create(target, "a.t", max_message_bytes=str(LIMIT_BYTES))
        await write(source, b"before", b"large" * LIMIT_BYTES, b"after")
        async with mirror(tmp_path, source_broker.bootstrap, target_broker.bootstrap) as worker:
            assert await until_copied(target, worker, 1) == [b"before"]
            await worker.until_state("DEGRADED", WAIT_SECONDS_MAX)
            await target.call_controller(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                {
                    "resources": [
                        {
                            "resource_type": 2,
                            "resource_name": "a.t",
                            "configs": [
                                {
                                    "name": "max.message.bytes",
                                    "config_operation": 0,
                                    "value": "1000000",
                                }
                            ],
                        }
                    ],
                    "validate_only": False,
                },
            )
            values = await until_copied(target, worker, 3)
            assert values == [b"before", b"large" * LIMIT_BYTES, b"after"]
            await worker.until_state("RUNNING", WAIT_SECONDS_MAX)
            assert await journal(target_broker) == []
            assert await worker.stop() == 0


async def test_retention_overtakes_the_mirror(brokers: Brokers, tmp_path: Path) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await write(source, b"0", b"1", b"2")
        async with mirror(
            tmp_path,
            source_broker.bootstrap,
            target_broker.bootstrap,
            on=Policies(out_of_range="skip"),
        ) as worker:
            await until_copied(target, worker, 3)
            assert await worker.stop() == 0
            await write(source, b"3", b"4", b"5", b"6")
            await delete_records(source, before_offset=5)
            await worker.start()
            await write(source, b"7")
            values = await until_copied(target, worker, 6)
            assert values == [b"0", b"1", b"2", b"5", b"6", b"7"]
            (gap,) = await journal(target_broker)
            assert (gap["source_from"], gap["source_to"], gap["reason"]) == (3, 5, "out_of_range")
            assert gap["records_count"] is None
            assert await worker.stop() == 0
        offset_map = await read_map(target, T0)
        assert [offset_map.translate(o).target_offset for o in range(9)] == [
            0, 1, 2, 3, 3, 3, 4, 5, 6,
        ]  # fmt: skip


async def delete_records(client: KafkaClient, before_offset: int) -> None:
    leader = (await client.metadata([T0.topic])).topics[T0.topic].partitions[0].leader
    answer = await client.call(
        ApiKey.DELETE_RECORDS,
        {
            "topics": [
                {
                    "name": T0.topic,
                    "partitions": [{"partition_index": 0, "offset": before_offset}],
                }
            ],
            "timeout": 30_000,
        },
        node_id=leader,
    )
    assert answer.topics[0].partitions[0].error_code == 0, answer


@pytest.mark.parametrize("are_more_lost", [False, True], ids=["all copied", "some lost"])
async def test_records_deleted_at_the_source_before_the_map_was_written(
    are_more_lost: bool, brokers: Brokers, tmp_path: Path
) -> None:
    """A worker is killed after it has copied them. The journal does not report them as lost."""
    source_broker, target_broker = brokers
    bootstraps = source_broker.bootstrap, target_broker.bootstrap
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await write(source, *(b"%d" % n for n in range(10)))
        async with mirror(tmp_path, *bootstraps) as worker:
            await until_copied(target, worker, 10)
            assert await worker.stop() == 0
        never = Limits(map_flush_ms=3_600_000)
        async with mirror(tmp_path, *bootstraps, limits=never) as worker:
            await write(source, *(b"%d" % n for n in range(10, 17)))
            await until_copied(target, worker, 17)
            await worker.kill()
        lost = range(17, 22 if are_more_lost else 17)
        if lost:
            await write(source, *(b"%d" % n for n in lost))
        await write(source, *(b"%d" % n for n in range(22, 25)))
        first = lost.stop
        await delete_records(source, before_offset=first)
        policies = Policies(out_of_range="skip")
        async with mirror(tmp_path, *bootstraps, on=policies) as worker:
            copies = await until_copied(target, worker, 20)
            assert await worker.stop() == 0
        expected = [*range(17), *range(22, 25)]
        assert copies == [b"%d" % n for n in expected]
        offset_map = await read_map(target, T0)
        for offset in range(first + 4):
            answer = offset_map.translate(offset)
            is_known = offset <= 10 or offset >= first or not lost
            assert answer.state.value == ("exact" if is_known else "inexact")
            assert answer.target_offset == (
                17 + offset - first if offset >= first else min(offset, 17) if is_known else 10
            )
    entries = await journal(target_broker)
    copied = next(each for each in entries if each["kind"] == "copied")
    assert (copied["source_from"], copied["source_to"], copied["copied_count"]) == (10, first, 7)
    assert (copied["target_offset"], copied["target_to"]) == (10, 17)
    told = [(each["source_from"], each["source_to"]) for each in entries if each["kind"] == "lost"]
    assert told == [(lost.start, lost.stop)] * bool(lost)
