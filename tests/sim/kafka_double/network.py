"""Connections to a simulated cluster, and a seeded network that misbehaves.

A request arrives even if its client has died meanwhile: that is a zombie's write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.kafka_double.cluster import SimCluster


@dataclass
class Network:
    """Delays and losses of requests; all zero is a perfect network."""

    random: Random
    delay_ms_max: float = 2.0
    commit_delay_ms_max: float = 2.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    late_arrival: float = 0.0
    """Share of the requests that take up to `late_ms_max` to arrive."""
    late_ms_max: float = 3_000.0
    is_perfect: bool = False

    def harm(
        self,
        random: Random,
        lost: Sequence[float] = (0.0, 0.01, 0.05),
        late: Sequence[float] = (0.0, 0.02, 0.1),
    ) -> None:
        """Draw the shares of messages that are lost and late."""
        self.lost_request = random.choice(lost)
        self.lost_answer = random.choice(lost)
        self.late_arrival = random.choice(late)

    def heal(self) -> None:
        self.lost_request = self.lost_answer = self.late_arrival = 0.0

    def delay_s(self) -> float:
        if self.random.random() < self.late_arrival:
            return self.random.uniform(0, self.late_ms_max) / 1000
        return self.random.uniform(0, self.delay_ms_max) / 1000


class Killed(BaseException):
    """The process of the client is dead; none of its code may continue."""


class SimConnections:
    """The connections of one process, one per broker."""

    def __init__(
        self, cluster: SimCluster, network: Network, step: Callable[[], None] = lambda: None
    ) -> None:
        """`step` is called before and after each exchange on the network; it may raise Killed."""
        self._cluster = cluster
        self._network = network
        self._step = step
        self._arrival_s: dict[int, float] = {}
        self._generation: dict[int, int] = {}
        self._in_flight: dict[int, list[asyncio.Future[None]]] = {}

    async def close(self) -> None:
        return

    async def _exchange(self, node_id: int, apply: Callable[[], None], *, detached: bool) -> None:
        """Send a request, run `apply` on the broker, wait for the response.

        Requests of a connection arrive in order. If one is lost the connection breaks: later
        requests are lost too, earlier ones may have arrived.
        """
        self._step()
        loop = asyncio.get_running_loop()
        network = self._network
        generation = self._generation.setdefault(node_id, 0)
        arrival_s = max(self._arrival_s.get(node_id, 0.0), loop.time() + network.delay_s())
        self._arrival_s[node_id] = arrival_s
        is_lost = network.random.random() < network.lost_request
        is_unanswered = network.random.random() < network.lost_answer
        done: asyncio.Future[None] = loop.create_future()
        self._in_flight.setdefault(node_id, []).append(done)

        def arrive() -> None:
            if self._generation[node_id] != generation:
                return  # the connection broke before this request
            if is_lost:
                self._break(node_id)
                return
            apply()
            if is_unanswered:
                self._break(node_id)
            elif not done.done():
                done.set_result(None)

        loop.call_at(arrival_s, arrive)
        try:
            await (asyncio.shield(done) if detached else done)
        finally:
            if done in self._in_flight[node_id]:
                self._in_flight[node_id].remove(done)
        if not network.is_perfect:
            await asyncio.sleep(network.random.uniform(0, network.delay_ms_max) / 1000)
        self._step()

    def _break(self, node_id: int) -> None:
        self._generation[node_id] += 1
        for future in self._in_flight[node_id]:
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.network_exception, "connection lost"))
                future.exception()
