"""Limits of connections on a real broker: addresses, quotas, idle time, places of brokers."""

from __future__ import annotations

import asyncio
import struct
import uuid
from pathlib import Path

import pytest

from local_cluster.client.admin.client_quotas import QuotaChange, alter_client_quotas
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.settings import Listener
from local_cluster.wire.api import ApiKey
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_port
from tests.support.replicas import eventually
from tests.support.scraping import scrape

pytestmark = pytest.mark.real

WAIT_S = 60.0


class Client:
    """A connection from one address of the loopback."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def connect(port: int, address: str) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)))

    async def is_served(self) -> bool:
        """Send ApiVersions v0; return whether it is answered before the connection ends."""
        try:
            self._writer.write(struct.pack(">ihhih", 12, 18, 0, 7, 2) + b"tt")
            async with asyncio.timeout(WAIT_S):
                return len(await self._reader.read(4)) > 0
        except ConnectionError:
            return False

    async def has_ended(self) -> bool:
        """Wait for the end of the connection; what arrives before does not count."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._reader.read()
        except ConnectionError:
            return True
        return True

    def close(self) -> None:
        self._writer.close()


async def set_broker_config(client: KafkaClient, name: str, value: str) -> None:
    """Change a config of all brokers while they run."""
    resource = {
        "resource_type": 4,
        "resource_name": "",
        "configs": [{"name": name, "config_operation": 0, "value": value}],
    }
    fields = {"resources": [resource], "validate_only": False}
    response = await client.call_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
    assert [each.error_code for each in response.responses] == [0], response


async def until_served(port: int, address: str) -> Client:
    """Connect again until a connection is served: the end of others takes time to be seen."""
    async with asyncio.timeout(WAIT_S):
        while True:
            client = await Client.connect(port, address)
            if await client.is_served():
                return client


async def test_addresses_quotas_and_idle_time(zookeeper: str, tmp_path: Path) -> None:
    # Longer than it takes to use three connections on a machine with other work.
    config = {"connections.max.idle.ms": "4000"}
    async with running_broker(zookeeper, tmp_path, config=config, http_port=0) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            override = ("max.connections.per.ip.overrides", "127.0.0.2:2")
            await set_broker_config(client, *override)
            while f"{override[0]} is {override[1]}" not in broker.log_text():
                await asyncio.sleep(0.02)
        one, two = [await Client.connect(broker.port, "127.0.0.2") for _ in range(2)]
        assert await one.is_served() and await two.is_served()
        three = await Client.connect(broker.port, "127.0.0.2")
        assert not await three.is_served()
        one.close()
        await until_served(broker.port, "127.0.0.2")
        assert await two.has_ended(), "nobody uses it"

        async with KafkaClient(broker.bootstrap) as client:
            change = QuotaChange((("ip", "127.0.0.3"),), "connection_creation_rate", 1.0)
            assert await alter_client_quotas(client, [change]) == [None]
        served = 0
        while await (await Client.connect(broker.port, "127.0.0.3")).is_served():
            served += 1
        assert served >= 10, "ten seconds' worth may come at once"
        found = await asyncio.to_thread(scrape, broker.http_url)
        refused = [
            found.sum("heliograph_limited_connections_total", limit=limit)
            for limit in ("per_ip", "ip_rate")
        ]
        assert all(count >= 1 for count in refused)
        assert "(max.connections.per.ip)" in broker.log_text()
        assert "(connections.max.idle.ms)" in broker.log_text()


async def test_brokers_get_a_place_where_clients_are_too_many(
    zookeeper: str, tmp_path: Path
) -> None:
    port = quiet_port()
    clients = Listener(name="CLIENTS", host="127.0.0.1", port=port)
    config = {"max.connections": "3"}
    async with running_broker(zookeeper, tmp_path, config=config, listeners=[clients]) as broker:
        waiting = [await Client.connect(port, "127.0.0.4") for _ in range(5)]
        served = [asyncio.create_task(each.is_served()) for each in waiting]
        await eventually(lambda: sum(each.done() for each in served) == 3)
        done, pending = await asyncio.wait(served, timeout=1.0)
        assert (len(done), len(pending)) == (3, 2), "the others wait in the backlog"
        await served_by_the_listener_of_brokers(broker)
        for client, task in zip(waiting, served, strict=True):
            if task in done:
                client.close()
        assert all(await asyncio.gather(*pending)), "nobody was refused"


async def test_a_listener_has_a_limit_that_changes_while_the_broker_runs(
    zookeeper: str, tmp_path: Path
) -> None:
    name = "listener.name.clients.max.connections"
    port = quiet_port()
    clients = Listener(name="CLIENTS", host="127.0.0.1", port=port)
    async with (
        running_broker(zookeeper, tmp_path, config={name: "2"}, listeners=[clients]) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        waiting = [await Client.connect(port, "127.0.0.6") for _ in range(3)]
        served = [asyncio.create_task(each.is_served()) for each in waiting]
        done, pending = await asyncio.wait(served, timeout=1.0)
        assert len(done) <= 2 and pending, "one waits in the backlog"
        assert await (await Client.connect(broker.port, "127.0.0.6")).is_served()
        await set_broker_config(client, name, "3")
        assert all(await asyncio.gather(*served))


async def served_by_the_listener_of_brokers(broker: BrokerProcess) -> None:
    """Three connections of brokers are served, and clients are closed for them."""
    brokers = [await Client.connect(broker.port, "127.0.0.5") for _ in range(3)]
    assert all([await each.is_served() for each in brokers])
    assert "another connection needs its place (max.connections)" in broker.log_text()
    for each in brokers:
        each.close()


@pytest.mark.long
async def test_brokers_among_themselves_do_not_notice_idle_connections(
    zookeeper: str, tmp_path: Path
) -> None:
    config = {"connections.max.idle.ms": "1000", "min.insync.replicas": "2"}
    where = f"{zookeeper}/t{uuid.uuid4().hex[:8]}"
    async with (
        running_broker(where, tmp_path, broker_id=1, config=config) as broker,
        running_broker(where, tmp_path, broker_id=2, config=config),
        KafkaClient(broker.bootstrap) as client,
    ):
        for number in range(3):
            closed = broker.log_text().count("(connections.max.idle.ms)")
            while broker.log_text().count("(connections.max.idle.ms)") < closed + 2:
                await asyncio.sleep(0.1)
            topic = NewTopic(name=f"t{number}", partitions=1, replication_factor=2)
            await client.create_topics([topic])
            batch = encode_batch([NewRecord(1, None, b"v")])
            await produce_to(client, TopicPartition(topic.name, 0), batch)
