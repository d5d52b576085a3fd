"""Kafka's ACLs on a real ZooKeeper: who may do what, the migration there and back, and its kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from local_cluster.client.auth.security import Secret, SecurityError
from local_cluster.client.auth.zookeeper_security import ZooKeeperSecurity
from local_cluster.controller.model.znode_paths import PERSISTENT_PATHS
from local_cluster.controller.zk.coordination import (
    CoordinationDenied,
    Create,
    Delete,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.zk.kazoo_coordination import KazooCoordination
from tests.real.cluster.control_plane_member import SESSION_TIMEOUT_MS
from tests.support.replicas import eventually
from topology.backup.znodes import read_znodes, write_znodes
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.restart_turn import PATH, SharedTurn
from topology.operate.znode_acls import count_acls, migrate_acls
from topology.problems import DeployError

pytestmark = pytest.mark.real

PASSWORD: Final = "planted-password"
TOPICS: Final = 300
LAYOUT: Final[tuple[ZkOp, ...]] = tuple(Create(path) for path in PERSISTENT_PATHS)
USER: Final = Create("/config/users/alice", b"stored_key")
MIGRATION: Final = """
import os, signal, sys
from local_cluster.client.auth.security import Secret
from local_cluster.client.auth.zookeeper_security import ZooKeeperSecurity
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.znode_acls import migrate_acls

security = ZooKeeperSecurity(username="kafka", password=Secret(file=sys.argv[2]))

def die_in_the_middle(counts):
    if counts.total > 400:
        os.kill(os.getpid(), signal.SIGKILL)

access = ZooKeeperAccess(connect=sys.argv[1], security=security, sets_acl=True)
migrate_acls(access, secure=sys.argv[3] == "secure", on_progress=die_in_the_middle)
"""


@pytest.fixture
def security(tmp_path: Path) -> ZooKeeperSecurity:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return ZooKeeperSecurity(username="kafka", password=Secret(file=str(file)))


@contextlib.asynccontextmanager
async def member(chroot: str, **options: Any) -> AsyncIterator[KazooCoordination]:
    """What a broker uses."""
    coordination = KazooCoordination(chroot, session_timeout_ms=SESSION_TIMEOUT_MS, **options)
    await coordination.start()
    try:
        yield coordination
    finally:
        await coordination.stop()


class Stranger:
    """A client without the credential, which creates no chroot."""

    def __init__(self, zookeeper: str, chroot: str) -> None:
        self.client = KazooClient(zookeeper)
        self._base = chroot.removeprefix(zookeeper)

    def at(self, path: str) -> str:
        return f"{self._base}{path}".rstrip("/")

    def may_change(self, path: str) -> bool:
        """Whether it may write, create below, and change the ACL: all of it, or nothing."""
        client, at = self.client, self.at(path)
        answers = {
            self._may(lambda: client.set(at, client.get(at)[0])),
            self._may(lambda: client.delete(client.create(f"{at}/stranger"))),
            self._may(lambda: client.set_acls(at, client.get_acls(at)[0])),
        }
        (answer,) = answers
        return answer

    def may_read(self, path: str) -> bool:
        client, at = self.client, self.at(path)
        (answer,) = {
            self._may(lambda: client.get(at)),
            self._may(lambda: client.get_children(at)),
        }
        return answer

    def may_delete(self, path: str) -> bool:
        return self._may(lambda: self.client.delete(self.at(path)))

    @staticmethod
    def _may(request: Callable[[], Any]) -> bool:
        try:
            request()
        except NoAuthError:
            return False
        return True


@pytest.fixture
def stranger(zookeeper: str, chroot: str) -> Iterator[Stranger]:
    stranger = Stranger(zookeeper, chroot)
    stranger.client.start()
    yield stranger
    stranger.client.stop()
    stranger.client.close()


async def test_new_znodes_get_kafkas_acls(
    chroot: str, stranger: Stranger, security: ZooKeeperSecurity
) -> None:
    async with member(chroot, security=security, sets_acl=True) as broker:
        await broker.commit(LAYOUT)
        await broker.commit([USER, Create("/brokers/topics/t"), Create("/controller", b"1", True)])
        await broker.commit([Create("/config/changes/config_change_", b"", sequential=True)])
        (change,) = await broker.children("/config/changes")
        readable = ["/", "/brokers/topics", "/brokers/topics/t", f"/config/changes/{change}"]
        closed = ["/config/users", "/config/users/alice", "/config/brokers"]
        for path in [*readable, *closed]:
            assert not stranger.may_change(path), path
            assert stranger.may_read(path) == (path in readable), path
        assert stranger.may_change("/consumers"), "as in Kafka"
        assert not stranger.may_delete("/controller")
        assert not stranger.may_delete("/brokers/topics/t")
        found = await broker.read("/config/users/alice")
        assert found is not None and found.payload == b"stored_key"
        await broker.commit(
            [Delete("/brokers/topics/t"), SetPayload("/config/users/alice", b"", 0)]
        )


async def test_without_the_credential_a_member_is_denied_by_name(
    chroot: str, tmp_path: Path, security: ZooKeeperSecurity
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("another")
    other = ZooKeeperSecurity(username="kafka", password=Secret(file=str(wrong)))
    async with member(chroot, security=security, sets_acl=True) as broker:
        await broker.commit([*LAYOUT, USER])
        for options in ({}, {"security": other, "sets_acl": True}):
            async with member(chroot, **options) as outsider:
                assert await outsider.read("/brokers/topics") is not None
                for request in (
                    outsider.commit([Create("/brokers/topics/t")]),
                    outsider.commit([Create("/consumers/c"), SetPayload("/brokers", b"", 0)]),
                ):
                    with pytest.raises(CoordinationDenied, match="denied access to /brokers"):
                        await request
                with pytest.raises(CoordinationDenied, match="to /config/users/alice"):
                    await outsider.read("/config/users/alice")
                with pytest.raises(CoordinationDenied):
                    await outsider.children("/config/users", watch=True)
                with pytest.raises(CoordinationDenied):
                    await outsider.read_many(["/brokers", "/config/users/alice"])
                assert await outsider.read("/consumers/c") is None, "undone as a whole"
    wrong.write_text("\n")
    with pytest.raises(SecurityError, match="of ZooKeeper's user kafka is empty"):
        KazooCoordination(chroot, session_timeout_ms=SESSION_TIMEOUT_MS, security=other)


async def test_members_of_both_phases_work_side_by_side(
    chroot: str, stranger: Stranger, security: ZooKeeperSecurity
) -> None:
    """A broker that sets ACLs, and one that only authenticates, change each other's znodes."""
    async with (
        member(chroot, security=security) as early,
        member(chroot, security=security, sets_acl=True) as late,
    ):
        await early.commit([*LAYOUT, Create("/brokers/topics/early")])
        await late.commit([Create("/brokers/topics/late"), Create("/brokers/topics/early/1")])
        await early.commit([SetPayload("/brokers/topics/late", b"1", 0)])
        await early.commit([Create("/brokers/topics/late/1"), Delete("/brokers/topics/early/1")])
        await late.commit([Delete("/brokers/topics/late/1"), Delete("/brokers/topics/early")])
        assert stranger.may_change("/brokers/topics")
        assert not stranger.may_change("/brokers/topics/late")


