"""Idle partitions: fetches do not name them again, and their lag stays known."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mirror_maker.flow.fetcher import SESSION_CLOSE_MS_MAX, SESSION_IDLE_MS
from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.metrics.lag import STALE_MS, UNKNOWN_LAG, Lag
from mirror_maker.model import LinkState
from mirror_maker.resume.proof import Proof, Prover
from tests.sim.kafka_double.network import Network
from tests.sim.mirror.world import LIMITS, TOPIC, MirrorWorld, SimWorker
from tests.sim.virtual_time import run_virtually

CAUGHT_UP = Lag(0, 0, 0.0)
PARTITIONS = 8


async def settled(world: MirrorWorld) -> SimWorker:
    """Return a worker that has copied everything; half of the partitions are empty."""
    for _ in range(20):
        world.random.choice(world.writers[: len(world.writers) // 2]).write_plain(3)
    worker = await world.worker("w")
    await world.settle(worker)
    return worker


async def until_running(worker: SimWorker) -> None:
    async with asyncio.timeout(60):
        while worker.link.state() is not LinkState.RUNNING:
            await asyncio.sleep(0.1)


def test_fetches_name_only_partitions_that_move() -> None:
    async def scenario() -> None:
        world = MirrorWorld(40, partitions=PARTITIONS)
        worker = await settled(world)
        await asyncio.sleep(1)
        before = world.source.fetch_names_count
        await asyncio.sleep(30)
        assert world.source.fetch_names_count == before
        world.writers[-1].write_plain(3)
        await world.settle(worker)
        assert world.source.fetch_names_count == before + 1
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("slots", [1_000, 0])
def test_the_lag_of_idle_partitions_is_known_while_the_source_answers(slots: int) -> None:
    async def scenario() -> None:
        world = MirrorWorld(41, partitions=PARTITIONS)
        world.source.fetch_session_slots = slots
        world.limits = replace(LIMITS, fetch_wait_ms_max=500)
        worker = await settled(world)
        await asyncio.sleep(3 * STALE_MS / 1000)
        assert {flow.lag() for flow in worker.flows} == {CAUGHT_UP}
        assert worker.link.state() is LinkState.RUNNING
        world.network.lost_request = 1.0
        await asyncio.sleep(2 * STALE_MS / 1000)
        assert {flow.lag() for flow in worker.flows} == {UNKNOWN_LAG}
        world.network.heal()
        await until_running(worker)
        assert {flow.lag() for flow in worker.flows} == {CAUGHT_UP}
        await worker.stop()

    run_virtually(scenario())


def test_a_flow_that_comes_back_learns_the_end_of_the_source() -> None:
    async def scenario() -> None:
        world = MirrorWorld(42, partitions=PARTITIONS)
        world.network = Network(world.network.random, is_perfect=True, delay_ms_max=0)
        world.limits = replace(LIMITS, fetch_wait_ms_max=5_000)
        worker = await settled(world)
        await asyncio.sleep(6)
        # Away and back within one poll: the broker never learns of it.
        worker.link.assign(world.partitions[1:])
        async with asyncio.timeout(1):
            while world.partitions[0] in worker.link.flows:
                await asyncio.sleep(0.01)
        worker.link.assign(world.partitions)
        await until_running(worker)
        assert {flow.lag() for flow in worker.flows} == {CAUGHT_UP}
        await worker.stop()

    run_virtually(scenario())


def test_a_pause_that_ended_before_it_was_read_holds_nothing() -> None:
    async def scenario() -> None:
        world = MirrorWorld(43)
        world.limits = replace(LIMITS, controls_ms=10_000)
        worker = await settled(world)
        store = worker.link.map_store
        await store.append([Controls().pause(PausedPart(TOPIC, 0))])
        await store.catch_up()
        world.writers[0].write_plain(5)
        await asyncio.sleep(1)
        assert world.partitions[0] in worker.link.flows
        await store.append([Controls()])
        await world.settle(worker)
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


def test_repeatedly_lost_sessions_lose_no_records() -> None:
    async def scenario() -> None:
        world = MirrorWorld(44, partitions=PARTITIONS)
        worker = await settled(world)
        for _ in range(30):
            world.write(5)
            world.source.lose_fetch_sessions()
            await asyncio.sleep(world.random.uniform(0, 0.1))
        await world.settle(worker)
        world.check_copies()
        assert worker.link.reason is None
        await until_running(worker)
        await worker.stop()

    run_virtually(scenario())


def sessions_count(world: MirrorWorld) -> list[int]:
    """Return how many fetch sessions each broker of the source keeps."""
    return [len(world.source.fetch_sessions(node_id)) for node_id in range(world.source.brokers)]


def test_a_stopped_worker_leaves_no_session() -> None:
    async def scenario() -> None:
        world = MirrorWorld(46, partitions=PARTITIONS)
        # Nothing is lost. A request on another connection may still arrive first.
        world.network = Network(world.network.random)
        worker = await settled(world)
        assert sessions_count(world) == [1, 1]
        await worker.stop()
        assert sessions_count(world) == [0, 0]

    run_virtually(scenario())


def test_a_stop_waits_a_bounded_time_for_a_source_that_does_not_answer() -> None:
    async def scenario() -> None:
        world = MirrorWorld(47, partitions=PARTITIONS)
        worker = await settled(world)
        world.network.late_arrival, world.network.late_ms_max = 1.0, 1_000_000.0
        began_s = asyncio.get_running_loop().time()
        await worker.stop()
        stopped_s = asyncio.get_running_loop().time() - began_s
        assert stopped_s <= (LIMITS.drain_ms_max + SESSION_CLOSE_MS_MAX) / 1000 + 1

    run_virtually(scenario())


def test_a_broker_that_leads_nothing_any_more_need_not_keep_its_session() -> None:
    async def scenario() -> None:
        world = MirrorWorld(48, partitions=PARTITIONS)
        worker = await settled(world)
        for at in world.partitions:
            world.source.leaders[at] = 0
        await asyncio.sleep(2 * SESSION_IDLE_MS / 1000)
        assert sessions_count(world) == [1, 0]
        for at in world.partitions:
            world.source.leaders[at] = 1
        world.write(20)
        await world.settle(worker)
        world.check_copies()
        await asyncio.sleep(2 * SESSION_IDLE_MS / 1000)
        assert sessions_count(world) == [0, 1]
        await worker.stop()

    run_virtually(scenario())


def test_a_few_partitions_are_proved_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    proving: list[int] = []
    at_once: list[int] = []

    prove = Prover.prove

    async def counted(prover: Prover) -> Proof:
        proving.append(1)
        at_once.append(len(proving))
        try:
            return await prove(prover)
        finally:
            proving.pop()

    async def scenario() -> None:
        world = MirrorWorld(45, partitions=PARTITIONS)
        world.limits = replace(LIMITS, proofs_at_once_max=2)
        worker = await settled(world)
        world.check_copies()
        await worker.stop()

    monkeypatch.setattr(Prover, "prove", counted)
    run_virtually(scenario())
    assert len(at_once) >= PARTITIONS
    assert max(at_once) == 2
