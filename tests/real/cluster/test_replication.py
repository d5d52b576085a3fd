"""Three real brokers, each with a replica of every partition."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.controller.zk.session_file import SESSION_FILE
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.replication.replica_selector import RACK_AWARE
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import records_size_bytes
from tests.real.cluster.control_plane_member import end_session
from tests.support.cluster import BrokerProcess
from tests.support.producing import produce_once
from tests.support.replicas import (
    all_in_sync,
    bootstrap,
    end_offset,
    eventually,
    leader_of,
    partition_of,
    replicas_are_equal,
    running_cluster,
    until_known,
)

pytestmark = pytest.mark.real

AT = TopicPartition("t", 0)
FETCH_VERSION = 12


def batch(*values: bytes) -> bytearray:
    return encode_batch([NewRecord(index, None, value) for index, value in enumerate(values)])


async def test_an_acknowledged_record_is_on_every_replica(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        assert await client.create_topics([NewTopic(name="t", partitions=3)]) == {"t": None}
        await until_known(brokers, client, "t")
        state = await partition_of(client, "t")
        assert sorted(state.replicas) == sorted(state.isr) == [1, 2, 3]
        for index in range(20):
            answer = await produce_once(client, state.leader, AT, batch(b"%d" % index))
            assert (answer.error, answer.base_offset) == (ErrorCode.none, index)
            # All three are in sync: an acknowledged record is on all of them.
            assert [end_offset(broker, "t") for broker in brokers] == [index + 1] * 3
        values = [record.value async for record in read_topic(client, "t")]
        assert values == [b"%d" % index for index in range(20)]
        await replicas_are_equal(brokers, "t")


async def test_too_few_in_sync_are_refused_and_nothing_is_committed(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        await until_known(brokers, client, "t")
        leader = await leader_of(brokers, client, "t")
        node_id = leader.settings.broker_id
        others = [broker for broker in brokers if broker is not leader]
        assert (await produce_once(client, node_id, AT, batch(b"all"))).error == ErrorCode.none
        for broker in others:
            broker.pause()
        try:
            async with KafkaClient(leader.bootstrap) as alone:
                # Appended while all were in sync; then too few were.
                late = await produce_once(alone, node_id, AT, batch(b"late"), timeout_ms=15_000)
                assert late.error == ErrorCode.not_enough_replicas_after_append

                async def refused() -> bool:
                    answer = await produce_once(alone, node_id, AT, batch(b"none"))
                    return answer.error == ErrorCode.not_enough_replicas

                await eventually(refused)
                one = await produce_once(alone, node_id, AT, batch(b"one"), acks=1)
                assert one.error == ErrorCode.none
                seen = (await alone.fetch(node_id, {AT: FetchPosition(1)}, wait_ms_max=0))[AT]
                assert (seen.high_watermark, len(seen.records)) == (1, 0), (
                    "no record is committed below min.insync.replicas"
                )
        finally:
            for broker in others:
                broker.resume()

        async def all_committed() -> bool:
            answer = (await client.list_offsets({AT: -1}))[AT]
            return bool(answer.offset == one.base_offset + 1)

        await eventually(all_committed)
        await replicas_are_equal(brokers, "t")
        values = [record.value async for record in read_topic(client, "t")]
        assert values == [b"all", b"late", b"one"]


async def test_a_new_broker_and_a_long_absent_one_catch_up(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        configs = {"internal.segment.bytes": "20000"}
        await client.create_topics([NewTopic(name="t", partitions=1, configs=configs)])
        await until_known(brokers, client, "t")
        leader = await leader_of(brokers, client, "t")
        node_id = leader.settings.broker_id
        absent = next(broker for broker in brokers if broker is not leader)
        await absent.stop()
        for _ in range(10):
            answer = await produce_once(client, node_id, AT, batch(*[b"x" * 1000] * 5))
            assert answer.error == ErrorCode.none
        # Within a batch, where the absent replica has to start over.
        fields = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 42}]}]}
        deleted = await client.call(
            ApiKey.DELETE_RECORDS, {**fields, "timeout": 10_000}, node_id=node_id
        )
        assert deleted.topics[0].partitions[0].error_code == ErrorCode.none
        await absent.start()
        await eventually(lambda: all_in_sync(client, "t"))
        # It led none of these records; now it must be able to lead.
        await leader.kill()

        async def led_by_another() -> bool:
            async with KafkaClient(absent.bootstrap) as other:
                return bool((await partition_of(other, "t")).leader not in (-1, node_id))

        await eventually(led_by_another)
        offsets: list[int] = []

        async def is_read() -> bool:
            # The new leader may hear of its election a moment after the others.
            with contextlib.suppress(KafkaError):
                async with KafkaClient(absent.bootstrap) as other:
                    offsets[:] = [record.offset async for record in read_topic(other, "t")]
                    return True
            return False

        await eventually(is_read)
        assert offsets[-1] == 49
        assert offsets[0] >= 42, "deleted records stay deleted on every replica"


async def test_a_follower_at_rest_that_registered_anew_is_in_sync_again(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=4)])
        await until_known(brokers, client, "t")
        leader = await leader_of(brokers, client, "t")
        answer = await produce_once(client, leader.settings.broker_id, AT, batch(b"v"))
        assert answer.error == ErrorCode.none
        follower = next(broker for broker in brokers if broker is not leader)
        node_id = follower.settings.broker_id
        saved = json.loads((follower.log_dir / SESSION_FILE).read_bytes())
        session = saved["session_id"], bytes.fromhex(saved["password"])
        # Its process and its connections survive its registration.
        follower.pause()
        try:
            await asyncio.to_thread(end_session, follower.settings.zookeeper_connect, session)
            async with KafkaClient(leader.bootstrap) as alone:

                async def is_gone() -> bool:
                    cluster = await alone.metadata(["t"])
                    partitions = cluster.topics["t"].partitions.values()
                    return all(node_id not in p.isr for p in partitions)

                await eventually(is_gone)
        finally:
            follower.resume()
        # No client writes: its leaders see it only because it names all partitions that it follows.
        await eventually(lambda: all_in_sync(client, "t"))


async def test_a_consumer_reads_from_the_replica_in_its_rack(
    zookeeper: str, tmp_path: Path
) -> None:
    config = {"replica.selector.class": RACK_AWARE}
    async with (
        running_cluster(zookeeper, tmp_path, config=config, has_racks=True) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        await until_known(brokers, client, "t")
        leader = await leader_of(brokers, client, "t")
        node_id = leader.settings.broker_id
        for _ in range(5):
            answer = await produce_once(client, node_id, AT, batch(b"v"))
            assert answer.error == ErrorCode.none
        near = next(broker for broker in brokers if broker is not leader)
        sent_to = await fetch_as_from(leader, near.settings.rack or "")
        assert sent_to.preferred_read_replica == near.settings.broker_id
        assert not records_size_bytes(sent_to.records)
        own = await fetch_as_from(leader, leader.settings.rack or "")
        assert (own.preferred_read_replica, own.high_watermark) == (-1, 5)

        async def all_is_readable_there() -> bool:
            found = await fetch_as_from(near, near.settings.rack or "")
            assert found.error_code == ErrorCode.none
            assert found.preferred_read_replica == -1
            # The follower learns the leader's high watermark with its next fetch.
            return found.high_watermark == 5 and found.records == own.records

        await eventually(all_is_readable_there)


async def fetch_as_from(broker: BrokerProcess, rack_id: str) -> codec.PartitionFetchResponse:
    """Fetch t-0 from its start, as a consumer in a rack."""
    connection = await connect("127.0.0.1", broker.port, client_id="c", timeout_ms=10_000)
    asked = codec.FetchPartition("t", 0, -1, 0, -1, -1, 1_000_000)
    request = codec.FetchRequest(-1, 0, 1, 1_000_000, 0, 0, -1, [asked], (), rack_id)
    body = codec.encode_request(FETCH_VERSION, request)
    frame, position = await connection.send(ApiKey.FETCH, FETCH_VERSION, (body,))
    _, _, (answer,) = codec.decode_response(FETCH_VERSION, frame, position)
    await connection.close()
    return answer
