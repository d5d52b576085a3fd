"""An embedded ensemble of three ZooKeeper nodes: a cluster works without any one of them."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from local_cluster.wire.errors import KafkaError
from tests.support.authority import Authority
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    eventually,
    running_cluster,
)
from topology.deployment.zookeeper import EmbeddedZooKeeper, Node, QuorumTls
from topology.supervisor.readiness import zookeeper_serves

pytestmark = pytest.mark.real

NODES = 3
REFUSED: Final = "Exception reading or writing challenge"
"""What a node logs about a peer that fails the handshake of TLS, or begins none."""


class Ensemble:
    """Three nodes on fixed ports."""

    def __init__(self, directory: Path, tls: Sequence[QuorumTls] = ()) -> None:
        """`tls` is of each node, empty for plain text."""
        ports = quiet_ports(3 * NODES)
        nodes = tuple(
            Node("127.0.0.1", *ports[index : index + 2]) for index in range(NODES, 3 * NODES, 2)
        )
        self.servers = [
            EmbeddedZooKeeper(
                directory=directory / f"node-{number}",
                data_directory=directory / f"node-{number}" / "data",
                port=ports[number - 1],
                fsync=False,
                ensemble=nodes,
                number=number,
                quorum_tls=tls[number - 1] if tls else None,
            )
            for number in range(1, NODES + 1)
        ]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for index, server in enumerate(self.servers):
            server.data_directory.mkdir(parents=True)
            for path, text in server.files.items():
                path.write_text(text)
            self.start(index)

    @property
    def connect(self) -> str:
        return ",".join(server.connect for server in self.servers)

    def start(self, index: int) -> None:
        with self._log(index).open("wb") as log:
            self._processes[index] = subprocess.Popen(self.servers[index].argv, stderr=log)

    def _log(self, index: int) -> Path:
        return self.servers[index].directory / "log"

    def refusals(self, index: int) -> int:
        """Return how often a node refused another one for its certificate, or for none."""
        return self._log(index).read_text().count(REFUSED)

    def kill(self, index: int) -> None:
        self._processes[index].kill()
        self._processes[index].wait()

    def close(self) -> None:
        for index in self._processes:
            self.kill(index)

    async def serves(self, index: int) -> bool:
        server = self.servers[index]
        return await zookeeper_serves(server.host, server.port)

    async def leads(self, index: int) -> bool:
        """Return whether a node is the leader of the ensemble."""
        server = self.servers[index]
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            try:
                writer.write(b"srvr")
                return b"Mode: leader" in await reader.read()
            finally:
                writer.close()
        return False


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    ensemble = Ensemble(tmp_path / "zookeeper")
    yield ensemble
    ensemble.close()


async def test_a_cluster_goes_on_without_any_one_node(ensemble: Ensemble, tmp_path: Path) -> None:
    for index in range(NODES):
        await eventually(lambda index=index: ensemble.serves(index))  # type: ignore[misc]
    async with (
        running_cluster(ensemble.connect, tmp_path, brokers=2) as brokers,
        KafkaClient(bootstrap(brokers), request_timeout_ms=30_000) as client,
    ):
        topic = NewTopic(name="t", partitions=1, replication_factor=2)
        assert (await client.create_topics([topic]))["t"] is None
        producer = IdempotentProducer(bootstrap(brokers), "t")
        await producer.advance(10)
        leading: list[int] = []

        async def one_leads() -> bool:
            leading[:] = [index for index in range(NODES) if await ensemble.leads(index)]
            return len(leading) == 1

        await eventually(one_leads)
        # The leader of the ensemble first, then another node; each is back before the next stops.
        for index in (leading[0], (leading[0] + 1) % NODES):
            ensemble.kill(index)
            created = NewTopic(name=f"without-{index}", partitions=1, replication_factor=2)

            async def is_created(created: NewTopic = created) -> bool:
                with contextlib.suppress(KafkaError):  # retried: sessions may be moving
                    await client.create_topics([created])
                    return created.name in (await client.metadata()).topics
                return False

            await eventually(is_created)
            await producer.advance(10)
            ensemble.start(index)
            await eventually(lambda index=index: ensemble.serves(index))  # type: ignore[misc]
        # Sessions move to another node, or are replaced: all brokers are members, in sync.
        await eventually(lambda: all_in_sync(client, "t"))
        await producer.stop()
        assert [each.value async for each in read_topic(client, "t")] == producer.acknowledged


STRANGE: Final = "foreign authority"


@pytest.mark.parametrize("third", [STRANGE, "plain text"])
async def test_a_node_needs_a_certificate_of_the_ensemble(third: str, tmp_path: Path) -> None:
    """Two nodes serve; the third one takes part only with a certificate that they trust."""
    authority, foreign = Authority(tmp_path / "ca"), Authority(tmp_path / "foreign", "foreign")
    ca_file = str(authority.ca_file)
    trusted = QuorumTls(keystore_file=str(authority.issue("node").pem), ca_file=ca_file)
    strange = QuorumTls(keystore_file=str(foreign.issue("node").pem), ca_file=ca_file)
    ensemble = Ensemble(tmp_path / "zookeeper", [trusted, trusted, strange])
    try:
        ensemble.kill(2)
        for index in (0, 1):
            await eventually(lambda index=index: ensemble.serves(index))  # type: ignore[misc]
        server = ensemble.servers[2]
        if third != STRANGE:
            text = replace(server, quorum_tls=None).files[server.config_file]
            server.config_file.write_text(text)
        seen = [ensemble.refusals(index) for index in (0, 1)]
        ensemble.start(2)
        await eventually(lambda: all(ensemble.refusals(index) > seen[index] for index in (0, 1)))
        assert not await ensemble.serves(2)
        ensemble.kill(2)
        server.config_file.write_text(replace(server, quorum_tls=trusted).files[server.config_file])
        ensemble.start(2)
        await eventually(lambda: ensemble.serves(2))
    finally:
        ensemble.close()
