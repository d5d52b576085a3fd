"""The mirror while its topics of state on the target are lost, or cannot be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.flow.flow import Flow
from mirror_maker.formats import map_topic_name
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.formats.verdicts import Verdict, verdicts_topic_name
from mirror_maker.link.map_flusher import RECEIPTS_WAIT_MS_MAX
from mirror_maker.model import LinkState
from mirror_maker.stores.map_write_health import UNMAPPED_MS_MAX
from mirror_maker.worker.status import link_status
from tests.sim.mirror.scenarios import LATE_SECONDS, until
from tests.sim.mirror.world import LINK, MirrorWorld
from tests.sim.virtual_time import run_virtually

RECEIPTS_TOPIC = receipts_topic_name(LINK)
VERDICTS_TOPIC = verdicts_topic_name(LINK)


def refusing(topic: str) -> Callable[[TopicPartition, BatchHeader], ErrorCode | None]:
    """Let the target refuse writes to one topic."""
    return lambda at, header: ErrorCode.kafka_storage_error if at.topic == topic else None


def copied(world: MirrorWorld) -> int:
    """Return the number of records on the target."""
    return sum(len(world.copies(at)) for at in world.partitions)


def expected(world: MirrorWorld) -> int:
    """Return the number of records that must be there in the end."""
    return sum(len(world.expected(at)) for at in world.partitions)


def is_behind(flow: Flow) -> bool:
    """Return whether some of its receipts are still to be written."""
    return flow.replicator is None or (
        flow.replicator.receipts is None or flow.replicator.receipts.has_unwritten
    )


def check_begun_again(world: MirrorWorld) -> None:
    """Check that all is copied and mapped, that the audit has no finding, and that it compared all
    it
    could."""
    world.check_copies()
    world.check_map(complete=False)
    for at in world.partitions:
        verdicts = world.verdicts(at)
        assert verdicts.keys() <= {Verdict.COMPLETE, Verdict.UNVERIFIED}, verdicts
        assert verdicts[Verdict.COMPLETE].records_count > 0


@pytest.mark.parametrize("topic", [RECEIPTS_TOPIC, VERDICTS_TOPIC])
def test_a_deleted_audit_topic_is_created_again(topic: str) -> None:
    async def scenario() -> None:
        world = MirrorWorld(3)
        world.write(20)
        first = await world.worker("w0")
        await world.settle(first)
        del world.target.topics[topic]
        world.write(10)
        await world.settle(first)
        check_begun_again(world)
        # A disturbed flow reads it, and so does another worker.
        del world.target.topics[topic]
        for flow in first.flows:
            assert flow.session is not None
            flow.session.disturb(KafkaError(ErrorCode.network_exception, "by the test"))
        world.write(10)
        await world.settle(first)
        check_begun_again(world)
        del world.target.topics[topic]
        await first.kill()
        world.write(10)
        world.write_ends()
        second = await world.worker("w1")
        await world.settle(second)
        check_begun_again(world)
        assert not second.failures()
        await second.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("topic", [RECEIPTS_TOPIC, VERDICTS_TOPIC])
def test_an_audit_topic_recreated_by_others_is_followed(topic: str) -> None:
    async def scenario() -> None:
        world = MirrorWorld(4)
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        del world.target.topics[topic]
        world.target.create(topic, 1)
        world.write(10)
        await world.settle(worker)
        check_begun_again(world)
        await worker.stop()

    run_virtually(scenario())


def test_a_map_that_cannot_be_written_is_reported_and_bounds_copying() -> None:
    async def scenario() -> None:
        world = MirrorWorld(7)
        world.write(20)
        world.write_ends()
        worker = await world.worker("w")
        await world.settle(worker)
        assert worker.link.state() is LinkState.RUNNING
        world.target.refuse = refusing(map_topic_name(LINK))
        world.write(10)
        writes = worker.link.map_writes
        await until(lambda: writes.failure is not None)
        assert worker.link.state() is LinkState.DEGRADED
        assert "the map has not been written" in (worker.link.reason or "")
        # For a while copying continues without it.
        await until(lambda: copied(world) == expected(world))
        assert not writes.is_overdue
        await until(lambda: writes.is_overdue)
        assert link_status(worker.link)["map_unwritten_seconds"] >= UNMAPPED_MS_MAX / 1000
        assert "nothing is copied" in (worker.link.reason or "")
        before = copied(world)
        for writer in world.writers:
            for _ in range(40):
                writer.write_plain(3)
        await asyncio.sleep(5)
        # No more than what a poll in flight brought.
        assert copied(world) - before < (expected(world) - before) / 2
        world.target.refuse = lambda at, header: None
        await world.settle(worker)
        world.check_everything()
        assert writes.failure is None
        assert link_status(worker.link)["map_unwritten_seconds"] == 0
        assert worker.link.state() is LinkState.RUNNING
        await worker.stop()

    run_virtually(scenario())


def test_the_map_waits_only_for_a_while_for_receipts_that_cannot_be_written() -> None:
    async def scenario() -> None:
        world = MirrorWorld(5)
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        world.target.refuse = refusing(RECEIPTS_TOPIC)
        began_s = asyncio.get_running_loop().time()
        world.write(10)
        await world.settle(worker, is_audited=False)
        waited_ms = (asyncio.get_running_loop().time() - began_s) * 1000
        assert waited_ms >= RECEIPTS_WAIT_MS_MAX, "receipts must be written first"
        world.check_copies()
        world.check_map(complete=False)
        # It is written as soon as possible, also for partitions that are idle since.
        world.target.refuse = lambda at, header: None
        async with asyncio.timeout(60):
            while any(is_behind(flow) for flow in worker.flows):
                await asyncio.sleep(0.05)
        await asyncio.sleep(LATE_SECONDS)
        await world.settle(worker)
        world.check_everything()
        await worker.stop()

    run_virtually(scenario())
