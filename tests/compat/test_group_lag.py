"""Lag of groups: records as Kafka's own tool counts them, seconds as a consumer would see them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from tests.support.cluster import running_broker
from tests.support.java_process import run_java
from tests.support.scraping import scrape
from topology.coordinators.group_reading import describe_group

pytestmark = [pytest.mark.real, pytest.mark.oracle]

HOUR_MS: Final = 3_600_000
STEP_MS: Final = 10_000
POSITIONS: Final = {
    "behind": ("plain", 2),
    "caught-up": ("plain", 5),
    "before-the-committed": ("tx", 0),
    "before-the-aborted": ("tx", 1),
}
"""Committed offsets by group. After `tx` 1 there are markers and an aborted record only."""
POLL_SECONDS: Final = 10.0


async def test_lag_is_that_of_kafkas_tool_and_of_a_consumer(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_broker(zookeeper, tmp_path, http_port=0) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        topics = [NewTopic(name=name, partitions=1) for name in ("plain", "tx")]
        await client.create_topics(topics)
        await asyncio.to_thread(_produce, broker.bootstrap)
        for group, (topic, offset) in POSITIONS.items():
            at = {TopicPartition(topic, 0): CommittedOffset(offset, -1, "")}
            await commit_offsets(client, group, at)
        told = await run_java(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", broker.bootstrap, "--describe", "--all-groups"),
        )
        rows = [line.split() for line in told.splitlines() if line.strip()]
        by_tool = {row[0]: int(row[5]) for row in rows if row[0] in POSITIONS}
        assert by_tool == {
            "behind": 3,
            "caught-up": 0,
            "before-the-committed": 4,
            "before-the-aborted": 3,
        }
        began_ms = time.time() * 1000
        found = await asyncio.to_thread(scrape, broker.http_url)
        described = {group: await describe_group(client, group) for group in POSITIONS}
        ended_ms = time.time() * 1000
        for group, (topic, offset) in POSITIONS.items():
            labels = {"consumergroup": group, "topic": topic, "partition": "0"}
            assert found.one("kafka_consumergroup_lag", **labels) == by_tool[group]
            assert described[group]["lag"] == by_tool[group]
            seen_ms = await asyncio.to_thread(_first_unread_ms, broker.bootstrap, topic, offset)
            for seconds in (
                found.one("kafka_consumergroup_group_lag_seconds", **labels),
                described[group]["lag_seconds"],
            ):
                if seen_ms is None:
                    assert seconds == 0, group
                else:
                    behind_ms = seconds * 1000
                    assert began_ms - seen_ms - 1 <= behind_ms <= ended_ms - seen_ms + 1, group


def _produce(bootstrap: str) -> None:
    start_ms = int(time.time() * 1000) - HOUR_MS
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        plain.produce("plain", b"v", partition=0, timestamp=start_ms + number * STEP_MS)
        plain.flush()
    transactional = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "x"}
    )
    transactional.init_transactions()
    for is_kept in (True, False):
        transactional.begin_transaction()
        transactional.produce("tx", b"v", partition=0, timestamp=start_ms)
        transactional.flush()
        if is_kept:
            transactional.commit_transaction()
        else:
            transactional.abort_transaction()


def _first_unread_ms(bootstrap: str, topic: str, offset: int) -> int | None:
    """The time of the first record that a consumer gets; None if it comes to the end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "looks",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
        message = consumer.poll(POLL_SECONDS)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            return None
        return int(message.timestamp()[1])
    finally:
        consumer.close()
