"""ZooKeeper's user and ACLs on a running cluster: phase by phase, there and back, under load.

It plays "ZooKeeper" of docs/operations/security.md. Each `up` is killed in the middle once, so that
brokers of both phases work side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.killed_up import kill_up_after_the_first_broker
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import IdempotentProducer
from topology.deployment.state_dir import StateDir

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PASSWORD: Final = "planted-password"
USER: Final = "username: kafka, password: {file: zookeeper-password}"
ENDED: Final = re.compile(r"broker \d of c ended")
FILE: Final = """\
name: closed
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: c
    brokers: [{{id: 1, port: {1}}}, {{id: 2, port: {2}}}]
    topic_defaults: {{replication_factor: 2}}
"""


class Closed(HeliographCommand):
    """A cluster of two brokers, and what its file says about ZooKeeper."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (directory / "zookeeper-password").write_text(f"{PASSWORD}\n")
        self.ports = quiet_ports(3)
        zookeeper, *ports = self.ports
        self.zookeeper = f"127.0.0.1:{zookeeper}/c"
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)

    def declare(self, security: str) -> None:
        text = FILE.format(*self.ports)
        self.file.write_text(
            text + (f"    zookeeper_security: {{{security}}}\n" if security else "")
        )

    async def up_twice(self) -> None:
        """Roll the brokers; kill the first `up` when the first broker has ended."""
        await kill_up_after_the_first_broker(self, ENDED)
        planned = json.dumps(await asyncio.to_thread(self.document, "plan", str(self.file)))
        assert PASSWORD not in planned and planned.count('"restart"') == 1, planned

    async def finish(self) -> None:
        """Let the next `up` continue."""
        seen = pids(await asyncio.to_thread(self.document, "status"))
        after = pids(await asyncio.to_thread(self.up))
        assert len({key for key in after if after[key] != seen[key]}) == 1


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[Closed]:
    command = Closed(tmp_path)
    yield command
    if command.state_dir.exists():
        await asyncio.to_thread(command.run, "down", "--purge")


@contextlib.contextmanager
def stranger(closed: Closed) -> Iterator[KazooClient]:
    """A client without the credential."""
    client = KazooClient(closed.zookeeper)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def may_write(closed: Closed) -> bool:
    with stranger(closed) as client:
        assert json.loads(client.get("/brokers/topics/t")[0])["version"], "the world may read it"
        try:
            client.create("/brokers/topics/forged", b"{}")
        except NoAuthError:
            return False
        client.delete("/brokers/topics/forged")
        return True


def may_read_secrets(closed: Closed) -> bool:
    with stranger(closed) as client:
        try:
            return b"stored_key" in client.get("/config/users/alice")[0]
        except NoAuthError:
            return False


def counts(closed: Closed, action: str) -> Any:
    return closed.run("zookeeper", action)["clusters"]["c"]


@pytest.mark.long
async def test_the_phases_there_and_back_under_load(closed: Closed) -> None:
    closed.declare("")
    await asyncio.to_thread(closed.up)
    async with KafkaClient(closed.bootstrap) as client:
        await client.create_topics([NewTopic(name="t")])
        await alter_scram_users(client, [ScramChange("alice", "SCRAM-SHA-512", "secret")])
        producer = IdempotentProducer(closed.bootstrap, "t", 0)
        topics = iter(range(100))

        async def works() -> None:
            """Records, topics and users of a cluster whose brokers may be of both phases."""
            await producer.advance(10)
            name = f"new-{next(topics)}"
            await client.create_topics([NewTopic(name=name)])
            await client.delete_topics([name])
            await alter_scram_users(client, [ScramChange(name, "SCRAM-SHA-512", "secret")])

        await works()
        assert "have no user in ZooKeeper" in refused(closed, "zookeeper", "secure")
        running = pids(closed.document("status"))
        closed.declare(f"{USER}, set_acl: true")
        assert "without `set_acl` first" in refused(closed, "up", str(closed.file))
        assert pids(closed.document("status")) == running

        for security in (USER, f"{USER}, set_acl: true"):
            closed.declare(security)
            await closed.up_twice()
            await works()
            assert "nothing was changed" in refused(closed, "zookeeper", "secure")
            await closed.finish()
            await works()
        before = counts(closed, "status")
        assert before["open"] and before["secured"] and not before["other"], before
        assert may_read_secrets(closed)
        done = counts(closed, "secure")
        assert (done["open"], done["other"]) == (0, 0) and done["changed"] == before["open"]
        assert not may_write(closed) and not may_read_secrets(closed)
        assert counts(closed, "secure")["changed"] == 0
        await works()

        closed.declare("")
        assert "remove `set_acl` first" in refused(closed, "up", str(closed.file))
        closed.declare(USER)
        await closed.up_twice()
        await works()
        assert "not every broker" in refused(closed, "zookeeper", "unsecure")
        await closed.finish()
        closed.declare("")
        assert "belong to another user" in refused(closed, "up", str(closed.file))
        await works()
        assert counts(closed, "unsecure")["secured"] == 0
        assert may_write(closed) and may_read_secrets(closed)
        await closed.up_twice()
        await works()
        await closed.finish()
        await works()

        await producer.stop()
        values = [record.value async for record in read_topic(client, "t", partition=0)]
        assert values == producer.acknowledged
    leaks = [each for each in closed.state_dir.rglob("*") if holds_the_password(each)]
    assert leaks == []


NEW: Final = """\
name: new
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: c
    listeners:
      - name: SECURE
        security_protocol: SASL_PLAINTEXT
        sasl: {{users: {{admin: {{file: admin}}}}}}
    inter_broker_security: &admin
      protocol: SASL_PLAINTEXT
      mechanism: SCRAM-SHA-512
      username: admin
      password: {{file: admin}}
    security: *admin
    users: {{alice: {{file: admin}}}}
    zookeeper_security: {{username: kafka, password: {{file: zookeeper-password}}, set_acl: true}}
    brokers: [{{id: 1, port: {1}}}]
"""


def test_a_new_cluster_is_closed_from_the_start(closed: Closed, tmp_path: Path) -> None:
    """Its users of the file included. A broker with another password does not start."""
    (tmp_path / "admin").write_text("secret-of-admin")
    closed.file.write_text(NEW.format(*closed.ports))
    closed.up()
    found = counts(closed, "status")
    assert (found["open"], found["other"]) == (0, 0) and found["secured"] > 10
    assert not may_read_secrets(closed)
    assert counts(closed, "secure")["changed"] == 0
    assert closed.up()["steps"] == []
    assert "right phase" in refused(closed, "zookeeper", "unsecure")
    assert "no cluster" in refused(closed, "zookeeper", "status", "-c", "d")

    closed.run("down")
    (tmp_path / "zookeeper-password").write_text("another")
    said = refused(closed, "up", str(closed.file))
    assert "broker 1 of c keeps ending" in said
    log = StateDir(closed.state_dir).log_file("broker-c-1").read_text()
    assert "ZooKeeper denied access to /config/users" in log
    assert "another" not in log.replace("another user", "")


def refused(closed: Closed, *arguments: str) -> str:
    return closed.complain(*arguments)


def holds_the_password(path: Path) -> bool:
    return path.is_file() and PASSWORD.encode() in path.read_bytes()
