"""How clients of a simulated cluster reach the leader of a partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_broker import host_of
from tests.sim.broker.sim_network import SimLine

if TYPE_CHECKING:
    from tests.sim.cluster.names import At
    from tests.sim.cluster.world import SimWorld

CLIENT = "client"
ANSWER_SECONDS_MAX = 4.0


class SimClient:
    """One client and its connections; what anybody knows of the leaders, it is told."""

    def __init__(self, world: SimWorld) -> None:
        self.asked = -1
        """The broker that was taken for the leader last."""
        self._world = world
        self._lines: dict[str, SimLine] = {}

    async def ask_leader(
        self, at: At, api: ApiKey, version: int, *body: bytes
    ) -> tuple[memoryview, int]:
        """The answer's body. Raises KafkaError or TimeoutError; nothing arrives after that."""
        world = self._world
        alive = [broker for broker in world.brokers.values() if broker.is_alive]
        if not alive:
            raise KafkaError(ErrorCode.network_exception, "nobody is there")
        state = world.random.choice(alive).metadata.partition(*at)
        if state is None or state.leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(at))
        self.asked = state.leader
        line = self._lines.get(host_of(state.leader))
        if line is None or line.is_closed:
            line = await world.network.open_line(CLIENT, host_of(state.leader))
            self._lines[host_of(state.leader)] = line
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await line.send(api, version, body)
        except TimeoutError:
            line.abort("no answer")
            raise
