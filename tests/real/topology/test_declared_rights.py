"""Users, ACLs and quotas of the file on a real broker: `plan` shows them, `up` applies them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local_cluster.client.admin.acls import create_acls, describe_acls
from local_cluster.client.admin.client_quotas import (
    QuotaChange,
    QuotaEntity,
    alter_client_quotas,
    describe_client_quotas,
)
from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import Acl
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.quiet_ports import quiet_ports
from topology.deployment.deployment import Deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import load_topology
from topology.model.rights import AclRule
from topology.operate.down import down
from topology.operate.preflight import plan_rights
from topology.operate.up import Up, up
from topology.problems import DeployError

pytestmark = pytest.mark.real

FILE = """\
name: declared
zookeepers: [{{name: zookeeper, port: {zookeeper}}}]
clusters:
  - name: jfk
    listeners:
      - name: SECURE
        security_protocol: SASL_PLAINTEXT
        sasl:
          mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512]
          users: {{broker: {{file: broker}}, admin: {{file: admin}}}}
    inter_broker_security:
      protocol: SASL_PLAINTEXT
      mechanism: SCRAM-SHA-512
      username: broker
      password: {{file: broker}}
    security:
      protocol: SASL_PLAINTEXT
      mechanism: SCRAM-SHA-512
      username: admin
      password: {{file: admin}}
    authorizer: {{super_users: ["User:admin"]}}
{rights}    brokers: [{{id: 1, port: {broker}}}]
"""
RIGHTS = """\
    users: {alice: {file: alice}, shared: {file: shared}}
    acls:
      - {principal: "User:alice", operations: [READ], topics: [t]}
      - {principal: "User:shared", operations: [READ], topics: [t]}
"""
PLAIN = """\
name: declared
zookeepers: [{{name: zookeeper, port: {zookeeper}}}]
clusters:
  - name: jfk
{rights}    brokers: [{{id: 1, port: {broker}}}]
"""
QUOTAS = """\
    quotas:
      - {user: alice, client_id: etl, producer_byte_rate: 1048576, request_percentage: 12.5}
      - {default_user: true, consumer_byte_rate: 2000000}
      - {client_id: shared, producer_byte_rate: 3000}
      - {ip: 10.0.0.7, connection_creation_rate: 20}
