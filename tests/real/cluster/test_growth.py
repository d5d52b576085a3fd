"""A broker is added and another one removed under load: no record is lost or duplicated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import IdempotentProducer, eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PARTITIONS = 4
THROTTLE = str(100_000_000)


@pytest.fixture
async def command(tmp_path: Path) -> AsyncIterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        await asyncio.to_thread(command.run, "down", "--purge")


class Growing:
    """A deployment of a cluster that is mirrored, and whose brokers change with its file."""

    def __init__(self, command: HeliographCommand) -> None:
        self._command = command
        self._zookeeper, self._far, *self._ports = quiet_ports(6)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def write(self, *broker_ids: int) -> None:
        brokers = ", ".join(f"{{id: {i}, port: {self._ports[i - 1]}}}" for i in broker_ids)
        self._command.file.write_text(
            f"""\
name: grows
zookeepers: [{{name: zookeeper, port: {self._zookeeper}}}]
clusters:
  - name: c
    brokers: [{brokers}]
    topic_defaults: {{replication_factor: 3, config: {{min.insync.replicas: 2}}}}
  - name: far
    brokers: [{{id: 1, port: {self._far}}}]
links:
  - {{source: c, target: far, topics: [t]}}
"""
        )

    async def up(self, *broker_ids: int) -> dict[str, int]:
        """Deploy these brokers; return the process of each daemon."""
        self.write(*broker_ids)
        return pids(await asyncio.to_thread(self._command.up))

    async def run(self, *arguments: str) -> Any:
        return await asyncio.to_thread(self._command.run, *arguments)

    def replica_files(self, broker_id: int, partition: int) -> bytes:
        directory = self._command.state_dir / "data" / "c" / f"broker-{broker_id}"
        logs = sorted((directory / f"t-{partition}").glob("*.log"))
        return b"".join(path.read_bytes() for path in logs)


async def held(client: KafkaClient) -> Counter[int]:
    """Return the number of replicas by broker, as the controller knows them."""
    controller_id = (await client.metadata([])).controller_id
    topic = (await client.metadata(["t"], node_id=controller_id)).topics["t"]
    return Counter(replica for each in topic.partitions.values() for replica in each.replicas)


async def test_three_brokers_become_four_and_three_again_under_load(
    command: HeliographCommand,
) -> None:
    growing = Growing(command)
    before = await growing.up(1, 2, 3)
    async with KafkaClient(growing.bootstrap) as client:
        await client.create_topics([NewTopic(name="t", partitions=PARTITIONS)])
        producers = [IdempotentProducer(growing.bootstrap, "t", i) for i in range(PARTITIONS)]

        async def all_write() -> None:
            await asyncio.gather(*(producer.advance(20) for producer in producers))

        await all_write()
        after = await growing.up(1, 2, 3, 4)
        assert {key: after[key] for key in before} == before, "nothing else is restarted"
        assert "mirror-far" in before
        planned = await growing.run("rebalance", "c", "--dry-run")
        assert planned["moves"]
        assert {4} == {b for m in planned["moves"] for b in m["to"] if b not in m["from"]}
        assert (await held(client))[4] == 0, "a dry run moves nothing"
        done = await growing.run("rebalance", "c", "--throttle", THROTTLE)
        assert (len(done["moves"]), done["done"]) == (len(planned["moves"]), True)
        assert await held(client) == {1: 3, 2: 3, 3: 3, 4: 3}
        await all_write()

        # A broker is not removed while it still holds replicas.
        growing.write(2, 3, 4)
        complaint = await asyncio.to_thread(command.complain, "up", str(command.file))
        assert "broker 1 of c still holds 3 replicas" in complaint
        await growing.run("rebalance", "c", "--drain", "1", "--throttle", THROTTLE)
        assert await held(client) == {2: 4, 3: 4, 4: 4}
        await eventually(lambda: not growing.replica_files(1, 0))
        fewer = await growing.up(2, 3, 4)
        assert "broker-c-1" not in fewer
        assert fewer["mirror-far"] == after["mirror-far"], "its link forgets the broker that left"

        await all_write()
        for producer in producers:
            await producer.stop()
        for index, producer in enumerate(producers):
            values = [record.value async for record in read_topic(client, "t", partition=index)]
            assert values == producer.acknowledged

            def equal(index: int = index) -> bool:
                return len({growing.replica_files(i, index) for i in (2, 3, 4)}) == 1

            await eventually(equal)
