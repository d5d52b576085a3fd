"""The mirror in trouble: what stands still, what is tried again, what is skipped and noted."""

from __future__ import annotations

import asyncio

from local_cluster.client.model import TopicPartition
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode
from mirror_maker.model import FlowState, LinkState
from mirror_maker.trouble import Policies, Trouble

from .mirror_world import MirrorWorld
from .virtual_time import run_virtually


def _refuse_first_partition(world: MirrorWorld, code: ErrorCode) -> None:
    def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
        is_copy = at.topic.startswith("a.")
        return code if is_copy and at.partition == 0 and header.producer_id >= 0 else None

    world.target.refuse = refuse


def test_a_paused_partition_is_tried_again_until_the_trouble_is_gone() -> None:
    async def scenario() -> None:
        world = MirrorWorld(21)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        _refuse_first_partition(world, ErrorCode.invalid_timestamp)
        world.write(30)
        flow = await worker.until_troubled(Trouble.TIMESTAMP, FlowState.PAUSED)
        assert flow.source == world.partitions[0]
        assert "refuses" in (flow.reason or "")
        assert worker.link.state() is LinkState.DEGRADED
        await asyncio.sleep(30)  # many pauses, each bounded
        copied = len(world.copies(world.partitions[1]))
        assert copied == len(world.writers[1].expected), "the other partition goes on"
        world.target.refuse = lambda at, header: None
        started_s = asyncio.get_running_loop().time()
        await world.settle(worker)
        waited_ms = (asyncio.get_running_loop().time() - started_s) * 1000
        assert waited_ms <= worker.link.context.limits.pause_ms_max + 5_000
        world.check_copies()
        world.check_map(complete=True)
        assert flow.trouble is None
        await worker.stop()

    run_virtually(scenario())


def test_a_failed_partition_waits_for_an_operator() -> None:
    async def scenario() -> None:
        world = MirrorWorld(22)
        world.link_settings = {"on": Policies(timestamp="fail")}
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        _refuse_first_partition(world, ErrorCode.invalid_timestamp)
        world.write(30)
        await worker.until_troubled(Trouble.TIMESTAMP, FlowState.FAILED)
        world.target.refuse = lambda at, header: None
        await asyncio.sleep(20)
        flow = worker.link.flows[world.partitions[0]]
        assert flow.state is FlowState.FAILED, "nobody asked"
        assert worker.link.retry("other", None) == []
        assert worker.link.retry(None, None) == [world.partitions[0]]
        while worker.failures():
            await asyncio.sleep(0.01)
        await world.settle(worker)
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


def test_authorization_lost_and_regained() -> None:
    async def scenario() -> None:
        world = MirrorWorld(23)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        world.source.denied.add("t")
        world.write(10)
        await worker.until_troubled(Trouble.UNAUTHORIZED, FlowState.PAUSED)
        world.source.denied.clear()
        await world.settle(worker)
        _refuse_first_partition(world, ErrorCode.topic_authorization_failed)
        world.write(30)
        flow = await worker.until_troubled(Trouble.UNAUTHORIZED, FlowState.PAUSED)
        assert flow.source == world.partitions[0]
        world.target.refuse = lambda at, header: None
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())
