"""The store against a ZooKeeper in memory: two brokers, outside tools, lost sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from local_cluster.controller.member.config_writer import write_client_configs
from local_cluster.controller.model.config_znodes import encode_config
from local_cluster.controller.model.znode_paths import PERSISTENT_PATHS
from local_cluster.controller.zk.coordination import SessionState
from local_cluster.quotas.alterations import Operation, plan
from local_cluster.quotas.entity import CLIENT_ID, IP, USER, Entity, entity, path_of
from local_cluster.quotas.quota_store import QuotaStore, Values
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper

ALICE = entity({USER: "alice"})
ALICES_APP = entity({USER: "alice", CLIENT_ID: "app"})
APP = entity({CLIENT_ID: "app"})
ANY_ADDRESS = entity({IP: None})


def cluster() -> FakeZooKeeper:
    server = FakeZooKeeper()
    for path in PERSISTENT_PATHS:
        server.write(path)
    return server


class One:
    """One broker's store."""

    def __init__(self, server: FakeZooKeeper) -> None:
        self.coordination = FakeCoordination(server)
        self.quotas: dict[Entity, Values] = {}
        self.store = QuotaStore(self.coordination, self._take)
        self.coordination.subscribe(self.store.path_changed, self.store.session_changed)

    def _take(self, quotas: object) -> None:
        assert isinstance(quotas, dict)
        self.quotas = quotas

    async def start(self) -> One:
        await self.coordination.start()
        await self.store.start()
        return self

    async def set(self, which: Entity, key: str, value: float | None) -> None:
        change = plan(which, [Operation(key, value)])
        path = path_of(which)
        await write_client_configs(self.coordination, path, change, validate_only=False)
        await self.store.reload([path])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_each_broker_follows_the_other() -> None:
    server = cluster()
    one, two = await One(server).start(), await One(server).start()
    await one.set(ALICES_APP, "producer_byte_rate", 10)
    assert one.quotas == {ALICES_APP: {"producer_byte_rate": 10}}
    await until(lambda: two.quotas == one.quotas)
    await two.set(ALICE, "request_percentage", 1.5)
    await two.set(APP, "consumer_byte_rate", 7)
    await two.set(ANY_ADDRESS, "connection_creation_rate", 3)
    await until(lambda: len(two.quotas) == 4 and one.quotas == two.quotas)
    await one.set(ALICES_APP, "producer_byte_rate", None)
    await one.set(ALICE, "request_percentage", None)
    await until(lambda: two.quotas.keys() == {APP, ANY_ADDRESS})
    assert not server.child_names("/config/users")
    await one.set(ALICES_APP, "producer_byte_rate", 20)
    await until(lambda: two.quotas.get(ALICES_APP) == {"producer_byte_rate": 20})


async def test_znodes_of_outside_tools_count() -> None:
    server = cluster()
    server.write("/config/users/bob/clients/x", encode_config({"producer_byte_rate": "1"}))
    one = await One(server).start()
    bobs = entity({USER: "bob", CLIENT_ID: "x"})
    assert one.quotas == {bobs: {"producer_byte_rate": 1}}
    server.write("/config/users/bob", encode_config({"SCRAM-SHA-256": "s"}))
    server.write("/config/users/bob/clients/y", encode_config({"producer_byte_rate": "2"}))
    await until(lambda: len(one.quotas) == 2)
    server.remove("/config/users/bob/clients")
    await until(lambda: not one.quotas)


async def test_an_unreadable_znode_has_no_quotas_and_others_stay() -> None:
    server = cluster()
    one = await One(server).start()
    await one.set(ALICE, "producer_byte_rate", 1)
    await one.set(APP, "producer_byte_rate", 1)
    server.write(path_of(ALICE), encode_config({"producer_byte_rate": "fast"}))
    await until(lambda: one.quotas == {APP: {"producer_byte_rate": 1}})
    server.write(path_of(ALICE), encode_config({"producer_byte_rate": "2"}))
    await until(lambda: len(one.quotas) == 2)


async def test_quotas_stay_while_zookeeper_is_away() -> None:
    server = cluster()
    one, two = await One(server).start(), await One(server).start()
    await one.set(ALICE, "producer_byte_rate", 1)
    await until(lambda: two.quotas == one.quotas)
    one.coordination.cut_off = True
    one.coordination.on_session(SessionState.SUSPENDED)
    await two.set(ALICE, "producer_byte_rate", 2)
    await two.set(APP, "producer_byte_rate", 3)
    assert one.quotas == {ALICE: {"producer_byte_rate": 1}}
    one.coordination.cut_off = False
    one.coordination.lose_session()
    await until(lambda: one.quotas == two.quotas)


async def test_a_reading_that_breaks_off_loses_nothing() -> None:
    server = cluster()
    one = await One(server).start()
    for broken in range(1, 6):
        one.coordination.break_at_call = one.coordination.calls + broken
        server.write(
            f"/config/users/u{broken}/clients/c", encode_config({"producer_byte_rate": "1"})
        )
        await until(lambda: len(one.quotas) == broken)  # noqa: B023


async def test_scram_credentials_survive_the_last_quota() -> None:
    server = cluster()
    server.write(path_of(ALICE), encode_config({"SCRAM-SHA-256": "s", "producer_byte_rate": "1"}))
    one = await One(server).start()
    await one.set(ALICE, "producer_byte_rate", None)
    assert server.tree[path_of(ALICE)].payload == encode_config({"SCRAM-SHA-256": "s"})
    assert not one.quotas


async def test_a_user_keeps_its_znode_while_a_client_id_has_quotas() -> None:
    server = cluster()
    one = await One(server).start()
    await one.set(ALICE, "producer_byte_rate", 1)
    await one.set(ALICES_APP, "producer_byte_rate", 1)
    await one.set(ALICE, "producer_byte_rate", None)
    assert server.tree[path_of(ALICE)].payload == encode_config({})
    await one.set(ALICES_APP, "producer_byte_rate", None)
    assert path_of(ALICE) not in server.tree
