"""A backup of what is in ZooKeeper, restored into an empty server."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support.heliograph_command import HeliographCommand
from tests.support.mirror_process import read_records
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import eventually

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

TOPOLOGY = """\
name: kept
zookeepers: [{{name: main, port: {0}}}]
clusters:
  - name: ewr
    brokers: [{{id: 1, port: {1}}}]
"""
USER = b'{"version":1,"config":{"SCRAM-SHA-512":"salt=c2FsdA==,stored_key=aw==,iterations=4096"}}'
"""Written as Kafka writes a user; no broker of this test logs anybody in."""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


async def test_a_lost_zookeeper_is_restored_and_the_cluster_goes_on(
    command: HeliographCommand, tmp_path: Path
) -> None:
    zookeeper, port = quiet_ports(2)
    command.file.write_text(TOPOLOGY.format(zookeeper, port))
    file, backup = str(command.file), tmp_path / "backup.json"
    command.up()
    at = TopicPartition("flights", 0)
    async with KafkaClient(f"127.0.0.1:{port}") as client:
        configs = {"retention.ms": "-1", "segment.bytes": "1048576"}
        await client.create_topics([NewTopic(name="flights", partitions=1, configs=configs)])
        await produce_to(client, at, encode_batch([NewRecord(0, None, b"a")]))
        producer_id, _ = await client.init_producer_id()
        topic_id = (await client.metadata(["flights"])).topics["flights"].topic_id
    plant(f"127.0.0.1:{zookeeper}/ewr", "/config/users/alice", USER)

    done = command.run("backup", "--to", str(backup))
    assert done["clusters"]["ewr"]["topics"] == 1
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600, "it holds credentials"
    entries = {each["path"]: each for each in json.loads(backup.read_text())["clusters"]["ewr"]}
    assert entries["/config/topics/flights"]["json"]["config"]["retention.ms"] == "-1"
    assert "/brokers/ids/1" not in entries
    assert "exists" in command.complain("backup", "--to", str(backup), code=2)
    refusal = command.complain("restore", str(backup), file)
    assert "broker 1 of ewr" in refusal and "nothing was written" in refusal

    command.run("down")
    (data,) = (command.state_dir / "data").glob("zookeeper-*")
    shutil.rmtree(data)
    restored = command.run("restore", str(backup), file)
    assert restored["clusters"] == done["clusters"]
    command.run("down")
    assert "is not empty" in command.complain("restore", str(backup), file)
    assert command.up()["state"] == "running"

    async with KafkaClient(f"127.0.0.1:{port}") as client:
        topics = (await client.metadata(["flights"])).topics
        assert topics["flights"].topic_id == topic_id
        await produce_to(client, at, encode_batch([NewRecord(0, None, b"b")]))

        async def has_both() -> bool:
            return [each.value for each in await read_records(client, at)] == [b"a", b"b"]

        await eventually(has_both)
        later, _ = await client.init_producer_id()
        assert later > producer_id + 1_000_000
    command.run("backup", "--to", str(tmp_path / "again.json"))
    again = json.loads((tmp_path / "again.json").read_text())["clusters"]["ewr"]
    kept = {each["path"]: each for each in again}
    assert kept["/config/users/alice"] == entries["/config/users/alice"]
    assert kept["/config/topics/flights"] == entries["/config/topics/flights"]
    assert kept["/cluster/id"] == entries["/cluster/id"]


def plant(connect: str, path: str, data: bytes) -> None:
    client = KazooClient(connect)
    client.start()
    try:
        client.create(path, data, makepath=True)
    finally:
        client.stop()
        client.close()
