"""Rules of groups, transactions and records that break clients when a broker violates them.

Each is tried against our broker and, with --long, against Apache Kafka. Those of the wire and of
single requests are compared with Kafka's answers in `test_same_answers.py`; the README has the
list.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchedPartition, FetchPosition, NewTopic, TopicPartition
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import Fields
from tests.support.cluster import BrokerProcess
from tests.support.producing import produce_once

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = pytest.mark.real

AT = TopicPartition("t", 0)
WAIT_SECONDS_MAX = 30.0
TRANSACTION_TIMEOUT_MS_MAX = 900_000
"""Kafka's transaction.max.timeout.ms."""


@pytest.fixture
async def client(either_broker: Broker) -> AsyncIterator[KafkaClient]:
    async with KafkaClient(either_broker.bootstrap) as client:
        assert (await client.create_topics([NewTopic(name="t", partitions=2)]))["t"] is None
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            # Kafka names a leader in Metadata before that leader serves.
            while (await client.list_offsets({AT: -1}))[AT].error != ErrorCode.none:
                await asyncio.sleep(0.05)
        yield client


async def leader_of(client: KafkaClient) -> int:
    return (await client.metadata(["t"])).topics["t"].partitions[0].leader


async def ask(client: KafkaClient, api: ApiKey, version: int, fields: Fields) -> Any:
    """Send one request at exactly this version; return kio's response."""
    connection = await client.connection(await leader_of(client))
    body = messages.encode_request(api, version, fields)
    frame, position = await connection.send(api, version, (body,))
    return messages.decode_response(api, version, frame, position)


async def read(client: KafkaClient, *, isolation_level: int) -> FetchedPartition:
    leader, positions = await leader_of(client), {AT: FetchPosition(0)}
    fetched = await client.fetch(leader, positions, isolation_level=isolation_level, wait_ms_max=0)
    return fetched[AT]


async def commit(client: KafkaClient, version: int, metadata: str) -> None:
    entry = {"partition_index": 0, "committed_offset": version, "committed_metadata": metadata}
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": [entry]}],
    }
    answer = await ask(client, ApiKey.OFFSET_COMMIT, version, fields)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.none


async def fetched(client: KafkaClient, version: int, *, require_stable: bool = False) -> list[Any]:
    """Return the offsets of partitions 0 and 1 of group g by OffsetFetch."""
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    fields = {
        "group_id": "g",
        "topics": topics,
        "groups": [{"group_id": "g", "topics": topics}],
        "require_stable": require_stable,
    }
    answer = await ask(client, ApiKey.OFFSET_FETCH, version, fields)
    found = answer.groups[0] if version >= 8 else answer
    return list(found.topics[0].partitions)


async def test_positions_come_back_as_they_were_committed(client: KafkaClient) -> None:
    """They have their metadata; an offset that was never committed is -1 with "", never 0."""
    await coordinator(client, "g")
    for version in range(2, 10):
        metadata = f"v{version} \u00fc"
        await commit(client, version, metadata)
        for fetch_version in range(1, 10):
            known, unknown = await fetched(client, fetch_version)
            assert (known.committed_offset, known.metadata) == (version, metadata)
            assert (unknown.committed_offset, unknown.metadata) == (-1, "")
            assert known.error_code == unknown.error_code == ErrorCode.none


async def test_positions_of_an_open_transaction_are_unstable(
    either_broker: Broker, client: KafkaClient
) -> None:
    await coordinator(client, "g")
    await commit(client, 2, "before")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": either_broker.bootstrap, "transactional.id": "tx"}
    )
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": either_broker.bootstrap, "group.id": "g"}
    )
    await asyncio.to_thread(producer.init_transactions, WAIT_SECONDS_MAX)
    producer.begin_transaction()
    await asyncio.to_thread(
        producer.send_offsets_to_transaction,
        [confluent_kafka.TopicPartition("t", 0, 77)],
        consumer.consumer_group_metadata(),
        WAIT_SECONDS_MAX,
    )
    for version in (7, 8, 9):
        pending, _ = await fetched(client, version, require_stable=True)
        assert pending.error_code == ErrorCode.unstable_offset_commit
        pending, _ = await fetched(client, version)
        assert (pending.error_code, pending.committed_offset) == (ErrorCode.none, 2)
    await asyncio.to_thread(producer.commit_transaction, WAIT_SECONDS_MAX)
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            (position, _) = await fetched(client, 9, require_stable=True)
            if position.error_code == ErrorCode.none:
                break
            assert position.error_code == ErrorCode.unstable_offset_commit
    assert position.committed_offset == 77
    consumer.close()


async def test_a_member_gets_its_id_before_it_joins(client: KafkaClient) -> None:
    """From JoinGroup v4 on. The broker does not interpret the bytes of its protocols."""
    for version in range(10):
        await join_alone(client, version)


