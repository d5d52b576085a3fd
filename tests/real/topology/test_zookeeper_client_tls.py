"""TLS of the clients of an embedded ZooKeeper: turned on step by step while a producer works.

It plays "TLS to an embedded ZooKeeper" of docs/operations/security.md.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import IdempotentProducer
from topology.certificates.generate import generate_for
from topology.file.load import load_topology

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

HOST: Final = "127.0.1.1"
FILE: Final = """\
name: sealed
zookeepers:
  - {{name: main, host: {host}, port: {0}{server}}}
clusters:
  - name: c
    brokers: [{{id: 1, port: {1}}}, {{id: 2, port: {2}}}]
    topic_defaults: {{replication_factor: 2}}
    zookeeper_security: {{username: kafka, password: {{file: secure/zookeeper}}{client}}}
"""
TLS: Final = ", client_tls: {{port: {port}, keystore_file: secure/zookeeper.pem{closes}}}"
CLIENT: Final = ", tls: true, ca_file: secure/ca.pem"


class Sealed(HeliographCommand):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        *self.ports, self.tls_port = quiet_ports(4)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports[1:])

    def declare(self, *, serves: bool = True, connects: bool = True, closes: bool = False) -> None:
        closed = ", closes_plain_port: true" if closes else ""
        server = TLS.format(port=self.tls_port, closes=closed) if serves else ""
        client = CLIENT if connects else ""
        self.file.write_text(FILE.format(*self.ports, host=HOST, server=server, client=client))


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
async def sealed(tmp_path: Path) -> AsyncIterator[Sealed]:
    command = Sealed(tmp_path)
    yield command
    if command.state_dir.exists():
        await asyncio.to_thread(command.run, "down", "--purge")


async def test_tls_is_turned_on_in_steps_while_a_producer_works(sealed: Sealed) -> None:
    plain_port = sealed.ports[0]
    sealed.declare()
    generate_for(load_topology(sealed.file), sealed.file.parent)
    sealed.declare(serves=False)
    assert "`client_tls` in zookeepers entry 'main'" in sealed.complain(
        "up", str(sealed.file), code=2
    )
    sealed.declare(serves=False, connects=False)
    before = pids(await asyncio.to_thread(sealed.up))
    async with KafkaClient(sealed.bootstrap) as client:
        await client.create_topics([NewTopic(name="t")])
        producer = IdempotentProducer(sealed.bootstrap, "t", 0)
        await producer.advance(10)

        sealed.declare(connects=False, closes=True)
        refusal = sealed.complain("up", str(sealed.file), code=2)
        assert "false while cluster c connects without TLS" in refusal

        sealed.declare(connects=False)
        served = pids(await asyncio.to_thread(sealed.up))
        assert {key for key in served if served[key] != before[key]} == {"zookeeper-main"}
        await producer.advance(10)
        sealed.declare()
        connected = pids(await asyncio.to_thread(sealed.up))
        assert {key for key in connected if connected[key] != served[key]} == {
            "broker-c-1",
            "broker-c-2",
        }
        await producer.advance(10)
        assert listens(HOST, plain_port)
        sealed.declare(closes=True)
        await asyncio.to_thread(sealed.up)
        assert not listens(HOST, plain_port)
        assert listens(HOST, sealed.tls_port)
        await client.create_topics([NewTopic(name="new")])
        await producer.advance(10)
        status = await asyncio.to_thread(sealed.run, "status")
        assert status["state"] == "running"
        found = await asyncio.to_thread(sealed.run, "zookeeper", "status")
        assert found["clusters"]["c"]["open"] > 10, "commands connect by TLS too"
        await producer.stop()
        values = [record.value async for record in read_topic(client, "t", partition=0)]
        assert values == producer.acknowledged
