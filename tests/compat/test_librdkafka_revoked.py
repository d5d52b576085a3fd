"""librdkafka hands out records of a partition from its beginning, wherever it is told to begin.

What happens, with one partition:

    assigned from the beginning    a ListOffsets is under way
    revoked                        its answer comes; as that is outdated, librdkafka asks again,
                                   and fetches the partition then, into a queue that nobody reads
    assigned, with position 50     the queue is opened to the application before what is in it is
                                   outdated: a thread that waits may get a batch of it

The last needs a thread that runs as soon as there is something, which a real-time priority makes
sure of here; on a busy machine it happens without. Apache Kafka's broker is asked the same. A group
does it where a partition is revoked soon after it was given: `tests/nemesis/README.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from tests.compat.frame_proxy import FrameProxy, Request

pytestmark = [pytest.mark.real, pytest.mark.long]

TOPIC = "t"
RECORDS = 60
COMMITTED = 50
BATCH = 25
WAIT_SECONDS_MAX = 60.0
CONSUMER = f"""\
import os, sys, time
from confluent_kafka import (
    OFFSET_BEGINNING, OFFSET_STORED, Consumer, KafkaException, TopicPartition
)

def told(what):
    print(what, flush=True)
    sys.stdin.readline()

# The library's threads are on the same processor as the one that consumes.
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
consumer = Consumer({{
    "bootstrap.servers": sys.argv[1], "group.id": "g", "enable.auto.commit": False, "log_level": 0
}})
while True:
    try:
        consumer.commit(offsets=[TopicPartition("{TOPIC}", 0, {COMMITTED})], asynchronous=False)
    except KafkaException:
        time.sleep(0.1)  # Kafka's coordinator may not know the topic yet
    else:
        break
consumer.assign([TopicPartition("{TOPIC}", 0, OFFSET_BEGINNING)])
told("assigned")
consumer.unassign()
told("revoked")
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
consumer.assign([TopicPartition("{TOPIC}", 0, OFFSET_STORED)])
messages = []
while not messages:
    messages = [each for each in consumer.consume({BATCH}, 1.0) if each.error() is None]
told(f"{{messages[0].offset()}} {{len(messages)}}")
os._exit(0)
"""


class Late:
    """Holds back the first ListOffsets response, and counts the fetches."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.fetches = 0

    def requested(self, request: Request) -> bytes | None:
        if request.header.api_key == ApiKey.LIST_OFFSETS:
            self.asked.set()
        self.fetches += request.header.api_key == ApiKey.FETCH
        return None

    async def answering(self, request: Request, answer: bytes) -> bool:
        if request.header.api_key == ApiKey.LIST_OFFSETS:
            await self.may_answer.wait()
        return True


@pytest.mark.skipif(os.geteuid() != 0, reason="a real-time priority takes root")
async def test_records_of_before_a_revocation_come_from_the_beginning(
    proxied_ports: tuple[int, int],
) -> None:
    script = Late()
    async with FrameProxy(*proxied_ports, script) as proxy, asyncio.timeout(3 * WAIT_SECONDS_MAX):
        async with KafkaClient(proxy.bootstrap) as client:
            made = await client.create_topics([NewTopic(name=TOPIC, partitions=1)])
        assert made[TOPIC] is None
        await asyncio.to_thread(produce, proxy.bootstrap)
        consumer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CONSUMER, proxy.bootstrap),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert consumer.stdin is not None
        assert consumer.stdout is not None
        try:
            assert await consumer.stdout.readline() == b"assigned\n"
            await script.asked.wait()
            consumer.stdin.write(b"\n")
            assert await consumer.stdout.readline() == b"revoked\n"
            assert script.fetches == 0
            script.may_answer.set()
            # Of a partition that it does not have; the second one asks behind what the first got.
            while script.fetches < 2:
                await asyncio.sleep(0.01)
            consumer.stdin.write(b"\n")
            assert await consumer.stdout.readline() == b"0 %d\n" % BATCH
        finally:
            with contextlib.suppress(ProcessLookupError):
                consumer.kill()
            await consumer.wait()


def produce(bootstrap: str) -> None:
    errors: list[Any] = []

    def told(error: Any, _: Any) -> None:
        errors.append(error)

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number), partition=0, on_delivery=told)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert errors == [None] * RECORDS