async def join_alone(client: KafkaClient, version: int) -> None:
    group = f"workers-{version}"
    await coordinator(client, group)
    subscription, assignment = os.urandom(50), os.urandom(50)
    fields = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "connect",
        "protocols": [{"name": "sessioned", "metadata": subscription}],
    }
    joined = await ask(client, ApiKey.JOIN_GROUP, version, fields)
    if version >= 4:
        assert joined.error_code == ErrorCode.member_id_required
        assert joined.member_id
        fields["member_id"] = joined.member_id
        joined = await ask(client, ApiKey.JOIN_GROUP, version, fields)
    assert joined.error_code == ErrorCode.none
    assert joined.leader == joined.member_id
    assert [bytes(member.metadata) for member in joined.members] == [subscription]
    synced = await ask(
        client,
        ApiKey.SYNC_GROUP,
        min(version, 5),
        {
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "protocol_type": "connect",
            "protocol_name": "sessioned",
            "assignments": [{"member_id": joined.member_id, "assignment": assignment}],
        },
    )
    assert (synced.error_code, bytes(synced.assignment)) == (ErrorCode.none, assignment)
    asked = {"groups": [group], "include_authorized_operations": False}
    (told,) = (await ask(client, ApiKey.DESCRIBE_GROUPS, 5, asked)).groups
    assert (told.group_state, told.protocol_type) == ("Stable", "connect")
    (member,) = told.members
    assert bytes(member.member_metadata) == subscription
    assert bytes(member.member_assignment) == assignment


async def test_transaction_timeouts_are_bounded(client: KafkaClient) -> None:
    await coordinator(client, "tx", key_type=1)
    for timeout_ms in (0, TRANSACTION_TIMEOUT_MS_MAX + 1):
        await refused_timeout(client, timeout_ms)


async def refused_timeout(client: KafkaClient, timeout_ms: int) -> None:
    fields = {"transactional_id": "tx", "transaction_timeout": timeout_ms}
    told = await ask(client, ApiKey.INIT_PRODUCER_ID, 4, fields)
    assert told.error_code == ErrorCode.invalid_transaction_timeout


async def test_the_leader_writes_its_own_epoch(client: KafkaClient) -> None:
    """franz-go sends -1, sarama 0. CreateTime topics return no append time."""
    for offset, theirs in enumerate((-1, 0, 77)):
        batch = encode_batch([NewRecord(1_700_000_000_000, b"k", b"v")], leader_epoch=theirs)
        produced = await produce_once(client, await leader_of(client), AT, batch)
        assert (produced.error, produced.base_offset) == (ErrorCode.none, offset)
        assert produced.log_append_time_ms == -1
    got = await read(client, isolation_level=0)
    headers = [header for _, header in h.iter_headers(got.records)]
    assert [header.partition_leader_epoch for header in headers] == [0, 0, 0]


async def test_aborted_transactions_are_told_in_order(
    either_broker: Broker, client: KafkaClient
) -> None:
    """To read_committed readers only; the last stable offset to everybody.

    In order of their first offsets: Kafka tells them in order of their ends and leaves it to
    clients to sort them.
    """
    producers = []
    for name in ("first", "second", "third"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": either_broker.bootstrap, "transactional.id": name}
        )
        await asyncio.to_thread(producer.init_transactions, WAIT_SECONDS_MAX)
        producer.begin_transaction()
        producer.produce("t", b"dropped", partition=0)
        await asyncio.to_thread(producer.flush, WAIT_SECONDS_MAX)
        producers.append(producer)
    everything, committed = [await read(client, isolation_level=level) for level in (0, 1)]
    assert len(everything.records) > 0
    assert len(committed.records) == 0
    for seen in (everything, committed):
        assert (seen.high_watermark, seen.last_stable_offset) == (3, 0)
    for producer in reversed(producers):
        await asyncio.to_thread(producer.abort_transaction, WAIT_SECONDS_MAX)
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while (got := await read(client, isolation_level=1)).last_stable_offset < 6:
            await asyncio.sleep(0.05)
    first_offsets = [first for _, first in got.aborted_transactions]
    is_ours = isinstance(either_broker, BrokerProcess)
    assert first_offsets == [0, 1, 2] if is_ours else sorted(first_offsets) == [0, 1, 2]
    assert (await read(client, isolation_level=0)).aborted_transactions == ()


async def coordinator(client: KafkaClient, key: str, *, key_type: int = 0) -> None:
    """Wait until the broker is the coordinator and serves."""
    fields = {"key": key, "key_type": key_type}
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            told = await ask(client, ApiKey.FIND_COORDINATOR, 3, fields)
            named = told.error_code == ErrorCode.none
            if named and (key_type == 1 or await serves(client, key)):
                return
            await asyncio.sleep(0.05)


async def serves(client: KafkaClient, group: str) -> bool:
    asked = {"groups": [group], "include_authorized_operations": False}
    (told,) = (await ask(client, ApiKey.DESCRIBE_GROUPS, 5, asked)).groups
    return bool(told.error_code == ErrorCode.none)
