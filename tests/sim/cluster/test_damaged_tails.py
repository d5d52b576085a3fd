"""Bits that flip at the end of a log while its broker is down: no acknowledged record is lost.

The brokers are the real ones in a world of seeds. What happens in it is told here, at a moment when
the last batch of a replica is acknowledged and no checkpoint names it yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Literal
from unittest import mock

import pytest

from local_cluster.controller.decisions import elections
from local_cluster.controller.decisions.elections import decide_leader
from local_cluster.log.partition import recovery
from local_cluster.log.state import checkpoints
from tests.sim.broker.sim_broker import SimBroker
from tests.sim.cluster.__main__ import play
from tests.sim.cluster.names import Anomaly, At
from tests.sim.cluster.nemesis import Nemesis
from tests.sim.cluster.scenarios import Scenario
from tests.sim.cluster.world import TOPIC, SimWorld

AT = At(TOPIC, 0)
SECONDS = 60.0
"""Of virtual time, for the story; it ends earlier."""
POLL_SECONDS = 0.001
STEP_SECONDS = 3.0
"""For a broker to join, and for others to hear of it."""

Story = Literal["it is back alone", "the others go when it is back", "its leader lives on"]


class Damage(Nemesis):
    """One story instead of dice."""

    def __init__(self, world: SimWorld, story: Story, led: bool) -> None:
        super().__init__(world)
        self._story = story
        self._led = led
        """Whether the damaged replica led."""

    async def trouble(self) -> None:
        brokers = list(self._world.brokers.values())
        victim = await self._wait_for_a_moment()
        others = [each for each in brokers if each is not victim]
        if self._story == "it is back alone":
            for broker in brokers:
                broker.kill()
            self._flip(victim)
            victim.start()
            await self._until_served(victim)
            await asyncio.sleep(STEP_SECONDS)
            others[0].start()
        else:
            victim.kill()
            self._flip(victim)
            victim.start()
            if self._story == "the others go when it is back":
                await self._until_served(victim)
                for other in others:
                    other.kill()
        await asyncio.sleep(STEP_SECONDS)

    async def _until_served(self, broker: SimBroker) -> None:
        while not broker.is_serving:
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_for_a_moment(self) -> SimBroker:
        """The broker whose last batch is acknowledged, and named by no checkpoint."""
        await asyncio.sleep(STEP_SECONDS)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            state = self._world.state_in_zookeeper(AT)
            if state is None or len(state.isr) < len(state.replicas):
                continue
            leader = self._world.brokers[state.leader]
            followers = [self._world.brokers[each] for each in state.isr if each != state.leader]
            victim = leader if self._led else followers[0]
            leading, replica = leader.replicas.get(*AT), victim.replicas.get(*AT)
            if leading is None or replica is None:
                continue
            log = replica.log
            if (
                leading.high_watermark == log.log_end_offset == log.flushed_end_offset
                and log.log_end_offset > self._checkpointed(victim)
                and self._acknowledged() >= log.log_end_offset
            ):
                return victim

    def _acknowledged(self) -> int:
        ends = [
            offset + 1 for each in self._world.producers for offset in each.acknowledged.values()
        ]
        return max(ends, default=0)

    def _checkpointed(self, broker: SimBroker) -> int:
        names = (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS)
        files = [broker.disk.files.get(f"/data/{name}") for name in names]
        known = [checkpoints.decode_offsets(bytes(each.content)) for each in files if each]
        return max((offsets.get(AT, 0) for offsets in known), default=0)

    def _flip(self, broker: SimBroker) -> None:
        """The last bit of the last batch."""
        directory = f"/data/{AT.topic}-{AT.partition}/"
        logs = [name for name in broker.disk.files if name.startswith(directory)]
        last = broker.disk.files[max(name for name in logs if name.endswith(".log"))]
        last.content[-1] ^= 1
        last.sync()
        self._world.checks.damaged.add((broker.id, AT))


def told(story: Story, led: bool) -> SimWorld:
    """The world after the story. Raises Anomaly."""

    def make(seed: int) -> SimWorld:
        world = SimWorld(seed, Scenario(faults={}))
        world.nemesis = Damage(world, story, led)
        return world

    return play(0, make, SECONDS)


STORIES: tuple[Story, ...] = (
    "it is back alone",
    "the others go when it is back",
    "its leader lives on",
)


@pytest.mark.parametrize("led", [False, True])
@pytest.mark.parametrize("story", STORIES)
def test_a_damaged_tail_costs_nothing(story: Story, led: bool) -> None:
    world = told(story, led)
    assert world.checks.damaged
    assert world.records_acknowledged > 30


def cut_and_count() -> contextlib.AbstractContextManager[object]:
    """A damaged tail is taken for a torn one."""
    return mock.patch.object(recovery, "is_damaged_batch", lambda *place: False)


@contextlib.contextmanager
def hear_nobody() -> Iterator[None]:
    """Who is back is the last in sync before it said what it has."""

    def decide(*args: object, unreported: object = (), **options: object) -> object:
        return decide_leader(*args, **options)  # type: ignore[arg-type]

    with mock.patch.object(elections, "decide_leader", decide):
        yield


@pytest.mark.parametrize(
    ("broken", "anomaly"),
    [(cut_and_count, "leads in epoch 1 without all committed"), (hear_nobody, "has no leader")],
)
def test_who_breaks_the_rule_is_noticed(
    broken: Callable[[], contextlib.AbstractContextManager[object]], anomaly: str
) -> None:
    with broken(), pytest.raises(Anomaly, match=anomaly):
        told("it is back alone", led=True)
