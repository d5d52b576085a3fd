"""Fetch of a running broker over raw sockets: sessions and topic ids at every version."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire import fetch, produce
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.real.broker.test_broker_protocol import Peer
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once
from tests.support.session_scenario import fetch_in_a_session

pytestmark = pytest.mark.real

SESSION_VERSIONS = range(7, 19)
ID_VERSIONS = range(13, 19)
NODE = 1


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[KafkaClient]:
    async with KafkaClient(broker.bootstrap) as client:
        topics = [NewTopic(name=name, partitions=2) for name in ("a", "b")]
        assert set((await client.create_topics(topics)).values()) == {None}
        yield client


@pytest.fixture
async def peer(broker: BrokerProcess) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    async with asyncio.timeout(60):
        yield Peer(reader, writer)
    writer.close()


async def append(client: KafkaClient, topic: str, partition: int, value: bytes) -> None:
    at = TopicPartition(topic, partition)
    answer = await produce_once(client, NODE, at, encode_batch([NewRecord(1000, b"k", value)]))
    assert answer.error == ErrorCode.none


async def ask(
    peer: Peer,
    version: int,
    partitions: Sequence[fetch.FetchPartition],
    *,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[fetch.ForgottenPartition] = (),
    wait_ms: int = 0,
) -> tuple[int, int, list[fetch.PartitionFetchResponse]]:
    request = fetch.FetchRequest(-1, wait_ms, 1, 1 << 20, 0, *session, partitions, forgotten, "")
    peer.send(ApiKey.FETCH, version, fetch.encode_request(version, request))
    frame = await peer.receive()
    header_bytes = 5 if version >= 12 else 4
    return fetch.decode_response(version, frame, header_bytes)


async def asked(client: KafkaClient, version: int) -> dict[tuple[str, int], fetch.FetchPartition]:
    """Return all partitions of both topics at offset 0, by name or by id."""
    known = (await client.metadata(["a", "b"])).topics
    by_id = version >= 13
    return {
        (name, index): fetch.FetchPartition(
            "" if by_id else name,
            index,
            -1,
            0,
            -1,
            -1,
            1 << 20,
            known[name].topic_id if by_id else None,
        )
        for name in ("a", "b")
        for index in (0, 1)
    }


def names(
    entries: dict[tuple[str, int], fetch.FetchPartition],
    told: Sequence[fetch.PartitionFetchResponse],
) -> dict[tuple[str, int], int]:
    """Return the number of record bytes of each partition."""
    by_key = {(e.topic, e.topic_id, e.partition): name for name, e in entries.items()}
    return {
        by_key[entry.topic, entry.topic_id, entry.partition]: fetch.records_size_bytes(
            entry.records
        )
        for entry in told
    }


@pytest.mark.parametrize("version", SESSION_VERSIONS)
async def test_a_session_returns_only_changes(
    client: KafkaClient, peer: Peer, version: int
) -> None:
    entries = await asked(client, version)
    everything = list(entries.values())
    error, session, told = await ask(peer, version, everything, session=(0, 0))
    assert error == ErrorCode.none
    assert session > 0
    assert set(names(entries, told)) == set(entries)
    assert await ask(peer, version, [], session=(session, 1)) == (0, session, [])
    await append(client, "b", 1, b"v")
    waiting = asyncio.create_task(ask(peer, version, [], session=(session, 2), wait_ms=20_000))
    _, _, told = await waiting
    ((name, size),) = names(entries, told).items()
    assert name == ("b", 1)
    assert size > 0
    moved = entries["b", 1]._replace(fetch_offset=1)
    later = asyncio.create_task(ask(peer, version, [moved], session=(session, 3), wait_ms=20_000))
    await asyncio.sleep(0.1)
    assert not later.done(), "records that were read are not sent again"
    await append(client, "a", 0, b"v")
    _, _, told = await later
    assert set(names(entries, told)) == {("a", 0)}
    gone = entries["a", 0]
    forgotten = [fetch.ForgottenPartition(gone.topic, gone.partition, gone.topic_id)]
    _, _, told = await ask(peer, version, [], session=(session, 4), forgotten=forgotten)
    assert told == [], "a forgotten partition is not returned, although it has records"
    error, _, _ = await ask(peer, version, [], session=(session, 4))
    assert error == ErrorCode.invalid_fetch_session_epoch
    error, _, _ = await ask(peer, version, [], session=(session + 1, 1))
    assert error == ErrorCode.fetch_session_id_not_found
    error, ended, told = await ask(peer, version, everything, session=(session, -1))
    assert (error, ended, len(told)) == (0, 0, 4)
    error, _, _ = await ask(peer, version, [], session=(session, 5))
    assert error == ErrorCode.fetch_session_id_not_found


async def test_a_session_keeps_to_names_or_ids(client: KafkaClient, peer: Peer) -> None:
    entries = await asked(client, 12)
    _, session, _ = await ask(peer, 12, list(entries.values()), session=(0, 0))
    error, _, _ = await ask(peer, 13, [], session=(session, 1))
    assert error == ErrorCode.fetch_session_topic_id_error


@pytest.mark.parametrize("version", ID_VERSIONS)
async def test_unknown_topic_ids(client: KafkaClient, peer: Peer, version: int) -> None:
    entries = await asked(client, version)
    await append(client, "a", 0, b"v")
    for topic_id in (uuid.uuid4(), None):
        stranger = entries["a", 0]._replace(topic_id=topic_id)
        _, _, told = await ask(peer, version, [entries["a", 0], stranger])
        assert [entry.error_code for entry in told] == [0, ErrorCode.unknown_topic_id]
        assert told[1].topic_id == topic_id
    await client.delete_topics(["a"])
    while (await client.create_topics([NewTopic(name="a", partitions=2)]))["a"] is not None:
        await asyncio.sleep(0.05)
    _, _, told = await ask(peer, version, [entries["a", 0]])
    assert told[0].error_code == ErrorCode.unknown_topic_id, "the name belongs to another topic"


async def test_without_slots_there_are_no_sessions(zookeeper: str, tmp_path: Path) -> None:
    config = {"max.incremental.fetch.session.cache.slots": "0"}
    async with (
        running_broker(zookeeper, tmp_path, config=config) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        topics = [NewTopic(name=name, partitions=2) for name in ("a", "b")]
        await client.create_topics(topics)
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        entries = await asked(client, 17)
        _, session, told = await ask(
            Peer(reader, writer), 17, list(entries.values()), session=(0, 0)
        )
        assert (session, len(told)) == (0, 4)
        writer.close()


async def test_a_waiting_fetch_returns_a_produce_that_follows_it(
    zookeeper: str, tmp_path: Path
) -> None:
    async with running_broker(zookeeper, tmp_path, flush="page_cache") as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="a", partitions=1)])
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        peer = Peer(reader, writer)
        wanted = fetch.FetchPartition("a", 0, -1, 0, -1, -1, 1 << 20)
        request = fetch.FetchRequest(-1, 300_000, 1, 1 << 20, 0, 0, -1, [wanted], (), "")
        batch = memoryview(encode_batch([NewRecord(int(time.time() * 1000), b"k", b"v")]))
        appended = produce.ProduceRequest(
            None, -1, 1_000, [produce.PartitionRecords("a", 0, batch)]
        )
        # Both requests are dispatched before the deferred part of the Fetch runs.
        peer.send(ApiKey.FETCH, 12, fetch.encode_request(12, request))
        peer.send(ApiKey.PRODUCE, 11, b"".join(produce.encode_request(11, appended)))
        async with asyncio.timeout(60):
            _, _, (told,) = fetch.decode_response(12, await peer.receive(), 5)
        assert told.error_code == ErrorCode.none
        assert fetch.records_size_bytes(told.records) == len(batch)
        writer.close()


async def test_a_reader_of_a_diverging_epoch_gets_its_end(
    broker: BrokerProcess, client: KafkaClient
) -> None:
    entry = (await asked(client, 13))["a", 0]
    first = (await client.metadata(["a"])).topics["a"].partitions[0].leader_epoch
    for value in (b"1", b"2"):
        await append(client, "a", 0, value)
    await broker.stop()
    await broker.start()
    async with KafkaClient(broker.bootstrap) as again:
        await append(again, "a", 0, b"3")
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        peer = Peer(reader, writer)
        read = entry._replace(fetch_offset=2, last_fetched_epoch=first)
        _, _, (told,) = await ask(peer, 13, [read])
        assert (told.error_code, told.diverging_epoch) == (0, None)
        assert fetch.records_size_bytes(told.records) > 0
        too_far = read._replace(fetch_offset=3)
        _, _, (told,) = await ask(peer, 13, [too_far], wait_ms=20_000)
        assert (told.error_code, told.diverging_epoch) == (0, (first, 2))
        assert fetch.records_size_bytes(told.records) == 0
        unknown = read._replace(last_fetched_epoch=first + 99)
        _, _, (told,) = await ask(peer, 13, [unknown])
        assert told.error_code == ErrorCode.offset_out_of_range
        writer.close()


async def test_our_client_in_a_session(client: KafkaClient) -> None:
    await fetch_in_a_session(client)
