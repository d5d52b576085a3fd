"""One worker process: clients, one `SenderPool`, and the mirror's own parts for several links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from local_cluster.client.model import TopicPartition
from mirror_maker.audit.cpu_budget import CpuBudget
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.sender import SenderPool
from mirror_maker.link.link import LinkWorker
from mirror_maker.link.link_parts import AuditResources, LinkClients, LinkParts
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Trouble
from mirror_maker.settings import Limits, LinkSettings
from tests.sim.kafka_double.client import SimClient
from tests.sim.kafka_double.cluster import SimCluster
from tests.sim.kafka_double.network import Killed, Network
from tests.sim.mirror.world import SimLease, VirtualClock
from tests.sim.virtual_time import busy_cpu


class PausableClient(SimClient):
    """A client whose process can be stopped, as by SIGSTOP, and continued later."""

    def __init__(
        self,
        cluster: SimCluster,
        network: Network,
        step: Callable[[], None],
        runs: asyncio.Event,
    ) -> None:
        super().__init__(cluster, network, step)
        self._runs = runs

    async def _exchange(self, node_id: int, apply: Callable[[], None], *, detached: bool) -> None:
        await self._runs.wait()
        await super()._exchange(node_id, apply, detached=detached)
        await self._runs.wait()


class MirrorProcess:
    """The worker of one target on one machine; `assign`, `start`, then `kill` or `stop`."""

    def __init__(
        self,
        name: str,
        target: SimCluster,
        sources: Iterable[tuple[LinkSettings, SimCluster]],
        network: Network,
        limits: Limits,
        random: Random,
        step: Callable[[], None] = lambda: None,
    ) -> None:
        """`step` is called before and after each exchange on the network; it may raise Killed."""
        self.name = name
        self.lease = SimLease()
        self.is_dead = False
        self.outer_step = step
        self._network = network
        self._runs = asyncio.Event()
        self._runs.set()
        self._tasks: list[asyncio.Task[None]] = []
        # As in the service: one client each for requests, data and the audit of all links.
        self._sink = self._client(target)
        self._audit_reader = self._client(target)
        self.senders = SenderPool(self._client(target), limits)
        self.links = {
            settings.name: self._link(settings, source, target.name, limits, random)
            for settings, source in sources
        }

    def _client(self, cluster: SimCluster) -> SimClient:
        return PausableClient(cluster, self._network, self._step, self._runs)

    def _link(
        self,
        settings: LinkSettings,
        cluster: SimCluster,
        target: str,
        limits: Limits,
        random: Random,
    ) -> LinkWorker:
        parts = LinkParts(
            settings,
            limits,
            LinkClients(self._client(cluster), self._client(cluster), self._sink),
            worker_id=self.name,
            lease=self.lease,
            clock=VirtualClock(),
            random=random,
            offer=self.senders.offer,
            audit=AuditResources(self._audit_reader, CpuBudget(1.0), busy_cpu()),
        )
        return LinkWorker(parts, target, lambda: None)

    def _step(self) -> None:
        if self.is_dead:
            raise Killed
        try:
            self.outer_step()
        except Killed:
            self.is_dead = True
            raise

    # -- life -----------------------------------------------------------------------------------

    def assign(self, link: str, partitions: Iterable[TopicPartition]) -> None:
        """Copy these source partitions of a link, and no others of that link."""
        self.links[link].assign(partitions)

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(run()) for run in (self.senders.run, *self._runs_of_links())
        ]

    def _runs_of_links(self) -> Iterable[Callable[[], Any]]:
        return (link.run for link in self.links.values())

    def pause(self) -> None:
        """Stop it as SIGSTOP does: what it has sent is in flight, and it gets no response."""
        self._runs.clear()

    @property
    def is_paused(self) -> bool:
        return not self._runs.is_set() and not self.is_dead

    def wake(self) -> None:
        """Continue it as SIGCONT does."""
        self._runs.set()

    async def kill(self) -> None:
        """Kill it like kill -9: it takes no further step, and what it has sent is in flight."""
        self.is_dead = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Stop it cleanly, as the service does."""
        await asyncio.gather(*(link.finish() for link in self.links.values()))
        await self.kill()

    # -- how it is ------------------------------------------------------------------------------

    def flows(self) -> Iterable[tuple[str, TopicPartition, Flow]]:
        """Yield every flow with its link and source partition."""
        for name, link in self.links.items():
            for at, flow in link.flows.items():
                yield name, at, flow

    def failures(self) -> list[str]:
        """Return the reasons of failed flows and links, and crashes."""
        reasons = [
            f"{name} {at}: {flow.reason}"
            for name, at, flow in self.flows()
            if flow.state is FlowState.FAILED
        ]
        reasons += [f"{name}: {link.failure}" for name, link in self.links.items() if link.failure]
        return reasons + self.defects()

    def defects(self) -> list[str]:
        """Return crashes, and flows that a defect of the mirror stopped."""
        crashes = [
            f"{self.name} crashed: {task.exception()!r}"
            for task in self._tasks
            if task.done() and not task.cancelled() and not self.is_dead
        ]
        return crashes + [
            f"{name} {at}: {flow.reason}"
            for name, at, flow in self.flows()
            if flow.trouble is Trouble.INTERNAL
        ]
