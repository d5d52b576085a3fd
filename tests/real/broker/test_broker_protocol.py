"""The responses of a broker over raw sockets: the rules that break clients."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.features import FEATURES
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire import messages, produce
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.header import encode_request_header, read_response_header
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once

pytestmark = pytest.mark.real

AT = TopicPartition("t", 0)
TCP_TABLE = Path("/proc/net/tcp")
KEEPALIVE_TIMER = "02"
"""Of a row there: the next thing to happen is a keepalive probe."""


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with (
        running_broker(zookeeper, tmp_path) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        assert (await client.create_topics([NewTopic(name="t", partitions=1)]))["t"] is None
        yield broker


class Peer:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, api: int, version: int, body: bytes, correlation_id: int = 1) -> None:
        known = api in set(ApiKey)
        header = (
            encode_request_header(api, version, correlation_id, "raw")
            if known
            else struct.pack(">hhih", api, version, correlation_id, -1)
        )
        frame = header + body
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def receive(self) -> memoryview:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return memoryview(await self.reader.readexactly(size))

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
async def peer(broker: BrokerProcess) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    async with asyncio.timeout(30):
        yield Peer(reader, writer)
    writer.close()


def batch(*values: bytes, **options: Any) -> bytearray:
    return encode_batch([NewRecord(1000, b"k", value) for value in values], **options)


def produce_body(version: int, acks: int, records: bytes | bytearray, topic: str = "t") -> bytes:
    request = produce.ProduceRequest(
        None, acks, 5000, [produce.PartitionRecords(topic, 0, memoryview(records))]
    )
    return b"".join(produce.encode_request(version, request))


async def produced(peer: Peer, version: int) -> produce.PartitionProduceResponse:
    frame = await peer.receive()
    _, position = read_response_header(ApiKey.PRODUCE, version, frame)
    return produce.decode_response(version, frame, position)[0]


async def test_unknown_api_versions_version_gets_a_v0_response_with_the_range(peer: Peer) -> None:
    peer.send(ApiKey.API_VERSIONS, 99, b"")
    frame = await peer.receive()
    answer = messages.decode_response(ApiKey.API_VERSIONS, 0, frame, 4)
    assert answer.error_code == ErrorCode.unsupported_version
    assert [(a.api_key, a.min_version, a.max_version) for a in answer.api_keys] == [(18, 0, 5)]


async def test_api_versions_checks_the_software_name(peer: Peer) -> None:
    fields = {"client_software_name": "-bad-", "client_software_version": "1"}
    peer.send(ApiKey.API_VERSIONS, 3, messages.encode_request(ApiKey.API_VERSIONS, 3, fields))
    frame = await peer.receive()
    answer = messages.decode_response(ApiKey.API_VERSIONS, 3, frame, 4)
    assert answer.error_code == ErrorCode.invalid_request


async def test_produce_is_advertised_from_zero_and_private_apis_are_not(peer: Peer) -> None:
    peer.send(ApiKey.API_VERSIONS, 0, b"")
    answer = messages.decode_response(ApiKey.API_VERSIONS, 0, await peer.receive(), 4)
    ranges = {int(a.api_key): (int(a.min_version), int(a.max_version)) for a in answer.api_keys}
    assert ranges[ApiKey.PRODUCE] == (0, 13)
    assert max(ranges) < 1000


@pytest.mark.parametrize("version", [3, 4])
async def test_features_are_readable_in_each_version(peer: Peer, version: int) -> None:
    fields = {"client_software_name": "test", "client_software_version": "1"}
    body = messages.encode_request(ApiKey.API_VERSIONS, version, fields)
    peer.send(ApiKey.API_VERSIONS, version, body)
    answer = messages.decode_response(ApiKey.API_VERSIONS, version, await peer.receive(), 4)
    lowest = 0 if version >= 4 else 1
    assert [(f.name, f.min_version, f.max_version) for f in answer.supported_features] == [
        (feature.name, lowest, feature.level_max) for feature in FEATURES
    ]
    assert [
        (f.name, f.min_version_level, f.max_version_level) for f in answer.finalized_features
    ] == [(f.name, f.level_finalized, f.level_finalized) for f in FEATURES if f.level_finalized]
    assert answer.finalized_features_epoch >= 0, "below that clients treat it as unknown"


@pytest.mark.parametrize(("api", "version"), [(4, 0), (9999, 0), (ApiKey.METADATA, 99)])
async def test_an_api_that_is_not_served_closes_the_connection(
    peer: Peer, api: int, version: int
) -> None:
    peer.send(api, version, b"\0" * 20)
    assert await peer.is_closed()


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"GET "])
async def test_a_broken_frame_size_closes_the_connection(peer: Peer, prefix: bytes) -> None:
    peer.writer.write(prefix)
    assert await peer.is_closed()


async def test_acks_zero_has_no_response_and_responses_keep_their_order(peer: Peer) -> None:
    metadata = messages.encode_request(
        ApiKey.METADATA, 5, {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}
    )
    peer.send(ApiKey.PRODUCE, 7, produce_body(7, 0, batch(b"a")), 1)
    peer.send(ApiKey.PRODUCE, 7, produce_body(7, -1, batch(b"b")), 2)
    peer.send(ApiKey.METADATA, 5, metadata, 3)
    peer.send(ApiKey.PRODUCE, 7, produce_body(7, 1, batch(b"c")), 4)
    correlation_ids = [int.from_bytes((await peer.receive())[:4], "big") for _ in range(3)]
    assert correlation_ids == [2, 3, 4]


async def test_acks_zero_that_is_refused_closes_the_connection(peer: Peer) -> None:
    peer.send(ApiKey.PRODUCE, 7, produce_body(7, 0, batch(b"a"), topic="absent"))
    assert await peer.is_closed()


def broken_crc() -> bytearray:
    records = batch(b"a")
    records[-1] ^= 1
    return records


@pytest.mark.parametrize("version", [3, 7, 9, 11])
@pytest.mark.parametrize(
    ("records", "code"),
    [
        (broken_crc(), ErrorCode.corrupt_message),
        (batch(b"x" * 2_000_000), ErrorCode.message_too_large),
        (batch(b"a")[:40], ErrorCode.invalid_record),
        (batch(b"a", attributes=0x20), ErrorCode.invalid_record),
    ],
    ids=["crc", "too large", "cut short", "control"],
)
async def test_bad_batches_get_kafkas_error(
    peer: Peer, version: int, records: bytearray, code: ErrorCode
) -> None:
    peer.send(ApiKey.PRODUCE, version, produce_body(version, -1, records))
    assert (await produced(peer, version)).error_code == code


async def test_unknown_acks_are_refused(peer: Peer) -> None:
    peer.send(ApiKey.PRODUCE, 7, produce_body(7, 5, batch(b"a")))
    assert (await produced(peer, 7)).error_code == ErrorCode.invalid_required_acks


async def test_a_duplicate_sequence_gets_the_original_offset(
    broker: BrokerProcess,
) -> None:
    async with KafkaClient(broker.bootstrap) as client:
        producer_id, epoch = await client.init_producer_id()

        async def send(sequence: int, value: bytes) -> tuple[ErrorCode, int]:
            records = batch(
                value, value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
            )
            answer = await produce_once(client, 1, AT, records)
            return answer.error, answer.base_offset

        assert await send(0, b"a") == (ErrorCode.none, 0)
        assert await send(2, b"b") == (ErrorCode.none, 2)
        assert await send(0, b"a") == (ErrorCode.none, 0)
        assert (await send(9, b"c"))[0] == ErrorCode.out_of_order_sequence_number
        await broker.kill()
        await broker.start()
    async with KafkaClient(broker.bootstrap) as client:
        assert await send(2, b"b") == (ErrorCode.none, 2), "producer state survives a crash"
        assert await send(4, b"c") == (ErrorCode.none, 4)


async def test_fetch_returns_the_whole_batch_that_contains_the_offset(
    broker: BrokerProcess,
) -> None:
    async with KafkaClient(broker.bootstrap) as client:
        for _ in range(2):
            await produce_once(client, 1, AT, batch(*[b"x" * 500] * 10))
        fetched = (await client.fetch(1, {AT: FetchPosition(15)}, partition_bytes_max=1))[AT]
        assert fetched.error == ErrorCode.none
        assert int.from_bytes(fetched.records[:8], "big") == 10, "the batch starts before 15"
        assert len(fetched.records) > 5_000, "one whole batch, whatever the limit"
        beyond = (await client.fetch(1, {AT: FetchPosition(21)}, wait_ms_max=0))[AT]
        assert beyond.error == ErrorCode.offset_out_of_range


async def test_fetch_waits_for_records(broker: BrokerProcess) -> None:
    async with KafkaClient(broker.bootstrap) as client:
        waiting = asyncio.create_task(client.fetch(1, {AT: FetchPosition(0)}, wait_ms_max=20_000))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        async with KafkaClient(broker.bootstrap) as other:
            await produce_once(other, 1, AT, batch(b"late"))
        async with asyncio.timeout(10):
            assert len((await waiting)[AT].records) > 0


async def test_many_produces_in_flight_keep_their_order(broker: BrokerProcess) -> None:
    async with KafkaClient(broker.bootstrap) as client:
        await client.connection(1)
        tasks = [
            asyncio.create_task(produce_once(client, 1, AT, batch(b"%d" % index)))
            for index in range(200)
        ]
        offsets = [(await task).base_offset for task in tasks]
    assert offsets == list(range(200))


async def test_list_offsets_by_time(broker: BrokerProcess) -> None:
    async with KafkaClient(broker.bootstrap) as client:
        for start in (0, 100):
            records = [NewRecord(start + index, b"k", b"v") for index in (5, 1, 9)]
            await produce_once(client, 1, AT, encode_batch(records, codec=3))

        async def offset(timestamp_ms: int) -> tuple[int, int]:
            listed = (await client.list_offsets({AT: timestamp_ms}))[AT]
            assert listed.error == ErrorCode.none
            return listed.offset, listed.timestamp_ms

        assert await offset(-1) == (6, -1)
        assert await offset(-2) == (0, -1)
        assert await offset(-3) == (5, 109)
        assert await offset(0) == (0, 5)
        assert await offset(6) == (2, 9)
        assert await offset(10) == (3, 105)
        assert await offset(106) == (5, 109)
        assert await offset(110) == (-1, -1)


async def test_a_re_created_topic_inherits_no_offsets_and_empty_groups_expire(
    broker: BrokerProcess,
) -> None:
    async with KafkaClient(broker.bootstrap) as client:

        async def commit(offset: int) -> None:
            entry = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
            fields = {
                "group_id": "g",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": "t", "partitions": [entry]}],
            }
            answer = await client.call_coordinator("g", ApiKey.OFFSET_COMMIT, fields)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.none

        async def committed() -> int:
            fields = {
                "group_id": "g",
                "topics": [{"name": "t", "partition_indexes": [0]}],
                "require_stable": False,
            }
            answer = await client.call_coordinator("g", ApiKey.OFFSET_FETCH, fields)
            return int(answer.topics[0].partitions[0].committed_offset)

        await commit(7)
        assert await committed() == 7
        assert (await client.delete_topics(["t"]))["t"] is None
        while (await client.create_topics([NewTopic(name="t", partitions=1)]))["t"] is not None:
            await asyncio.sleep(0.05)
        assert await committed() == -1
        await commit(3)
        answer = await client.call_coordinator(
            "g", ApiKey.DELETE_GROUPS, {"groups_names": ["g", "absent"]}
        )
        assert [entry.error_code for entry in answer.results] == [
            ErrorCode.none,
            ErrorCode.group_id_not_found,
        ]
        assert await committed() == -1


@pytest.mark.skipif(not TCP_TABLE.exists(), reason="only Linux tells the timers of a connection")
async def test_keepalive_probes_find_a_dead_peer(broker: BrokerProcess, peer: Peer) -> None:
    peer.send(ApiKey.API_VERSIONS, 0, b"")
    await peer.receive()
    own_port = peer.writer.get_extra_info("sockname")[1]
    ends = [f"0100007F:{port:04X}" for port in (broker.port, own_port)]
    while True:
        rows = (line.split() for line in TCP_TABLE.read_text().splitlines())
        (timer,) = (row[5].partition(":")[0] for row in rows if row[1:3] == ends)
        if timer == KEEPALIVE_TIMER:
            return
        # The timer is another one while the peer has not acknowledged the response.
        await asyncio.sleep(0.05)
