"""A world of brokers that follow ACLs, as a function of a seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.handlers.services import RequestContext
from local_cluster.security.authorization.acl_changes import create_acls, delete_acls
from local_cluster.security.authorization.acl_filter import AclFilter
from local_cluster.security.authorization.acl_store import AclStore
from local_cluster.security.authorization.authorizer import Authorizer
from local_cluster.security.authorization.decision import Policy
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from tests.nemesis.absences import Absence
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.rights import Seen, Switch, Turn, check_switches
from tests.sim.broker.sim_clock import SimClock
from tests.sim.broker.sim_zookeeper import SimCoordination, SimZooKeeper
from tests.sim.virtual_time import ThreadlessLoop, run_virtually

SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.02
WATCH_SECONDS_MAX: Final = 0.5
"""How late a watch may come on a live session. The bound has to hold with that."""
SETTLE_SECONDS: Final = 1.5
"""After a cut: the next ping, a new session, and reading everything."""
CONTEXT: Final = RequestContext(ApiKey.FETCH, 12, 1, "c", "User:alice", "SASL", "10.1.2.3", 7)


class PromptZooKeeper(SimZooKeeper):
    """Its watches are late by less than the bound."""

    def fire(self, paths: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        for path in dict.fromkeys(paths):
            clients = self.watches.pop(path, set())
            for client in sorted(clients, key=lambda each: each.session_id):
                assert isinstance(client, SimCoordination)
                loop.call_later(self._random.uniform(0.0002, WATCH_SECONDS_MAX), tell, client, path)


def tell(client: SimCoordination, path: str) -> None:
    """Deliver a watch, unless the client is cut off."""
    if client.cut_off:
        client.missed_watch = True
    else:
        client.on_path(path)


class SimBroker:
    """What a broker has of rights: a client of ZooKeeper, the store, the authorizer."""

    store_type: type[AclStore] = AclStore
    authorizer_type: type[Authorizer] = Authorizer

    def __init__(self, node: int, server: PromptZooKeeper, random: Random) -> None:
        self.node = node
        self.coordination = SimCoordination(server, random)
        self.authorizer = self.authorizer_type(Policy(), on_change=lambda: None)
        self.store = self.store_type(self.coordination, SimClock(0), self.authorizer.set_image)
        self.coordination.subscribe(self.store.path_changed, self.store.session_changed)

    async def start(self) -> None:
        await self.coordination.start()
        await self.store.start()

    async def stop(self) -> None:
        await self.store.stop()
        await self.coordination.stop()

    def allows(self, topic: str) -> bool:
        return self.authorizer.may(CONTEXT, "READ", "TOPIC", topic)


class RightsWorld:
    """Three brokers, two admins, and faults."""

    def __init__(
        self, seed: int, make: Callable[[int, PromptZooKeeper, Random], SimBroker]
    ) -> None:
        self._random = Random(seed)
        server = PromptZooKeeper(Random(self._random.getrandbits(32)))
        self._brokers = [
            make(node, server, Random(self._random.getrandbits(32))) for node in (1, 2, 3)
        ]
        self._switches: dict[str, Switch] = {}
        self._absences: list[Absence] = []
        self._cut: dict[int, float] = {}
        """Brokers that are cut off, and since when."""

    async def run(self) -> Findings:
        """Play, and check what was seen."""
        for broker in self._brokers:
            await broker.start()
        # Two, so that a notification of one topic may hide one of the other.
        loops: list[Coroutine[Any, Any, None]] = [self._change(), self._change(), self._look()]
        loops += [self._disturb(broker) for broker in self._brokers]
        tasks = [asyncio.create_task(each) for each in loops]
        await asyncio.sleep(SECONDS)
        for task in tasks:
            assert not task.done(), task
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for broker in self._brokers:
            await broker.stop()
        lasting = [Absence(node, since, float("inf")) for node, since in self._cut.items()]
        return check_switches(self._switches, [*self._absences, *lasting])

    async def _change(self) -> None:
        """Grant and revoke a right; begin with another topic where an answer is missing."""
        while True:
            topic = f"t{len(self._switches)}"
            switch = self._switches[topic] = Switch()
            while switch.unknown_since == float("inf"):
                began = now()
                is_on = not (switch.turns and switch.turns[-1].is_on)
                try:
                    await self._set(topic, is_on=is_on)
                except CoordinationUnavailable:
                    switch.unknown_since = began
                else:
                    switch.turns.append(Turn(began, now(), is_on))
                # Half of the changes come while the brokers still read the last one.
                is_quick = self._random.random() < 0.5
                pause = (0.0, WATCH_SECONDS_MAX) if is_quick else (1.0, 4.0)
                await asyncio.sleep(self._random.uniform(*pause))

    async def _set(self, topic: str, *, is_on: bool) -> None:
        acl = Acl(
            ResourceType.TOPIC,
            topic,
            PatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.READ,
            Permission.ALLOW,
        )
        store = self._random.choice(self._brokers).store
        if is_on:
            assert await create_acls(store, [acl]) == [None]
        else:
            ((removed, error),) = (await delete_acls(store, [AclFilter(*acl)]))[0]  # type: ignore[misc]
            assert (removed, error) == (acl, None)

    async def _look(self) -> None:
        """Ask every broker for the last topics, at one moment."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for topic in list(self._switches)[-4:]:
                for broker in self._brokers:
                    is_on = broker.allows(topic)
                    self._switches[topic].seen.append(
                        Seen("check", broker.node, now(), now(), is_on)
                    )

    async def _disturb(self, broker: SimBroker) -> None:
        """Cut the broker off from ZooKeeper, or end its session, and let it come back."""
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 15.0))
            began = now()
            if self._random.random() < 0.3:
                broker.coordination.end_session()
            else:
                broker.coordination.cut_off = True
                self._cut[broker.node] = began
                await asyncio.sleep(self._random.uniform(0.05, 6.0))
                del self._cut[broker.node]
                broker.coordination.cut_off = False
            self._absences.append(Absence(broker.node, began, now() + SETTLE_SECONDS))


def now() -> float:
    return asyncio.get_running_loop().time()


def play(
    seed: int, make: Callable[[int, PromptZooKeeper, Random], SimBroker] = SimBroker
) -> Findings:
    """Play a seed in virtual time."""

    async def run() -> Findings:
        return await RightsWorld(seed, make).run()

    found: Findings = run_virtually(run(), loop_factory=ThreadlessLoop)
    return found
