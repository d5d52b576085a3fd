"""Requests of a simulated client to the leader of a partition."""

from __future__ import annotations

import asyncio

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_broker import host_of
from tests.sim.broker.sim_network import SimConnection
from tests.sim.cluster.names import At
from tests.sim.cluster.sim_cluster import SimCluster

CLIENT = "client"
ANSWER_SECONDS_MAX = 4.0


class SimClient:
    """One client and its connections; it learns the leader from any live broker."""

    def __init__(self, cluster: SimCluster, *, host: str = CLIENT) -> None:
        self.asked = -1
        """The broker that the last request went to."""
        self._cluster = cluster
        self._host = host
        self._connections: dict[str, SimConnection] = {}

    async def ask_leader(
        self,
        at: At,
        api: ApiKey,
        version: int,
        *body: bytes,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> tuple[memoryview, int]:
        """Return the response body. Raises KafkaError or TimeoutError: it never arrives then."""
        cluster = self._cluster
        alive = [broker for broker in cluster.brokers.values() if broker.is_alive]
        if not alive:
            raise KafkaError(ErrorCode.network_exception, "no broker is alive")
        state = cluster.random.choice(alive).metadata.partition(*at)
        if state is None or state.leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(at))
        self.asked = state.leader
        connection = self._connections.get(host_of(state.leader))
        if connection is None or connection.is_closed:
            connection = await cluster.network.connect(self._host, host_of(state.leader))
            self._connections[host_of(state.leader)] = connection
        try:
            async with asyncio.timeout(seconds_max):
                return await connection.send(api, version, body)
        except TimeoutError:
            connection.abort("no response")
            raise
