"""Whatever a link says it is complete through, every record before is on the target.

Through kills, moved leaders, lost messages, leaders that are cut off, and new leaders whose high
watermark lags.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from local_cluster.client.model import SessionAnswer, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from mirror_maker.formats.completeness.statement import HoldKind
from mirror_maker.metrics.end_samples import DOUBT_MS_MAX
from tests.sim.mirror.completeness_checks import CompletenessWatch
from tests.sim.mirror.scenarios import LATE_SECONDS, chaos, kill_or_overlap, until
from tests.sim.mirror.world import LIMITS, MirrorWorld, SimWorker, VirtualClock
from tests.sim.virtual_time import run_virtually

SEEDS = range(int(os.environ.get("SIM_SEEDS", "15")))
PERIOD_MS = 20
"""Between two records of a worker."""
LEARNED_MS_MAX = 500
"""From the metadata of an election to the record that withdraws samples, in a sound network."""
LATE_MS_MAX = DOUBT_MS_MAX + 15_000
"""The same with lost and late messages, and workers that are killed."""


class Watched:
    """A world whose link publishes completeness, with the check beside it."""

    def __init__(self, seed: int, partitions: int = 2) -> None:
        self.world = MirrorWorld(seed, partitions)
        self.world.source.tracks_leader_epochs = True
        self.world.limits = replace(LIMITS, completeness_ms=PERIOD_MS)
        self.watch = CompletenessWatch(self.world)

    async def play(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Play a scenario while every statement is checked."""
        checking = asyncio.create_task(self.watch.run())
        playing = asyncio.ensure_future(scenario())
        done, _ = await asyncio.wait({checking, playing}, return_when=asyncio.FIRST_COMPLETED)
        for task in (playing, checking):
            if task not in done:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert self.watch.checks_count > 0

    async def until_complete(self) -> None:
        """Wait until all partitions are complete through a time after this call."""
        self.watch.check()
        now_ms = VirtualClock().now_ms()
        await until(
            lambda: all(self.watch.complete_through(at) > now_ms for at in self.world.partitions)
        )


def test_an_idle_link_stays_complete() -> None:
    watched = Watched(1)

    async def scenario() -> None:
        watched.world.write(20)
        worker = await watched.world.worker("w")
        for _ in range(3):
            await watched.until_complete()
            await asyncio.sleep(1)
        await worker.stop()

    run_virtually(watched.play(scenario))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_chaos(seed: int) -> None:
    watched = Watched(seed)
    world = watched.world
    world.source.fetch_session_slots = (1_000, 1, 0)[seed % 3]
    throttled = Random(seed)

    async def disturb(
        world: MirrorWorld, random: Random, workers: list[SimWorker], name: str
    ) -> None:
        at = random.choice(world.partitions)
        match random.choice(("kill", "leader", "lagging", "cut off", "sessions", "throttle")):
            case "leader":
                world.source.reconnect(at)
                world.source.move_leader(at)
            case "lagging":
                world.source.reconnect(at)
                world.source.move_to_lagging_leader(at)
                later = asyncio.get_running_loop().call_later
                later(random.uniform(0, 1), world.source.reconnect, at)
            case "cut off":
                _cut_off(watched, at, random)
            case "sessions":
                world.source.lose_fetch_sessions()
            case "throttle":
                world.source.throttle_ms = lambda: 50 * (throttled.random() < 0.3)
            case _:
                await kill_or_overlap(world, random, workers, name)

    async def scenario() -> None:
        await chaos(
            world, Random(seed), batches=30, batches_per_turn_max=20, turns=(3, 8), disturb=disturb
        )
        for at in world.partitions:
            world.source.reconnect(at)
        world.write_ends()
        worker = await world.worker("last")
        await watched.until_complete()
        await worker.stop()

    run_virtually(watched.play(scenario))


def _cut_off(watched: Watched, at: TopicPartition, random: Random) -> None:
    """Cut a leader off; metadata names the new one later, then the bound begins."""
    source, now_ms = watched.world.source, VirtualClock().now_ms()
    source.reconnect(at)
    source.cut_off_leader(at)
    hidden_ms = random.randint(0, 1_000)
    since_ms, until_ms = watched.watch.excused.get(at, (0, 0))
    if until_ms <= now_ms:
        since_ms = now_ms
    watched.watch.excused[at] = since_ms, now_ms + hidden_ms + LATE_MS_MAX
    asyncio.get_running_loop().call_later(hidden_ms / 1000, source.publish_election, at)


@pytest.mark.parametrize("is_written", [True, False])
def test_what_a_cut_off_leader_said_is_withdrawn(is_written: bool) -> None:
    """While metadata names the old leader its end is believed: the bound is the time until the
    mirror learns of the election."""
    watched = Watched(3, partitions=1)
    world, watch = watched.world, watched.watch
    at = world.partitions[0]

    async def scenario() -> None:
        world.write(10)
        worker = await world.worker("w")
        await watched.until_complete()
        elected_ms = VirtualClock().now_ms()
        world.source.cut_off_leader(at)
        watch.excused[at] = elected_ms, elected_ms + 2_000 + LEARNED_MS_MAX
        if is_written:
            world.writers[0].write_plain(3)
        await asyncio.sleep(2)
        assert watch.complete_through(at) > elected_ms + 1_000, "it does not know better"
        world.source.publish_election(at)
        await asyncio.sleep(LEARNED_MS_MAX / 1000)
        watch.check()
        await watched.until_complete()
        await worker.stop()

    run_virtually(watched.play(scenario))


