"""Whatever is wrong with a request, our answer is Apache Kafka 4.4's, field by field.

The same bytes go to a real Kafka from Maven and to our broker. What is known to differ stands in
`same_answers/deviations.py` with the reason, and must really differ.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.compat.same_answers import cases_admin, cases_data, cases_frames
from tests.compat.same_answers.asking import ANSWER_SECONDS_MAX, CLOSED, Side, converse
from tests.compat.same_answers.case import Case, Deviation, allowed, differences
from tests.compat.same_answers.deviations import DEVIATIONS
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.kafka_from_maven import running_kafka
from tests.support.producing import produce_once

pytestmark = [
    pytest.mark.real,
    pytest.mark.oracle,
    pytest.mark.asyncio(loop_scope="module"),
]

CONFIG = {"auto.create.topics.enable": "false"}
TOPICS = [
    # Its records are old and must not be deleted.
    NewTopic(name="t", partitions=2, configs={"retention.ms": "-1"}),
    NewTopic(name="empty", partitions=1),
    NewTopic(name="good", partitions=4),
    NewTopic(name="written", partitions=1),
    NewTopic(name="altered", partitions=1),
    NewTopic(name="with.under", partitions=1),
    NewTopic(name="small", partitions=1, configs={"max.message.bytes": "500"}),
    NewTopic(name="compacted", partitions=1, configs={"cleanup.policy": "compact"}),
]
READY_SECONDS_MAX = 30.0


class Both:
    """Kafka and ours, with the same topics in them."""

    def __init__(self, ours: Side, kafka: Side, broker: BrokerProcess) -> None:
        self.ours = ours
        self.kafka = kafka
        self.broker = broker
        self.asked: set[str] = set()
        self.used: set[Deviation] = set()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    directory = tmp_path_factory.mktemp("same-answers")
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(running_kafka(directory / "kafka"))
        broker = await stack.enter_async_context(
            running_broker(zookeeper, directory, config=CONFIG)
        )
        ours = Side("ours", "127.0.0.1", broker.port)
        theirs = Side("Kafka", "127.0.0.1", kafka.port)
        for side in (ours, theirs):
            await furnish(side)
        yield Both(ours, theirs, broker)


async def furnish(side: Side) -> None:
    """Create the same topics and records on both sides."""
    async with KafkaClient(f"{side.host}:{side.port}") as client:
        created = await client.create_topics(TOPICS)
        assert set(created.values()) == {None}
        async with asyncio.timeout(READY_SECONDS_MAX):
            while not await is_led(client):
                await asyncio.sleep(0.05)
        for values in ((b"a", b"b", b"c"), (b"d", b"e")):
            records = encode_batch([NewRecord(1_000 + ord(v), b"k", v) for v in values])
            at = TopicPartition("t", 0)
            async with asyncio.timeout(READY_SECONDS_MAX):
                while (await produce_once(client, 1, at, records)).error != ErrorCode.none:
                    await asyncio.sleep(0.05)
        known = (await client.metadata([topic.name for topic in TOPICS])).topics
        for name, topic in known.items():
            assert topic.topic_id is not None
            side.ids[name] = topic.topic_id


async def is_led(client: KafkaClient) -> bool:
    try:
        known = (await client.metadata([topic.name for topic in TOPICS])).topics
        listed = await client.list_offsets(
            {
                TopicPartition(each.name, index): -1
                for each in TOPICS
                for index in range(each.partitions)
            }
        )
    except KafkaError:
        return False
    if any(each.error for each in listed.values()):
        return False  # Kafka names a leader a moment before that leader serves
    return all(p.leader >= 0 for topic in known.values() for p in topic.partitions.values())


CASES: list[Case] = [
    *cases_frames.unserved(),
    *cases_frames.broken_bodies(frozenset()),
    *cases_data.metadata_cases(),
    *cases_data.api_versions_cases(),
    *cases_data.produce_cases((3, 7, 8, 9, 11, 12, 13)),
    *cases_data.fetch_cases((4, 6, 7, 9, 11, 12, 13, 15, 16, 18)),
    *cases_data.list_offsets_cases(),
    *cases_data.epoch_cases(),
    *cases_admin.create_topics_cases(),
    *cases_admin.delete_topics_cases(),
    *cases_admin.create_partitions_cases(),
    *cases_admin.delete_records_cases(),
    *cases_admin.describe_configs_cases(),
    *cases_admin.alter_configs_cases(),
    *cases_admin.cluster_cases(),
    *cases_admin.security_cases(),
    *cases_admin.quota_cases(),
]


@pytest.mark.parametrize("stream", cases_frames.STREAMS, ids=str)
async def test_streams_that_are_no_frames(both: Both, stream: cases_frames.RawStream) -> None:
    outcomes = []
    for side in (both.ours, both.kafka):
        peer = await side.connect()
        peer.writer.write(stream.data)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            frame = await peer.receive()
        outcomes.append(CLOSED if frame is None else bytes(frame).hex())
        await peer.close()
    assert outcomes[0] == outcomes[1] == CLOSED


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_answer_is_kafkas(both: Both, case: Case) -> None:
    both.asked.add(case.name)
    ours, kafkas = await asyncio.gather(
        converse(both.ours, case.asks), converse(both.kafka, case.asks)
    )
    different = []
    for difference in differences(ours, kafkas):
        deviation = allowed(case.name, difference.path, DEVIATIONS)
        if deviation is None:
            different.append(str(difference))
        else:
            both.used.add(deviation)
    assert not different, "\n".join(different)


async def test_every_documented_deviation_is_one(both: Both) -> None:
    if both.asked != {case.name for case in CASES}:
        pytest.skip("only some of the cases were asked")
    assert set(DEVIATIONS) <= both.used


async def test_nothing_went_wrong_inside(both: Both) -> None:
    """After all requests the broker's log has no stack trace and no error."""
    log = both.broker.log_text()
    assert "Traceback" not in log
    assert not re.findall(r"^.* (?:ERROR|CRITICAL) .*$", log, re.MULTILINE)
