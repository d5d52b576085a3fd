"""Brokers that come back under another address, while others take their old one, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.client.calls import ADDRESS_SECONDS_MAX
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection
from local_cluster.client.last_answer import LastAnswer
from local_cluster.client.model import BrokerAddress, ClusterMetadata
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.virtual_time import run_virtually

HOST = "dc1"
OLD, NEW, BOOTSTRAP = 1001, 1002, 9092


class Cluster:
    """Which broker listens on which port, and where Metadata says that they are."""

    def __init__(self) -> None:
        self.listening = {BOOTSTRAP: 0, OLD: 1}
        self.told = {1: OLD}
        self.coordinator = (1, OLD)
        self.asked = 0
        """Questions for Metadata."""
        self.hangs = False


class Line(Connection):
    """A connection to what listens on a port."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        super().__init__("test")
        self.cluster = cluster
        self.node_id = cluster.listening[port]

    async def call(
        self, api: ApiKey, fields: Any, version_max: int | None, last: LastAnswer | None = None
    ) -> Any:
        if api is ApiKey.FIND_COORDINATOR:
            node_id, port = self.cluster.coordinator
            return SimpleNamespace(error_code=0, node_id=node_id, host=HOST, port=port)
        return SimpleNamespace(error_code=0, answered_by=self.node_id)


class Client(KafkaClient):
    """Of that cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(f"{HOST}:{BOOTSTRAP}")
        self.cluster = cluster

    async def ask_metadata(self, topics: Sequence[str] | None, **options: Any) -> ClusterMetadata:
        await self._connection(None)
        self.cluster.asked += 1
        if self.cluster.hangs:
            await asyncio.sleep(60)
        brokers = {node: BrokerAddress(node, HOST, p) for node, p in self.cluster.told.items()}
        return ClusterMetadata("c", 0, brokers, {})

    async def _dial(self, host: str, port: int) -> Connection:
        if port not in self.cluster.listening:
            raise KafkaError(ErrorCode.network_exception, f"{host}:{port}: refused")
        return Line(self.cluster, port)

    async def reach(self, node_id: int) -> int:
        """Which broker is reached where this one is looked for."""
        line = await self.connection(node_id)
        assert isinstance(line, Line)
        return line.node_id


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
            await client.reach(1)  # nobody knows yet where it will be
        assert raised.value.retriable
        cluster.listening[NEW] = 1
        cluster.told[1] = NEW
        assert await client.reach(1) == 1

    run_virtually(scenario())


def test_a_broker_that_is_told_of_no_more_is_looked_for_again() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        await _lose(client)
        del cluster.listening[OLD], cluster.told[1]
        with pytest.raises(KafkaError) as raised:
            await client.reach(1)
        assert raised.value.retriable
        cluster.listening[NEW] = 1
        cluster.told[1] = NEW
        assert await client.reach(1) == 1

    run_virtually(scenario())


def test_where_there_is_no_controller_it_is_not_waited_for() -> None:
    """Metadata names -1 then. Asked first of all, so that nobody is connected to yet."""

    async def scenario() -> None:
        with pytest.raises(KafkaError, match="broker -1 is not known") as raised:
            await Client(Cluster()).connection(-1)
        assert raised.value.code is ErrorCode.network_exception

    run_virtually(scenario())


def test_another_broker_at_the_old_address_is_not_taken_for_it() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        await _lose(client)
        cluster.listening |= {OLD: 2, NEW: 1}
        cluster.told |= {2: OLD, 1: NEW}
        assert await client.reach(1) == 1

    run_virtually(scenario())


def test_it_is_asked_once_for_each_lost_connection() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        for lost in range(3):
            assert cluster.asked == 1 + lost
            assert {await client.reach(1) for _ in range(5)} == {1}
            await _lose(client)
            assert await asyncio.gather(*(client.reach(1) for _ in range(5))) == [1] * 5

    run_virtually(scenario())


def test_who_does_not_say_where_the_others_are_holds_up_nobody_for_long() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = await _connected(cluster)
        await _lose(client)
        cluster.hangs = True
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await client.reach(1) == 1
        assert loop.time() - began_s == pytest.approx(ADDRESS_SECONDS_MAX)

    run_virtually(scenario())


def test_a_coordinator_is_where_it_was_found() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        client = Client(cluster)
        await client.metadata([])
        cluster.listening |= {OLD: 2, NEW: 1}
        cluster.coordinator = (1, NEW)
        answer = await client.call_coordinator("g", ApiKey.HEARTBEAT, {})
        assert answer.answered_by == 1

    run_virtually(scenario())