async def test_a_killed_migration_is_continued_there_and_back(
    chroot: str, stranger: Stranger, security: ZooKeeperSecurity
) -> None:
    access = ZooKeeperAccess(connect=chroot, security=security, sets_acl=True)
    async with member(chroot) as broker:
        await broker.commit([*LAYOUT, USER])
        paths = [f"/brokers/topics/t{index}" for index in range(TOPICS)]
        await broker.commit([op for path in paths for op in (Create(path), Create(f"{path}/p"))])
    before = count_acls(access)
    assert (before.secured, before.other) == (0, 0) and before.open > 2 * TOPICS
    assert security.password is not None
    password_file = str(security.password.file)

    def kill(direction: str) -> None:
        argv = [sys.executable, "-c", MIGRATION, chroot, password_file, direction]
        done = subprocess.run(argv, check=False, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
        assert done.returncode == -signal.SIGKILL
        half = count_acls(access)
        assert half.open and half.secured and not half.other, half

    kill("secure")
    done = migrate_acls(access, secure=True)
    assert (done.open, done.other, done.secured) == (0, 0, before.open)
    assert 0 < done.changed < done.secured, "what was done is not done again"
    assert migrate_acls(access, secure=True).changed == 0
    assert stranger.may_read("/brokers/topics/t0/p") and stranger.may_change("/consumers")
    assert not stranger.may_change("/brokers/topics/t0/p")
    assert not stranger.may_read("/config/users/alice")
    as_stranger = count_acls(ZooKeeperAccess(connect=chroot))
    assert (as_stranger.open, as_stranger.secured) == (0, 0) and as_stranger.other > 2 * TOPICS

    kill("unsecure")
    back = migrate_acls(access, secure=False)
    assert (back.open, back.secured, back.other) == (before.open, 0, 0)
    assert stranger.may_change("/config/users/alice") and stranger.may_change("/brokers")


async def test_a_migration_says_whose_znode_it_cannot_change(
    chroot: str, tmp_path: Path, security: ZooKeeperSecurity
) -> None:
    (tmp_path / "other").write_text("other")
    other = ZooKeeperSecurity(username="kafka", password=Secret(file=str(tmp_path / "other")))
    async with member(chroot, security=other, sets_acl=True) as broker:
        await broker.commit(LAYOUT)
    access = ZooKeeperAccess(connect=chroot, security=security, sets_acl=True)
    with pytest.raises(DeployError, match="denies access to /"):
        migrate_acls(access, secure=True)


async def test_a_backup_of_closed_znodes_is_restored_with_their_acls(
    chroot: str, stranger: Stranger, security: ZooKeeperSecurity
) -> None:
    access = ZooKeeperAccess(connect=chroot, security=security, sets_acl=True)
    async with member(chroot, security=security, sets_acl=True) as broker:
        await broker.commit([*LAYOUT, USER])
    found = read_znodes(access)
    assert found["/config/users/alice"] == b"stored_key"
    again = ZooKeeperAccess(connect=f"{chroot}/again", security=security, sets_acl=True)
    write_znodes(again, found)
    assert read_znodes(again) == found
    assert not stranger.may_read("/again/config/users/alice")
    assert not stranger.may_change("/again/brokers")


async def test_hosts_take_turns_below_a_closed_chroot(
    chroot: str, stranger: Stranger, security: ZooKeeperSecurity
) -> None:
    async with member(chroot, security=security, sets_acl=True):
        pass
    access = ZooKeeperAccess(connect=chroot, security=security, sets_acl=True)
    turn, next_one = SharedTurn(access, "one"), SharedTurn(access, "another")
    try:
        await eventually(lambda: turn.take() is None)
        assert not stranger.may_delete(PATH)
        await eventually(lambda: next_one.take() == "host one restarts brokers of the cluster")
        turn.close()
        await eventually(lambda: next_one.take() is None)
    finally:
        turn.close()
        next_one.close()