def test_a_withdrawn_time_is_not_stated_again_before_the_copy_has_come_to_it() -> None:
    """Writes to the target are held back, so the copy stays behind what the new leader has."""
    watched = Watched(4, partitions=1)
    world, watch = watched.world, watched.watch
    at = world.partitions[0]

    async def scenario() -> None:
        world.write(10)
        worker = await world.worker("w")
        await watched.until_complete()
        world.writers[0].write_plain(2)
        await watched.until_complete()
        elected_ms = VirtualClock().now_ms()
        world.source.cut_off_leader(at)
        watch.excused[at] = elected_ms, elected_ms + 1_000 + LEARNED_MS_MAX
        await asyncio.sleep(1)
        assert watch.complete_through(at) > elected_ms
        flow = next(iter(worker.flows))
        assert flow.session is not None
        flow.session._on_ready = lambda session: None
        world.writers[0].write_plain(3)
        world.source.publish_election(at)
        await asyncio.sleep(LEARNED_MS_MAX / 1000)
        known = watch.topic.partition(*at)
        watch.check()
        assert known is not None
        assert watch.complete_through(at) < elected_ms, "withdrawn to what is proved"
        assert known.position < (known.end or 0)
        await worker.kill()

    run_virtually(watched.play(scenario))


def test_an_open_transaction_holds_the_time_back_and_is_named() -> None:
    watched = Watched(5, partitions=1)
    world, watch = watched.world, watched.watch
    at = world.partitions[0]

    async def scenario() -> None:
        world.write(10)
        worker = await world.worker("w")
        await watched.until_complete()
        partition = world.source.partition(at)
        partition.open_from = partition.log_end_offset
        batch = encode_batch(
            [NewRecord(1_000, b"k", b"v")],
            attributes=TRANSACTIONAL_BIT,
            producer_id=4_711,
            producer_epoch=0,
            base_sequence=0,
        )
        partition.place(batch, partition.log_end_offset)
        partition.commit(partition.log_end_offset)
        began_ms = VirtualClock().now_ms()
        await asyncio.sleep(10)
        assert watch.complete_through(at) <= began_ms + 1
        known = watch.topic.partition(*at)
        assert known is not None
        assert (known.hold.kind, known.hold.producer_id) == (HoldKind.OPEN_TRANSACTION, 4_711)
        assert abs((known.hold.since_ms or 0) - began_ms) < 500
        await worker.stop()

    run_virtually(watched.play(scenario))


def test_a_silent_source_holds_the_time_back_and_its_last_time_stays_true() -> None:
    watched = Watched(6)
    world, watch = watched.world, watched.watch

    async def scenario() -> None:
        world.write(10)
        worker = await world.worker("w")
        await watched.until_complete()
        world.network.lost_answer = 1.0
        silent_ms = VirtualClock().now_ms()
        await asyncio.sleep(LATE_SECONDS)
        world.write_ends()
        await asyncio.sleep(20)
        assert all(watch.complete_through(at) <= silent_ms for at in world.partitions)
        world.network.heal()
        await watched.until_complete()
        await worker.stop()

    run_virtually(watched.play(scenario))


def test_a_throttled_source_proves_nothing() -> None:
    """Its responses are empty, whatever the source has."""
    watched = Watched(7)
    world, watch = watched.world, watched.watch

    async def scenario() -> None:
        world.write(10)
        worker = await world.worker("w")
        await watched.until_complete()
        world.source.throttle_ms = lambda: 50
        await asyncio.sleep(0.1)
        throttled_ms = VirtualClock().now_ms()
        world.write_ends()
        await asyncio.sleep(3)
        assert all(watch.complete_through(at) <= throttled_ms for at in world.partitions)
        world.source.throttle_ms = lambda: 0
        await watched.until_complete()
        await worker.stop()

    run_virtually(watched.play(scenario))


def test_a_slow_response_proves_the_time_of_its_request() -> None:
    """What it says may be as old as its request, so nothing later is claimed."""
    watched = Watched(8)
    world = watched.world

    async def scenario() -> None:
        worker = await world.worker("w")
        polls = worker.clients.polls
        fetch_in_session = polls.fetch_in_session

        async def fetch_slowly(*given: Any, **named: Any) -> SessionAnswer:
            answer = await fetch_in_session(*given, **named)
            await asyncio.sleep(1)
            return answer

        with patch.object(polls, "fetch_in_session", fetch_slowly):
            for _ in range(20):
                world.write(1)
                await asyncio.sleep(0.7)
        world.write_ends()
        await watched.until_complete()
        await worker.stop()

    run_virtually(watched.play(scenario))
