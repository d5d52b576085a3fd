"""The store against a ZooKeeper in memory: two brokers, lost answers, lost sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from local_cluster.clock import SystemClock
from local_cluster.controller.zk.coordination import (
    CoordinationUnavailable,
    SessionState,
    ZkOp,
)
from local_cluster.security.authorization import acl_store
from local_cluster.security.authorization.acl_changes import create_acls, delete_acls
from local_cluster.security.authorization.acl_filter import AclFilter
from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.acl_store import AclStore
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper


def acl(name: str, principal: str = "User:alice") -> Acl:
    return Acl(
        ResourceType.TOPIC,
        name,
        PatternType.LITERAL,
        principal,
        "*",
        AclOperation.READ,
        Permission.ALLOW,
    )


EVERYTHING = AclFilter(
    ResourceType.ANY,
    None,
    PatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    Permission.ANY,
)


class One:
    """One broker's store."""

    def __init__(self, server: FakeZooKeeper, *, age_ms_max: int = acl_store.NO_LIMIT) -> None:
        self.coordination = FakeCoordination(server)
        self.images: list[AclImage | None] = []
        self.store = AclStore(
            self.coordination, SystemClock(), self.images.append, age_ms_max=age_ms_max
        )
        self.coordination.subscribe(self.store.path_changed, self.store.session_changed)

    async def start(self) -> One:
        await self.coordination.start()
        await self.store.start()
        return self

    @property
    def acls(self) -> set[Acl]:
        assert self.images
        assert self.images[-1] is not None
        return set(self.images[-1])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_each_broker_follows_the_other() -> None:
    server = FakeZooKeeper()
    one, two = await One(server).start(), await One(server).start()
    assert one.acls == two.acls == set()
    assert await create_acls(one.store, [acl("a"), acl("b"), acl("a")]) == [None] * 3
    assert one.acls == {acl("a"), acl("b")}
    await until(lambda: two.acls == one.acls)
    assert await delete_acls(two.store, [EVERYTHING._replace(resource_name="a")]) == [
        [(acl("a"), None)]
    ]
    assert two.acls == {acl("b")}
    await until(lambda: one.acls == two.acls)
    assert "/kafka-acl/Topic/a" not in server.tree
    for each in (one, two):
        await each.store.stop()


async def test_a_delete_sees_what_another_broker_created_just_before() -> None:
    server = FakeZooKeeper()
    one, two = await One(server).start(), await One(server).start()
    await create_acls(one.store, [acl("a")])
    (deleted,) = await delete_acls(two.store, [EVERYTHING])
    assert deleted == [(acl("a"), None)]
    assert two.acls == set()


async def test_writers_do_not_undo_each_other() -> None:
    server = FakeZooKeeper()
    one, two = await One(server).start(), await One(server).start()
    others = [acl("a", f"User:{index}") for index in range(10)]

    async def create(of: One, each: Acl) -> None:
        assert await create_acls(of.store, [each]) == [None]

    await asyncio.gather(
        *(create(one if index % 2 else two, each) for index, each in enumerate(others))
    )
    await until(lambda: one.acls == two.acls == set(others))


async def test_a_revocation_whose_answer_was_lost_holds_here() -> None:
    server = FakeZooKeeper()
    one = await One(server).start()
    await create_acls(one.store, [acl("a")])

    def is_delete(ops: Sequence[ZkOp]) -> bool:
        return "Topic/a" in ops[0].path

    one.coordination.lose_answer_of = is_delete
    with pytest.raises(CoordinationUnavailable):
        await delete_acls(one.store, [EVERYTHING])
    assert one.acls == set()


async def test_the_last_image_stays_while_zookeeper_is_away() -> None:
    server = FakeZooKeeper()
    one, two = await One(server).start(), await One(server).start()
    await create_acls(one.store, [acl("a")])
    await until(lambda: two.acls == {acl("a")})
    assert two.store.age_ms == 0
    two.coordination.cut_off = True
    two.coordination.on_session(SessionState.SUSPENDED)
    await create_acls(one.store, [acl("b")])
    # The notification is gone before the connection is back.
    for path in [path for path in server.tree if path.startswith("/kafka-acl-changes/")]:
        del server.tree[path]
    await asyncio.sleep(0.01)
    assert two.acls == {acl("a")}
    assert two.store.age_ms > 0
    two.coordination.cut_off = False
    two.coordination.lose_session()
    await until(lambda: two.acls == {acl("a"), acl("b")})
    assert two.store.age_ms == 0


async def test_an_image_that_is_too_old_is_none() -> None:
    one = await One(FakeZooKeeper(), age_ms_max=1).start()
    one.coordination.on_session(SessionState.SUSPENDED)
    await until(lambda: one.images[-1] is None)
    one.coordination.on_session(SessionState.CONNECTED)
    await until(lambda: one.images[-1] is not None)


@pytest.mark.parametrize("call", range(1, 30))
async def test_a_broken_connection_at_every_call_loses_no_change(call: int) -> None:
    server = FakeZooKeeper()
    one, two = await One(server).start(), await One(server).start()
    two.coordination.break_at_call = two.coordination.calls + call
    for name in ("a", "b", "c"):
        await create_acls(one.store, [acl(name)])
        await asyncio.sleep(0)
    await until(lambda: two.acls == one.acls)
    await delete_acls(one.store, [EVERYTHING])
    await until(lambda: two.acls == set())


async def test_what_cannot_be_read_denies_all_and_is_not_overwritten() -> None:
    server = FakeZooKeeper()
    one = await One(server).start()
    await create_acls(one.store, [acl("a")])
    path = "/kafka-acl/Topic/a"
    server.tree[path] = server.tree[path]._replace(payload=b"?")
    one.store.path_changed(None)
    await until(lambda: acl("a") not in one.acls)
    (left,) = one.acls
    assert (left.principal, left.permission) == ("User:*", Permission.DENY)
    (error,) = await create_acls(one.store, [acl("a")])
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.unknown_server_error
    assert server.tree[path].payload == b"?"


async def test_old_notifications_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_store, "NOTIFICATION_MS", -1)
    server = FakeZooKeeper()
    one = await One(server).start()
    for name in ("a", "b", "c"):
        await create_acls(one.store, [acl(name)])
        await asyncio.sleep(0.01)
    await until(lambda: not any("acl_changes_" in path for path in server.tree))


async def test_filters() -> None:
    server = FakeZooKeeper()
    one = await One(server).start()
    prefixed = acl("or")._replace(pattern_type=PatternType.PREFIXED)
    await create_acls(one.store, [acl("orders"), acl("*"), prefixed, acl("x", "User:bob")])
    by_name = EVERYTHING._replace(resource_type=ResourceType.TOPIC, resource_name="orders")
    match = by_name._replace(pattern_type=PatternType.MATCH)
    literal = by_name._replace(pattern_type=PatternType.LITERAL)
    bobs = EVERYTHING._replace(principal="User:bob")
    unknown = EVERYTHING._replace(operation=99)
    results = await delete_acls(one.store, [match, literal, bobs, unknown])
    found = [{a for a, _ in each} for each in results if not isinstance(each, KafkaError)]
    assert found == [{acl("orders"), acl("*"), prefixed}, {acl("orders")}, {acl("x", "User:bob")}]
    assert isinstance(results[3], KafkaError)
    assert results[3].message == "Unknown entryFilter."
    assert one.acls == set()
