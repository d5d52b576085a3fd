"""An ensemble grows over kills, lost answers and hosts that decide at the same time.

The model has what ZooKeeper does: a majority of the members commits, a version is checked, a new
node gets the data when it serves, and new nodes begin no ensemble without node 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.ensemble.growth_step import Done, Reconfigure, Refuse, decide
from topology.ensemble.members import Membership

STEPS_MAX = 60


def addresses(count: int) -> dict[int, str]:
    return {number: f"node-{number}" for number in range(1, count + 1)}


@dataclass
class World:
    """The ensemble, its nodes, and what two hosts have decided and not yet carried out."""

    wanted: dict[int, str]
    config: Membership
    version: int = 1
    up: set[int] = field(default_factory=set)
    synced: set[int] = field(default_factory=set)
    """Nodes with all data that was committed when they last followed."""
    decided: dict[str, Reconfigure] = field(default_factory=dict)
    committed: int = 0
    data: dict[int, int] = field(default_factory=dict)
    """The last commit that each node has on disk."""

    def has_majority(self, members: Membership, nodes: set[int]) -> bool:
        numbers = set(members.members)
        if members.is_weighted:
            first = min(numbers)
            weights = {n: len(numbers) - 1 if n == first else 1 for n in numbers}
        else:
            weights = dict.fromkeys(numbers, 1)
        return 2 * sum(weights[n] for n in numbers & nodes) > sum(weights.values())

    @property
    def works(self) -> bool:
        return self.has_majority(self.config, self.up)

    @property
    def serving(self) -> set[int]:
        return {n for n in self.up if n in self.synced} if self.works else set()

    def follow(self, node: int) -> None:
        """The node gets the data of the ensemble, if that works."""
        if node in self.up and self.works:
            self.data[node] = self.committed
            self.synced.add(node)

    def write(self) -> None:
        """A write commits on a majority of the members."""
        voters = self.serving & set(self.config.members)
        if self.has_majority(self.config, voters):
            self.committed += 1
            for node in self.serving:
                self.data[node] = self.committed

    def look(self, host: str) -> None:
        """A host decides. What it read may be old by the time that it acts."""
        step = decide(self.wanted, self.config if self.serving else None, self.serving)
        assert not isinstance(step, Refuse)
        if isinstance(step, Reconfigure):
            self.decided[host] = step
            for lost in self.wanted:
                assert self.has_majority(step.members, self.serving - {lost}), (
                    "after the step, the loss of one node would stop the ensemble"
                )

    def act(self, host: str) -> None:
        """ZooKeeper carries out what a host decided, or refuses it."""
        step = self.decided.pop(host, None)
        if step is None or step.from_version != self.config.version:
            return
        voters = self.serving & set(self.config.members)
        if not self.has_majority(self.config, voters):
            return
        if not self.has_majority(step.members, self.serving):
            return  # NewConfigNoQuorum
        self.version += 1
        self.config = Membership(members=step.members.members, version=self.version)
        assert self.works, "a step lost the majority"

    def check(self) -> None:
        """Whoever forms a majority has every commit."""
        members = set(self.config.members)
        for lost in members:
            rest = members - {lost}
            if self.has_majority(self.config, rest):
                assert max(self.data.get(n, 0) for n in rest) == self.committed


ACTION = st.one_of(
    st.tuples(st.sampled_from(["start", "kill", "follow"]), st.integers(1, 5)),
    st.tuples(st.sampled_from(["look", "act", "crash", "write"]), st.sampled_from(["a", "b"])),
)


def begun(start: int, wanted: int) -> World:
    """Return an ensemble that grows, or a new one if it starts with none."""
    nodes = addresses(wanted)
    if start == 0:
        config = Membership(members=nodes, version=1, is_weighted=True)
        return World(wanted=nodes, config=config, up={1, 2}, synced={1, 2}, data={1: 0, 2: 0})
    present = addresses(start)
    return World(
        wanted=nodes,
        config=Membership(members=present, version=1),
        up=set(present),
        synced=set(present),
        data=dict.fromkeys(present, 0),
    )


@pytest.mark.parametrize(("start", "wanted"), [(1, 3), (3, 5), (0, 3), (1, 5), (0, 5)])
@given(actions=st.lists(ACTION, max_size=STEPS_MAX))
def test_any_crash_and_repetition_ends_in_the_wanted_ensemble(
    start: int, wanted: int, actions: list[tuple[str, int | str]]
) -> None:
    world = begun(start, wanted)
    for action, who in actions:
        if isinstance(who, int):
            if who not in world.wanted:
                continue
            if action == "start":
                world.up.add(who)
            elif action == "kill":
                world.up.discard(who)
                world.synced.discard(who)
            else:
                world.follow(who)
        elif action == "look":
            world.look(who)
        elif action == "act":
            world.act(who)
        elif action == "crash":
            world.decided.pop(who, None)
        else:
            world.write()
        world.check()
    # `up` runs again on any host: all nodes start, and it looks until it is done.
    for node in world.wanted:
        world.up.add(node)
    for node in world.wanted:
        world.follow(node)
    world.look("a")
    world.act("a")
    assert decide(world.wanted, world.config, world.serving) == Done()
    world.check()
