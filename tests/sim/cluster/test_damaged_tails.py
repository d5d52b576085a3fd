"""Bits that flip at the end of a log while its broker is down: no acknowledged record is lost.

The tests script the faults of a simulated cluster. They start when the last batch of a replica is
acknowledged and no checkpoint covers it yet.
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
from tests.sim.cluster.names import Anomaly, At
from tests.sim.cluster.nemesis import Nemesis
from tests.sim.cluster.play import play
from tests.sim.cluster.scenarios import Scenario
from tests.sim.cluster.sim_cluster import TOPIC
from tests.sim.cluster.world import SimWorld

AT = At(TOPIC, 0)
SECONDS = 60.0
"""Limit in virtual time; a story ends earlier."""
POLL_SECONDS = 0.001
STEP_SECONDS = 3.0
"""For a broker to join, and for the others to learn of it."""

Story = Literal["it is back alone", "the others go when it is back", "its leader lives on"]


class Damage(Nemesis):
    """A scripted story instead of dice."""

    def __init__(self, world: SimWorld, story: Story, led: bool) -> None:
        super().__init__(world.cluster, world.operators)
        self._world = world
        self._story = story
        self._led = led
        """Whether the damaged replica is the leader."""

    async def trouble(self) -> None:
        brokers = list(self._cluster.brokers.values())
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
        """Return a broker whose last batch is acknowledged, and covered by no checkpoint."""
        await asyncio.sleep(STEP_SECONDS)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            state = self._cluster.state_in_zookeeper(AT)
            if state is None or len(state.isr) < len(state.replicas):
                continue
            leader = self._cluster.brokers[state.leader]
            followers = [self._cluster.brokers[each] for each in state.isr if each != state.leader]
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
        """Flip the last bit of the last batch."""
        directory = f"/data/{AT.topic}-{AT.partition}/"
        logs = [name for name in broker.disk.files if name.startswith(directory)]
        last = broker.disk.files[max(name for name in logs if name.endswith(".log"))]
        last.content[-1] ^= 1
        last.sync()
        self._world.checks.damaged.add((broker.id, AT))


def play_story(story: Story, led: bool) -> SimWorld:
    """Return the world after the story. Raises Anomaly."""

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
    world = play_story(story, led)
    assert world.checks.damaged
    assert world.records_acknowledged > 30


def truncate_a_damaged_tail() -> contextlib.AbstractContextManager[object]:
    """A damaged tail counts as a torn one, and is truncated."""
    return mock.patch.object(recovery, "is_damaged_batch", lambda *place: False)


@contextlib.contextmanager
def shrink_to_unreported_brokers() -> Iterator[None]:
    """A broker may be alone in the ISR before it reported its offline replicas."""

    def decide(*args: object, unreported: object = (), **options: object) -> object:
        return decide_leader(*args, **options)  # type: ignore[arg-type]

    with mock.patch.object(elections, "decide_leader", decide):
        yield


@pytest.mark.parametrize(
    ("broken", "anomaly"),
    [
        (truncate_a_damaged_tail, "leads in epoch 1 without all committed"),
        (shrink_to_unreported_brokers, "has no leader"),
    ],
)
def test_a_broken_rule_is_noticed(
    broken: Callable[[], contextlib.AbstractContextManager[object]], anomaly: str
) -> None:
    with broken(), pytest.raises(Anomaly, match=anomaly):
        play_story("it is back alone", led=True)
