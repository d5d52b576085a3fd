"""TLS to a real ZooKeeper: a broker works over it, and neither side trusts a stranger."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from local_cluster.client.auth.security import Secret, SecurityError
from local_cluster.client.auth.zookeeper_security import ZooKeeperSecurity
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.controller.zk import kazoo_client
from local_cluster.controller.zk.coordination import CoordinationUnavailable, Create
from local_cluster.controller.zk.kazoo_coordination import KazooCoordination
from tests.real.cluster.control_plane_member import SESSION_TIMEOUT_MS
from tests.support.authority import Authority
from tests.support.cluster import running_broker
from tests.support.quiet_ports import quiet_ports
from topology.backup.znodes import read_znodes
from topology.deployment.zookeeper import ClientTls, EmbeddedZooKeeper
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.znode_acls import count_acls, migrate_acls

pytestmark = pytest.mark.real

START_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Encrypted:
    """A server that requires client certificates, and how a broker connects to it."""

    address: str
    security: ZooKeeperSecurity
    foreign_ca_file: str


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    directory = tmp_path_factory.mktemp("zookeeper")
    plain_port, port = quiet_ports(2)
    authority = Authority(directory / "ca")
    (directory / "password").write_text("planted-password")
    security = ZooKeeperSecurity(
        username="kafka",
        password=Secret(file=str(directory / "password")),
        tls=True,
        ca_file=str(authority.ca_file),
        certificate_file=str(authority.issue("broker").pem),
    )
    server = EmbeddedZooKeeper(
        directory=directory,
        data_directory=directory / "data",
        port=plain_port,
        host="0.0.0.0",
        plain_host="127.0.0.1",
        fsync=False,
        client_tls=ClientTls(
            port=port,
            keystore_file=str(authority.issue("zookeeper").pem),
            client_ca_file=str(authority.ca_file),
        ),
    )
    for path, text in server.files.items():
        path.write_text(text)
    foreign = Authority(directory / "foreign", "foreign")
    process = subprocess.Popen(server.argv, stderr=subprocess.DEVNULL)
    try:
        until_it_serves(server.connect)
        yield Encrypted(f"localhost:{port}", security, str(foreign.ca_file))
    finally:
        process.kill()
        process.wait()


def until_it_serves(address: str) -> None:
    client = KazooClient(address)
    client.start(timeout=START_S)
    client.stop()
    client.close()


@contextlib.asynccontextmanager
async def member(connect: str, security: ZooKeeperSecurity) -> AsyncIterator[KazooCoordination]:
    coordination = KazooCoordination(
        connect, session_timeout_ms=SESSION_TIMEOUT_MS, security=security, sets_acl=True
    )
    try:
        await coordination.start()
        yield coordination
    finally:
        await coordination.stop()


async def test_a_broker_works_over_tls(encrypted: Encrypted, tmp_path: Path) -> None:
    connect = f"{encrypted.address}/works"
    settings = {"zookeeper_security": encrypted.security}
    config = {"zookeeper.set.acl": "true"}
    async with (
        running_broker(connect, tmp_path, settings=settings, config=config) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        await client.create_topics([NewTopic(name="t")])
        access = ZooKeeperAccess(connect=connect, security=encrypted.security, sets_acl=True)
        assert "/brokers/topics/t" in read_znodes(access)
        found = count_acls(access)
        assert (found.open, found.other) == (0, 0) and found.secured > 10
        assert migrate_acls(access, secure=True).changed == 0, "a certificate owns them as well"
        assert migrate_acls(access, secure=False).open == found.secured


async def test_neither_side_trusts_a_stranger(
    encrypted: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = f"{encrypted.address}/strangers"
    async with member(connect, encrypted.security) as trusted:
        await trusted.commit([Create("/a")])
    monkeypatch.setattr(kazoo_client, "CONNECT_WAIT_MS_MAX", 3_000)
    for security in (
        replace(encrypted.security, ca_file=encrypted.foreign_ca_file),
        replace(encrypted.security, certificate_file=None),
    ):
        with pytest.raises(CoordinationUnavailable, match="no ZooKeeper answered"):
            async with member(connect, security):
                pass
    other_name = connect.replace("localhost", "127.0.0.2")
    async with member(other_name, replace(encrypted.security, check_hostname=False)) as careless:
        assert await careless.read("/a") is not None
    with pytest.raises(CoordinationUnavailable, match="no ZooKeeper answered"):
        async with member(other_name, encrypted.security):
            pass


def test_a_certificate_that_cannot_be_read_is_named_at_once(encrypted: Encrypted) -> None:
    for security in (
        replace(encrypted.security, ca_file="/nowhere.pem"),
        replace(encrypted.security, certificate_file="/nowhere.pem"),
    ):
        with pytest.raises(SecurityError, match="certificates and keys"):
            KazooCoordination("h:1/c", session_timeout_ms=SESSION_TIMEOUT_MS, security=security)
