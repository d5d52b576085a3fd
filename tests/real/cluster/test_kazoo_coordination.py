"""The port to ZooKeeper on kazoo: reads, commits, conflicts, watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from local_cluster.controller.zk.coordination import (
    READ_MANY_MAX,
    CheckVersion,
    CommitConflict,
    Conflict,
    CoordinationUnavailable,
    Create,
    Delete,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.zk.kazoo_coordination import KazooCoordination
from local_cluster.controller.zk.kazoo_requests import MultiRead
from tests.real.cluster.control_plane_member import SESSION_TIMEOUT_MS
from tests.support.replicas import eventually

pytestmark = pytest.mark.real


class TestKazooCoordination:
    @pytest.fixture
    async def coordination(self, chroot: str) -> AsyncIterator[KazooCoordination]:
        coordination = KazooCoordination(chroot, session_timeout_ms=SESSION_TIMEOUT_MS)
        await coordination.start()
        yield coordination
        await coordination.stop()

    async def test_reads_and_commits(self, coordination: KazooCoordination) -> None:
        assert await coordination.read("/a") is None
        assert await coordination.children("/a") == ()
        assert await coordination.commit([Create("/a", b"1"), Create("/a/b")]) == (0, 0)
        changes: list[ZkOp] = [SetPayload("/a", b"2", 0), CheckVersion("/a/b", 0), Delete("/a/b")]
        assert (await coordination.commit(changes))[0] == 1
        znode = await coordination.read("/a")
        assert znode is not None
        assert (znode.payload, znode.version, znode.ephemeral_owner) == (b"2", 1, 0)
        assert 0 < znode.created_zxid < znode.modified_zxid

    async def test_many_znodes_in_one_request(self, coordination: KazooCoordination) -> None:
        await coordination.commit([Create("/a", b"1"), Create("/b"), SetPayload("/a", b"22", 0)])
        names = ["/b", "/none", *["/a"] * (READ_MANY_MAX - 2)]
        found = await coordination.read_many(names)
        one_by_one = [await coordination.read(name) for name in names[:3]]
        assert found == [*one_by_one, *[one_by_one[2]] * (READ_MANY_MAX - 3)]
        assert one_by_one[1] is None

    async def test_a_server_without_multi_read_is_read_one_by_one(
        self, coordination: KazooCoordination, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Any server answers an unknown request type in the same way.
        monkeypatch.setattr(MultiRead, "type", 999)
        await coordination.commit([Create("/a", b"1")])
        node = await coordination.read("/a")
        # It also closes the connection with its response, so concurrent requests are retried.
        async with asyncio.timeout(30):
            while True:
                try:
                    found = await coordination.read_many(["/a", "/none"])
                    break
                except CoordinationUnavailable:
                    await asyncio.sleep(0.05)
        assert found == [node, None]

    @pytest.mark.parametrize(
        ("op", "conflict"),
        [
            (Create("/a"), Conflict.NODE_EXISTS),
            (Create("/no/parent"), Conflict.NO_NODE),
            (SetPayload("/a", b"", 7), Conflict.BAD_VERSION),
            (CheckVersion("/a", 7), Conflict.BAD_VERSION),
            (Delete("/none"), Conflict.NO_NODE),
            (Delete("/a"), Conflict.NOT_EMPTY),
        ],
    )
    async def test_a_conflict_names_its_operation_and_undoes_all(
        self, coordination: KazooCoordination, op: Any, conflict: Conflict
    ) -> None:
        await coordination.commit([Create("/a"), Create("/a/b")])
        with pytest.raises(CommitConflict) as refused:
            await coordination.commit([Create("/first"), op, Create("/last")])
        assert (refused.value.index, refused.value.op) == (1, op)
        assert refused.value.conflict is conflict
        assert await coordination.read("/first") is None

    async def test_watches_tell_of_creation_change_and_children(
        self, coordination: KazooCoordination, outside: KazooClient
    ) -> None:
        fired: list[str | None] = []
        coordination.subscribe(fired.append, lambda state: None)
        assert await coordination.read("/w", watch=True) is None
        outside.create("/w", b"1")
        await eventually(lambda: fired == ["/w"])
        await coordination.read("/w", watch=True)
        outside.set("/w", b"2")
        await eventually(lambda: fired == ["/w", "/w"])
        await coordination.children("/w", watch=True)
        outside.create("/w/child")
        await eventually(lambda: fired == ["/w", "/w", "/w"])