"""
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def acl(principal: str) -> Acl:
    (found,) = AclRule(principal=principal, operations=["READ"], topics=["t"]).acls()
    return found


class Declared:
    """One broker with a file that changes."""

    def __init__(self, directory: Path, text: str = FILE) -> None:
        self._text = text
        self.directory = directory
        self.state = StateDir(directory / "state")
        self.file = directory / "declared.yaml"
        self._zookeeper, self._broker = quiet_ports(2)
        for user in ("broker", "admin", "alice", "shared"):
            (directory / user).write_text(f"planted-{user}\n")

    def deployment(self) -> Deployment:
        return render(load_topology(self.file), self.state, topology_file=self.file)

    def up(self) -> Up:
        return up(self.deployment(), self.state)

    def applied(self) -> list[str]:
        """Apply the file; return the steps, which a plan has shown before."""
        (planned,) = plan_rights(self.deployment(), self.state)
        done = self.up()
        changes = list(done.rights.get("jfk", ()))
        assert list(planned.changes) == changes and planned.unknown is None
        assert done.steps == (), "users, ACLs and quotas need no restart"
        return [each.sentence() for each in changes]

    def declare(self, rights: str) -> None:
        text = self._text.format(zookeeper=self._zookeeper, broker=self._broker, rights=rights)
        self.file.write_text(text)

    def client(self, user: str = "admin", password: str | None = None) -> KafkaClient:
        (cluster,) = self.deployment().clusters
        place = cluster.security.password
        if password is not None:
            file = self.directory / "typed"
            file.write_text(password)
            assert place is not None
            place = replace(place, file=str(file))
        security = replace(cluster.security, username=user, password=place)
        return KafkaClient(cluster.bootstrap, security=security)

    def acls(self) -> set[Acl]:
        async def read() -> set[Acl]:
            async with self.client() as client:
                return await describe_acls(client)

        return asyncio.run(read())

    def quotas(self, *changes: QuotaChange) -> dict[QuotaEntity, dict[str, float]]:
        """Change quotas as somebody else, and return all of them."""

        async def read() -> dict[QuotaEntity, dict[str, float]]:
            async with KafkaClient(self.deployment().clusters[0].bootstrap) as client:
                assert set(await alter_client_quotas(client, changes)) <= {None}
                return await describe_client_quotas(client)

        return asyncio.run(read())

    def gets_in(self, user: str, password: str) -> bool:
        async def connect() -> bool:
            async with self.client(user, password) as client:
                try:
                    await client.metadata([])
                except KafkaError as error:
                    assert error.code == ErrorCode.sasl_authentication_failed
                    return False
            return True

        return asyncio.run(connect())


@pytest.fixture
def declared(tmp_path: Path) -> Iterator[Declared]:
    found = Declared(tmp_path)
    try:
        yield found
    finally:
        down(found.state, purge=True)


async def others_work(declared: Declared) -> None:
    """What somebody else creates: a user and an ACL of the file, and an ACL that is not in it."""
    async with declared.client() as client:
        shared = [ScramChange("shared", each, "planted-else") for each in MECHANISMS]
        assert await alter_scram_users(client, shared) == [None, None]
        made = await create_acls(client, [acl("User:shared"), acl("User:hand")])
        assert set(made.values()) == {None}


def test_the_file_owns_what_it_created(
    declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    declared.declare("")
    (planned,) = plan_rights(declared.deployment(), declared.state)
    assert planned.lines() == []
    assert declared.up().rights == {}
    asyncio.run(others_work(declared))

    declared.declare(RIGHTS)
    assert declared.applied() == [
        "create user alice (SCRAM-SHA-256)",
        "create user alice (SCRAM-SHA-512)",
        "change the password of user shared (SCRAM-SHA-256)",
        "change the password of user shared (SCRAM-SHA-512)",
        "create ACL ALLOW User:alice from * READ TOPIC 't' LITERAL",
    ]
    assert declared.gets_in("alice", "planted-alice")
    assert declared.gets_in("shared", "planted-shared")
    assert declared.applied() == []

    (declared.directory / "alice").write_text("planted-new")
    changed = [f"change the password of user alice ({each})" for each in MECHANISMS]
    assert declared.applied() == changed
    assert declared.gets_in("alice", "planted-new")
    assert not declared.gets_in("alice", "planted-alice")

    (declared.directory / "alice").write_text("\n")
    with pytest.raises(DeployError, match="the password of user alice is empty"):
        declared.up()
    declared.declare("")
    assert declared.applied() == [
        "delete ACL ALLOW User:alice from * READ TOPIC 't' LITERAL",
        "delete user alice (SCRAM-SHA-256)",
        "delete user alice (SCRAM-SHA-512)",
    ]
    assert declared.acls() == {acl("User:shared"), acl("User:hand")}, "others' stay"
    assert not declared.gets_in("alice", "planted-new")
    assert declared.gets_in("shared", "planted-shared")
    assert "planted" not in caplog.text
    files = [path for path in declared.state.path.rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"planted" in path.read_bytes()]


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Declared]:
    found = Declared(tmp_path, PLAIN)
    try:
        yield found
    finally:
        down(found.state, purge=True)


def test_the_file_owns_the_quotas_that_it_created(plain: Declared) -> None:
    plain.declare("")
    assert plan_rights(plain.deployment(), plain.state) == []
    plain.up()
    assert plan_rights(plain.deployment(), plain.state) == []
    shared, hand = (("client-id", "shared"),), (("user", "hand"),)
    plain.quotas(
        QuotaChange(shared, "producer_byte_rate", 4000.0),
        QuotaChange(shared, "consumer_byte_rate", 5000.0),
        QuotaChange(hand, "request_percentage", 50.0),
    )

    plain.declare(QUOTAS)
    pair = (("user", "alice"), ("client-id", "etl"))
    assert plain.applied() == [
        "create quota producer_byte_rate 1048576 of user alice, client-id etl",
        "create quota request_percentage 12.5 of user alice, client-id etl",
        "create quota consumer_byte_rate 2000000 of user (default)",
        "change quota producer_byte_rate 3000 of client-id shared, before 4000,"
        " which `up` had not set and will not remove",
        "create quota connection_creation_rate 20 of ip 10.0.0.7",
    ]
    others = {
        shared: {"producer_byte_rate": 3000.0, "consumer_byte_rate": 5000.0},
        hand: {"request_percentage": 50.0},
    }
    of_file = {
        pair: {"producer_byte_rate": 1048576.0, "request_percentage": 12.5},
        (("user", None),): {"consumer_byte_rate": 2e6},
        (("ip", "10.0.0.7"),): {"connection_creation_rate": 20.0},
    }
    assert plain.quotas() == others | of_file
    assert plain.applied() == [], "nothing is left to do"

    # Somebody changes one of the file's, and the file changes another and drops a third.
    plain.quotas(QuotaChange((("user", None),), "consumer_byte_rate", 7.0))
    edited = QUOTAS.replace(", request_percentage: 12.5", "").replace("rate: 20}", "rate: 30}")
    plain.declare(edited)
    assert plain.applied() == [
        "change quota consumer_byte_rate 2000000 of user (default), before 7",
        "change quota connection_creation_rate 30 of ip 10.0.0.7, before 20",
        "delete quota request_percentage of user alice, client-id etl, before 12.5",
    ]

    # Without the key, and so without any rights, the file takes back what it created.
    plain.declare("")
    assert plain.applied() == [
        "delete quota connection_creation_rate of ip 10.0.0.7, before 30",
        "delete quota consumer_byte_rate of user (default), before 2000000",
        "delete quota producer_byte_rate of user alice, client-id etl, before 1048576",
    ]
    assert plain.quotas() == others, "others' stay"
    assert plain.applied() == []
