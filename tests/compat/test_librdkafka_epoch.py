"""librdkafka raises its producer's epoch by itself, and what it had no answer to is there twice.

What happens, on one connection to one broker that leads both partitions, in this order:

    b-1 (sequence 1)   is answered NOT_LEADER_OR_FOLLOWER and not written, as by a broker that does
                       not lead yet; the proxy says so in its place
    b-2 (sequence 2)   comes right behind it: OUT_OF_ORDER_SEQUENCE_NUMBER, the broker's own answer
    a-1                is written to the other partition; the answer is lost with the connection

librdkafka takes the second answer for a reason to raise its epoch, for all partitions
(confluentinc/librdkafka#4953), and sends a-1 again under the new one, where a broker cannot know
it. Apache Kafka's broker answers the same, and its log is the same in the end (with --long).
`tests/nemesis/checkers/resent.py` tells such copies from a broker's mistakes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import iter_records
from local_cluster.wire import produce as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.header import encode_response_header, read_response_header
from tests.compat.frame_proxy import FrameProxy, Request
from tests.nemesis.checkers.resent import Written, check_log, superseded
from tests.nemesis.workloads.reading import read_partition

pytestmark = pytest.mark.real

TOPIC = "t"
A, B = 0, 1
WAIT_SECONDS_MAX = 60.0


class LeaderChange:
    """The answers above, from `begins` on; see `Script`."""

    def __init__(self, *, refuses_first: bool) -> None:
        self.is_on = False
        self.refuses_first = refuses_first
        self.arrived: list[str] = []
        self.told: dict[str, ErrorCode] = {}
        """What was answered, by the record's value; of a-1, what would have been."""
        self._all_arrived = asyncio.Event()

    def requested(self, request: Request) -> bytes | None:
        value = self._value(request)
        if value is None:
            return None
        self.arrived.append(value)
        if len(self.arrived) == 3:
            self._all_arrived.set()
        if value == "b-1" and self.refuses_first:
            version = request.header.api_version
            refused = codec.PartitionProduceResponse(TOPIC, B, ErrorCode.not_leader_or_follower)
            return encode_response_header(
                ApiKey.PRODUCE, version, request.header.correlation_id
            ) + codec.encode_response(version, [refused])
        return None

    async def answering(self, request: Request, answer: bytes) -> bool:
        value = self._value(request)
        if value is None:
            return True
        await self._all_arrived.wait()
        version = request.header.api_version
        view = memoryview(answer)
        _, position = read_response_header(ApiKey.PRODUCE, version, view)
        (produced,) = codec.decode_response(version, view, position)
        self.told[value] = ErrorCode(produced.error_code)
        if value != "a-1":
            return True
        self.is_on = False
        return False

    def _value(self, request: Request) -> str | None:
        """Of the record that is produced, while this is on."""
        header = request.header
        if not self.is_on or header.api_key != ApiKey.PRODUCE:
            return None
        body = codec.decode_request(header.api_version, request.frame, header.body_position)
        (entry,) = body.partitions
        assert entry.records is not None
        (record,) = iter_records(entry.records)
        return (record.value or b"").decode()


async def scripted(
    proxied_ports: tuple[int, int], script: LeaderChange, config: dict[str, Any]
) -> dict[int, list[Written]]:
    """Return the content of the partitions after all records of a producer are acknowledged."""
    async with (
        FrameProxy(*proxied_ports, script) as proxy,
        asyncio.timeout(3 * WAIT_SECONDS_MAX),
        KafkaClient(proxy.bootstrap) as client,
    ):
        assert (await client.create_topics([NewTopic(name=TOPIC, partitions=2)]))[TOPIC] is None
        places = {TopicPartition(TOPIC, partition): -1 for partition in (A, B)}
        while any(each.error for each in (await client.list_offsets(places)).values()):
            # Kafka names a leader in Metadata before that leader serves.
            await asyncio.sleep(0.05)
        producer = confluent_kafka.Producer({
            "bootstrap.servers": proxy.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            **config,
        })  # fmt: skip
        outcomes: dict[str, Any] = {}

        def send(partition: int, value: str) -> None:
            def delivered(error: Any, message: Any) -> None:
                outcomes[value] = error

            producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)

        send(A, "a-0")
        send(B, "b-0")
        assert await asyncio.to_thread(producer.flush, WAIT_SECONDS_MAX) == 0
        script.is_on = True
        for count, (partition, value) in enumerate([(B, "b-1"), (B, "b-2"), (A, "a-1")], 1):
            send(partition, value)
            while len(script.arrived) < count:
                await asyncio.sleep(0.005)
        assert await asyncio.to_thread(producer.flush, WAIT_SECONDS_MAX) == 0
        assert outcomes == dict.fromkeys(["a-0", "b-0", "b-1", "b-2", "a-1"])
        return {partition: await read_partition(client, TOPIC, partition) for partition in (A, B)}


def in_short(records: list[Written]) -> list[tuple[str, int, int]]:
    """Return (value, epoch, sequence) of each record."""
    return [(each.value, each.epoch, each.sequence) for each in records]


@pytest.mark.parametrize("gapless", [False, True])
async def test_a_raised_epoch_doubles_what_had_no_answer(
    proxied_ports: tuple[int, int], gapless: bool
) -> None:
    """And `enable.gapless.guarantee` is no help against it."""
    script = LeaderChange(refuses_first=True)
    log = await scripted(proxied_ports, script, {"enable.gapless.guarantee": gapless})
    assert script.told == {
        "b-1": ErrorCode.not_leader_or_follower,
        "b-2": ErrorCode.out_of_order_sequence_number,
        "a-1": ErrorCode.none,
    }
    assert in_short(log[A]) == [("a-0", 0, 0), ("a-1", 0, 1), ("a-1", 1, 0)]
    assert in_short(log[B]) == [("b-0", 0, 0), ("b-1", 1, 0), ("b-2", 1, 1)]
    assert len({each.producer_id for each in (*log[A], *log[B])}) == 1
    assert superseded(log) == {(A, 1)}
    assert not check_log(log).anomalies


async def test_a_lost_answer_alone_doubles_nothing(proxied_ports: tuple[int, int]) -> None:
    script = LeaderChange(refuses_first=False)
    log = await scripted(proxied_ports, script, {})
    assert script.told == dict.fromkeys(["b-1", "b-2", "a-1"], ErrorCode.none)
    assert in_short(log[A]) == [("a-0", 0, 0), ("a-1", 0, 1)]
    assert in_short(log[B]) == [("b-0", 0, 0), ("b-1", 0, 1), ("b-2", 0, 2)]
