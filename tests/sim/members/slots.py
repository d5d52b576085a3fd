"""The life of a simulated group: members join, leave, crash, stall, and change their protocol.

A group has some slots; each holds at most one member, and some of them a static one. While there
are faults, what happens is drawn at random. After healing the members change to one protocol, one
by one, and after each change every partition has one owner.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal

from tests.sim.cluster.names import Anomaly
from tests.sim.cluster.sim_cluster import SESSION_SECONDS, SimCluster
from tests.sim.members.classic import ClassicSpeaker
from tests.sim.members.consumer import ConsumerSpeaker
from tests.sim.members.judge import GroupJudge
from tests.sim.members.member import (
    GRACE_SECONDS,
    PARTITIONS,
    REBALANCE_SECONDS,
    TOPIC,
    SimMember,
)

Classic = Literal["eager", "cooperative"]
SLOTS: Final = 4
STATIC_CHANCE: Final = 0.4
"""Probability that a slot has static members."""
CONSUMER_CHANCE: Final = 0.5
CRASH_CHANCE: Final = 0.5
"""After healing: probability that a member ends by a crash."""
EVENT_SECONDS: Final = 0.6
"""Mean time between two events of a group."""
STALL_SECONDS_MAX: Final = 2 * SESSION_SECONDS
SETTLE_SECONDS_MAX: Final = GRACE_SECONDS + SESSION_SECONDS + REBALANCE_SECONDS + 10.0
STABLE_SECONDS: Final = 1.5
"""How long a settled group stays as it is: several heartbeats."""
POLL_SECONDS: Final = 0.1
EVENTS: Final = {
    "join": 4,
    "leave": 1,
    "crash": 1,
    "restart": 2,
    "change": 4,
    "stall": 3,
    "twin": 1,
}
"""Events by their relative frequency."""


class SimMembers:
    """One group; all of its classic members rebalance in the same way."""

    def __init__(self, cluster: SimCluster, group: str, classic: Classic) -> None:
        self.stopping = False
        """The faults are over: change to one protocol, check, leave."""
        self.events: Counter[str] = Counter()
        self.judge = GroupJudge(group, SESSION_SECONDS, lambda: asyncio.get_running_loop().time())
        self._cluster = cluster
        self._random = cluster.random
        self._classic = classic
        self._slots: list[SimMember | None] = [None] * SLOTS
        self._protocols = ["consumer"] * SLOTS
        """Of the last member of each slot."""
        self._instances = [
            f"{group}-{slot}" if self._random.random() < STATIC_CHANCE else None
            for slot in range(SLOTS)
        ]
        self._twins: list[SimMember] = []
        """Former members of static slots that live beside their successors."""
        self._started = 0
        self._do: dict[str, Callable[[int], bool]] = {
            "join": self._join,
            "leave": self._leave,
            "crash": self._crash,
            "restart": self._restart,
            "change": self._change,
            "stall": self._stall,
            "twin": self._twin,
        }

    async def run(self) -> None:
        """Play until `stopping`, then settle. Raises Anomaly."""
        loop = asyncio.get_running_loop()
        next_event = loop.time()
        while not self.stopping:
            await asyncio.sleep(POLL_SECONDS)
            self._look()
            if loop.time() >= next_event:
                (event,) = self._random.choices(list(EVENTS), list(EVENTS.values()))
                if self._do[event](self._random.randrange(SLOTS)):
                    self.events[event] += 1
                next_event = loop.time() + self._random.expovariate(1 / EVENT_SECONDS)
        await self._settle()

    # -- events ---------------------------------------------------------------------------------

    def _join(self, slot: int) -> bool:
        if self._slots[slot] is not None:
            return False
        is_consumer = self._random.random() < CONSUMER_CHANCE
        self._start(slot, "consumer" if is_consumer else self._classic)
        return True

    def _leave(self, slot: int) -> bool:
        member = self._slots[slot]
        if member is None or member.process.is_stopped:
            return False
        member.stopping = True
        return True

    def _crash(self, slot: int) -> bool:
        member = self._slots[slot]
        if member is None:
            return False
        member.crash()
        self._slots[slot] = None
        return True

    def _restart(self, slot: int) -> bool:
        """The process dies, and its successor starts at once."""
        if not self._crash(slot):
            return False
        self._start(slot, self._protocols[slot])
        return True

    def _change(self, slot: int) -> bool:
        """The member leaves cleanly, and one of the other protocol takes its place."""
        member = self._slots[slot]
        if member is None or member.process.is_stopped or member.stopping:
            return False
        member.stopping = True
        other = self._classic if self._protocols[slot] == "consumer" else "consumer"
        self._protocols[slot] = other
        assert member.running is not None
        member.running.add_done_callback(lambda _: self._succeed(slot, member, other))
        return True

    def _stall(self, slot: int) -> bool:
        """SIGSTOP, then SIGCONT."""
        member = self._slots[slot]
        if member is None or member.process.is_stopped:
            return False
        member.process.stop_running()
        seconds = self._random.uniform(0.0, STALL_SECONDS_MAX)
        asyncio.get_running_loop().call_later(seconds, self._continue, member)
        return True

    def _twin(self, slot: int) -> bool:
        """A second process with the instance id of a static member starts."""
        member = self._slots[slot]
        if member is None or member.instance_id is None or member.stopping:
            return False
        self._twins.append(member)
        is_consumer = self._random.random() < CONSUMER_CHANCE
        self._start(slot, "consumer" if is_consumer else self._classic)
        return True

    # -- slots ----------------------------------------------------------------------------------

    def _start(self, slot: int, protocol: str) -> None:
        self._started += 1
        name = f"{self.judge.group}-m{self._started}"
        member = SimMember(self._cluster, self.judge, name, self._instances[slot])
        if protocol == "consumer":
            topic_id = self._cluster.topic_id(TOPIC)
            assert topic_id is not None
            member.speaker = ConsumerSpeaker(member, topic_id)
        else:
            member.speaker = ClassicSpeaker(member, is_cooperative=protocol == "cooperative")
        self._slots[slot] = member
        self._protocols[slot] = protocol
        member.start()

    def _succeed(self, slot: int, former: SimMember, protocol: str) -> None:
        if self._slots[slot] is former and not self.stopping:
            self._start(slot, protocol)

    def _continue(self, member: SimMember) -> None:
        if member.process.is_alive and member.process.is_stopped:
            member.process.continue_running()

    def _look(self) -> None:
        """Notice members that have ended. Raises the exception of one that failed."""
        for twin in self._twins:
            assert twin.running is not None
            if twin.running.done():
                self._note_end(twin)
        self._twins = [m for m in self._twins if m.running is not None and not m.running.done()]
        for slot, member in enumerate(self._slots):
            if member is not None and member.running is not None and member.running.done():
                self._note_end(member)
                self._slots[slot] = None

    def _note_end(self, member: SimMember) -> None:
        assert member.running is not None
        if member.running.cancelled():
            return
        member.running.result()
        if member.ended_with is not None:
            self.events[f"ended with {member.ended_with.name}"] += 1

    # -- after healing --------------------------------------------------------------------------

    async def _settle(self) -> None:
        for twin in self._twins:
            twin.stopping = True
            self._continue(twin)
        for member in self._slots:
            if member is not None:
                self._continue(member)
        protocol = self._random.choice(("consumer", self._classic))
        for slot in range(SLOTS):
            await self._replace(slot, protocol)
            await self._until_shared(slot)
        for member in self._slots:
            assert member is not None
            member.stopping = True
        await self._until_empty()

    async def _replace(self, slot: int, protocol: str) -> None:
        """End the member of a slot, cleanly or not, and start its successor."""
        member = self._slots[slot]
        if member is not None and self._random.random() < CRASH_CHANCE:
            self._crash(slot)
        elif member is not None:
            member.stopping = True
            assert member.running is not None
            await asyncio.wait((member.running,))
        self._look()
        self._start(slot, protocol)

    async def _until_shared(self, last: int) -> None:
        """Wait until each partition has one owner, and it stays so. Raises Anomaly.

        `last`: the slot that changed last. A static member may be refused as long as its
        predecessor's session lasts: then it starts again.
        """
        loop = asyncio.get_running_loop()
        since = loop.time()
        limit = since + SETTLE_SECONDS_MAX
        while loop.time() < since + STABLE_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            self._look()
            for slot in range(last + 1):
                if self._slots[slot] is None:
                    self._start(slot, self._protocols[slot])
            if self._twins or not self._is_shared():
                since = loop.time()
            if since > limit:
                raise Anomaly(
                    f"{self.judge.group}: slot {last} changed, and then not shared: {self._state()}"
                )

    def _is_shared(self) -> bool:
        members = [*self._twins, *(member for member in self._slots if member is not None)]
        owned = sorted(index for member in members for index in member.owned)
        return owned == sorted(PARTITIONS) and all(each.speaker.is_settled for each in members)

    def _state(self) -> dict[str, str]:
        members = [*self._twins, *(member for member in self._slots if member is not None)]
        return {
            member.name: f"{type(member.speaker).__name__} {sorted(member.owned)} at "
            f"{member.speaker.epoch}{'' if member.speaker.is_settled else ', not settled'}"
            for member in members
        }

    async def _until_empty(self) -> None:
        loop = asyncio.get_running_loop()
        limit = loop.time() + SETTLE_SECONDS_MAX
        while any(self._slots) or self._twins:
            await asyncio.sleep(POLL_SECONDS)
            self._look()
            if loop.time() > limit:
                raise Anomaly(f"{self.judge.group}: not all have left: {self._state()}")
