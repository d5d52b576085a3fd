"""Brokers that come back under another address, while others take over their old one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from local_cluster.client.broker_directory import REFRESH_SECONDS_MAX
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, LastResponse
from local_cluster.client.model import BrokerAddress, ClusterMetadata
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.virtual_time import run_virtually

HOST = "dc1"
OLD, NEW, BOOTSTRAP = 1001, 1002, 9092


class Cluster:
    """Which broker listens on which port, and which ports Metadata names."""

    def __init__(self) -> None:
        self.listening = {BOOTSTRAP: 0, OLD: 1}
        self.known = {1: OLD}
        self.coordinator = (1, OLD)
        self.metadata_requests = 0
        self.hangs = False


@dataclass
class Answer:
    """A response, of FindCoordinator or of any other API."""

    error_code: int = 0
    node_id: int = -1
    host: str = HOST
    port: int = -1
    answered_by: int = -1


class ConnectionToPort(Connection):
    """A connection to the broker that listens on a port."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        super().__init__("test")
        self.cluster = cluster
        self.node_id = cluster.listening[port]

    async def call(
        self, api: ApiKey, fields: Any, version_max: int | None, last: LastResponse | None = None
    ) -> Any:
        if api is ApiKey.FIND_COORDINATOR:
            node_id, port = self.cluster.coordinator
            return Answer(node_id=node_id, port=port)
        return Answer(answered_by=self.node_id)


class Client(KafkaClient):
    """A client of that cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(f"{HOST}:{BOOTSTRAP}", connect=self._connect_to_port)
        self.cluster = cluster

    async def ask_metadata(self, topics: Sequence[str] | None, **options: Any) -> ClusterMetadata:
        await self.connection(None)
        self.cluster.metadata_requests += 1
        if self.cluster.hangs:
            await asyncio.sleep(60)
        brokers = {node: BrokerAddress(node, HOST, p) for node, p in self.cluster.known.items()}
        return ClusterMetadata("c", 0, brokers, {})

    async def _connect_to_port(self, host: str, port: int) -> Connection:
        if port not in self.cluster.listening:
            raise KafkaError(ErrorCode.network_exception, f"{host}:{port}: refused")
        return ConnectionToPort(self.cluster, port)

    async def reach(self, node_id: int) -> int:
        """Return the broker that a connection to this one reaches."""
        connection = await self.connection(node_id)
        assert isinstance(connection, ConnectionToPort)
        return connection.node_id


async def _connected(cluster: Cluster) -> Client:
    client = Client(cluster)
    assert await client.reach(1) == 1
    return client


async def _lose(client: Client) -> None:
    (await client.connection(1)).abort("the broker went away")


def test_a_broker_that_comes_back_elsewhere_is_found() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        await _lose(client)
        del cluster.listening[OLD]
        with pytest.raises(KafkaError) as raised:
            await client.reach(1)  # the metadata has its old address
        assert raised.value.retriable
        cluster.listening[NEW] = 1
        cluster.known[1] = NEW
        assert await client.reach(1) == 1

    run_virtually(scenario())


def test_a_broker_that_the_metadata_lacks_is_looked_up_again() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        await _lose(client)
        del cluster.listening[OLD], cluster.known[1]
        with pytest.raises(KafkaError) as raised:
            await client.reach(1)
        assert raised.value.retriable
        cluster.listening[NEW] = 1
        cluster.known[1] = NEW
        assert await client.reach(1) == 1

    run_virtually(scenario())


def test_without_a_controller_there_is_no_wait() -> None:
    """Metadata names -1 then. It is the first call, so there is no connection yet."""

    async def scenario() -> None:
        with pytest.raises(KafkaError, match="broker -1 is not known") as raised:
            await Client(Cluster()).connection(-1)
        assert raised.value.code is ErrorCode.network_exception

    run_virtually(scenario())


def test_another_broker_at_the_old_address_is_not_used_in_its_place() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        await _lose(client)
        cluster.listening |= {OLD: 2, NEW: 1}
        cluster.known |= {2: OLD, 1: NEW}
        assert await client.reach(1) == 1

    run_virtually(scenario())


def test_each_lost_connection_causes_one_refresh() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        for lost in range(3):
            assert cluster.metadata_requests == 1 + lost
            assert {await client.reach(1) for _ in range(5)} == {1}
            await _lose(client)
            assert await asyncio.gather(*(client.reach(1) for _ in range(5))) == [1] * 5

    run_virtually(scenario())


def test_a_refresh_that_hangs_delays_a_connection_only_briefly() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        await _lose(client)
        cluster.hangs = True
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await client.reach(1) == 1
        assert loop.time() - began_s == pytest.approx(REFRESH_SECONDS_MAX)

    run_virtually(scenario())


def test_a_coordinator_is_used_at_the_address_of_its_lookup() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = Client(cluster)
        await client.metadata([])
        cluster.listening |= {OLD: 2, NEW: 1}
        cluster.coordinator = (1, NEW)
        answer = await client.call_coordinator("g", ApiKey.HEARTBEAT, {})
        assert answer.answered_by == 1

    run_virtually(scenario())
