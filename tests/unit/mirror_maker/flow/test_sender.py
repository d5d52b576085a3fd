"""Many flows onto few target partitions: each progresses, and takes only its own responses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from local_cluster.client.model import ProducedPartition, TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.copy.replicator import Outgoing, PartitionReplicator
from mirror_maker.flow.sender import Sender
from mirror_maker.formats import FlowKey, OffsetMap
from mirror_maker.settings import Limits
from tests.sim.kafka_double.log import SimPartition

NODE = 0
FLOWS = 96
BATCHES = 8
SECONDS_MAX = 30


class Target:
    """A broker that leads every partition, on one connection: responses are late, in order."""

    def __init__(self, random: Random) -> None:
        self.logs: dict[TopicPartition, SimPartition] = {}
        self.requests: list[list[TopicPartition]] = []
        self._random = random
        self._answering = asyncio.Lock()

    async def produce(
        self, node_id: int, batches: ProduceBatches, **options: Any
    ) -> dict[TopicPartition, ProducedPartition]:
        assert node_id == NODE
        self.requests.append([at for at, _ in batches.items()])
        answers = {}
        for at, batch in batches.items():
            try:
                base_offset, _ = self.logs.setdefault(at, SimPartition()).append(batch)
                answers[at] = ProducedPartition(ErrorCode.none, base_offset, -1, 0, None)
            except KafkaError as error:
                answers[at] = ProducedPartition(error.code, -1, -1, 0, error.message)
        async with self._answering:
            for _ in range(self._random.randrange(4)):
                await asyncio.sleep(0)
        return answers


class CopyingFlow:
    """A flow with a real replicator; it offers every ready batch to `sender`."""

    def __init__(self, number: int, target: TopicPartition, batches: int) -> None:
        key = FlowKey(f"t{number}", target.partition, uuid.UUID(int=number), uuid.UUID(int=0))
        block = OpenBlock(
            flow=key, target_topic=target.topic, producer_id=number, producer_epoch=0, nonce=1,
            source_start=0, target_start=0, next_sequence=0,
        )  # fmt: skip
        self.replicator = PartitionReplicator(
            producer_id=number, producer_epoch=0, source_next=0, next_sequence=0, block=block,
            offset_map=OffsetMap(0, 0), pending_bytes_max=1 << 20, coalesces=False,
        )  # fmt: skip
        self.target = target
        self.target_leader: int | None = NODE
        self.sent = [b"%d:%d" % (number, n) for n in range(batches)]
        self.refused: list[KafkaError] = []
        self.sender: Sender
        log = [
            encode_batch([NewRecord(0, None, v)], base_offset=n) for n, v in enumerate(self.sent)
        ]
        self.replicator.accept(memoryview(b"".join(map(bytes, log))), ())
        self.replicator.release(self.replicator.accepted)

    @property
    def can_take(self) -> bool:
        return self.replicator.can_take

    @property
    def is_on_probation(self) -> bool:
        return self.replicator.is_on_probation

    def take(self) -> Outgoing | None:
        return self.replicator.take()

    def disturb(self, error: Exception) -> None:
        raise error

    def on_refused(self, outgoing: Outgoing, error: KafkaError) -> None:
        self.refused.append(error)

    def on_acknowledged(self, outgoing: Outgoing, answer: ProducedPartition) -> None:
        self.replicator.acknowledge(outgoing, answer.base_offset)
        if self.can_take:
            self.sender.offer(self)

    async def read_back(self, outgoing: Outgoing, answer: ProducedPartition) -> None:
        await asyncio.sleep(0)
        self.on_acknowledged(outgoing, answer)


async def send_all(flows: Sequence[CopyingFlow], target: Target, limits: Limits) -> None:
    """Send until nothing is pending, or fail."""
    sender = Sender(target, NODE, limits)  # type: ignore[arg-type]
    for flow in flows:
        flow.sender = sender
        sender.offer(flow)
    task = asyncio.create_task(sender.run())
    try:
        async with asyncio.timeout(SECONDS_MAX):
            while any(flow.replicator.has_pending and not flow.refused for flow in flows):
                assert not task.done(), task.exception()
                await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def check_logs(flows: Sequence[CopyingFlow], target: Target) -> None:
    """Check that each flow's records are there once, in order, where its map says."""
    for flow in flows:
        assert not flow.refused, flow.refused
        own = {
            record.offset: record.value
            for header, batch in target.logs[flow.target].batches
            if header.producer_id == flow.replicator.producer_id
            for record in decode_batch(batch, 0, header)
        }
        assert list(own.values()) == flow.sent
        offset_map = flow.replicator.offset_map
        places = [offset_map.place_from(n).target_offset for n in range(len(flow.sent))]
        assert places == list(own)


async def test_all_flows_onto_one_partition_progress() -> None:
    target = Target(Random(1))
    flows = [CopyingFlow(n, TopicPartition("t", 0), BATCHES) for n in range(1, FLOWS + 1)]
    await send_all(flows, target, Limits())
    check_logs(flows, target)
    # In turn: nobody's second batch is before anybody's first.
    firsts = [
        header.producer_id for header, _ in target.logs[TopicPartition("t", 0)].batches[:FLOWS]
    ]
    assert sorted(firsts) == sorted(flow.replicator.producer_id for flow in flows)


@pytest.mark.parametrize("seed", range(40))
async def test_every_schedule_of_requests_gives_the_same_logs(seed: int) -> None:
    random = Random(seed)
    target = Target(random)
    partitions = random.randint(1, 4)
    flows = [
        CopyingFlow(n, TopicPartition("t", random.randrange(partitions)), random.randint(1, 12))
        for n in range(1, random.randint(2, 30))
    ]
    limits = Limits(
        produce_request_bytes_max=random.choice([1, 200, 1_000, 1 << 20]),
        produce_requests_in_flight_max=random.randint(1, 5),
    )
    await send_all(flows, target, limits)
    check_logs(flows, target)
    assert all(len(set(request)) == len(request) for request in target.requests)


async def test_a_flow_whose_target_moved_does_not_hold_up_its_queue() -> None:
    target = Target(Random(2))
    flows = [CopyingFlow(n, TopicPartition("t", 0), BATCHES) for n in (1, 2, 3)]
    flows[0].target_leader = 1
    sent = flows[1:]
    sender = Sender(target, NODE, Limits())  # type: ignore[arg-type]
    for flow in flows:
        flow.sender = sender
        sender.offer(flow)
    task = asyncio.create_task(sender.run())
    async with asyncio.timeout(SECONDS_MAX):
        while any(flow.replicator.has_pending for flow in sent):
            await asyncio.sleep(0)
    task.cancel()
    check_logs(sent, target)
    assert all(header.producer_id != 1 for header, _ in target.logs[TopicPartition("t", 0)].batches)
