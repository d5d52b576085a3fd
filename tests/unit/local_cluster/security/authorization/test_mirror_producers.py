"""The list of producer ids against a ZooKeeper in memory: two brokers, and what is unreadable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from local_cluster.controller.model.znode_paths import MIRROR_PRODUCERS
from local_cluster.controller.zk.coordination import ZkOp
from local_cluster.handlers.services import RequestContext
from local_cluster.security.authorization import mirror_producers as module
from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.authorizer import Authorizer
from local_cluster.security.authorization.mirror_producers import MirrorProducers
from local_cluster.security.authorization.policy import policy_of
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper

EVERYTHING = Acl(
    ResourceType.TOPIC,
    "*",
    PatternType.LITERAL,
    "User:*",
    "*",
    AclOperation.ALL,
    Permission.ALLOW,
)
POLICY = policy_of(
    {"super.users": "User:admin;User:named-admin"},
    (),
    {"heliograph-": ["User:mirror", "User:named-admin"], "heliograph-probe.": ["User:prober"]},
)


def context(user: str) -> RequestContext:
    return RequestContext(ApiKey.PRODUCE, 13, 1, "c", f"User:{user}", "CLIENTS", "::1", 7)


MIRROR, ADMIN, OUTSIDER = context("mirror"), context("admin"), context("outsider")
NAMED_ADMIN, PROBER = context("named-admin"), context("prober")


class One:
    """One broker's list."""

    def __init__(self, server: FakeZooKeeper, *, dry: bool = False) -> None:
        self.coordination = FakeCoordination(server)
        self.authorizer = Authorizer(POLICY, is_dry_run=dry, on_change=lambda: None)
        self.authorizer.set_image(AclImage.of([EVERYTHING]))
        self.producers = MirrorProducers(self.coordination, self.authorizer)
        self.coordination.subscribe(self.producers.path_changed, self.producers.session_changed)

    async def start(self) -> One:
        await self.coordination.start()
        await self.producers.start()
        return self


async def until_known(one: One, producer_id: int) -> None:
    async with asyncio.timeout(10):
        while producer_id not in one.producers.ids:
            await asyncio.sleep(0.001)


async def test_ids_of_mirrors_need_no_list() -> None:
    """They come from a range that every broker knows, before the mirror itself knows its id."""
    server = FakeZooKeeper()
    one, other = await One(server).start(), await One(server).start()
    one.coordination.cut_off = True
    for client in (ADMIN, OUTSIDER, PROBER):
        assert one.producers.new_id(client) is None
    ids = [one.producers.new_id(client) for client in (MIRROR, NAMED_ADMIN) for _ in range(100)]
    assert len(set(ids)) == 200, "at random"
    for producer_id in ids:
        assert producer_id is not None and 1 << 52 <= producer_id < 1 << 53
        for each in (one, other):
            for client in (MIRROR, ADMIN, NAMED_ADMIN):
                assert each.producers.may_write(client, producer_id)
            for client in (OUTSIDER, PROBER):
                assert not each.producers.may_write(client, producer_id)
    assert sum(other.authorizer.denials.counts.values()) == 400
    assert one.producers.ids == other.producers.ids == frozenset()
    await one.producers.stop()
    await other.producers.stop()


async def test_every_broker_knows_with_which_older_ids_mirrors_write() -> None:
    server = FakeZooKeeper()
    one, other = await One(server).start(), await One(server).start()
    try:
        assert one.producers.may_write(MIRROR, 7)
        assert other.producers.may_write(NAMED_ADMIN, 8)
        for client in (ADMIN, OUTSIDER, PROBER):
            assert one.producers.may_write(client, 9)
        assert one.producers.may_write(MIRROR, -1)
        for each in (one, other):
            await until_known(each, 7)
            await until_known(each, 8)
            assert each.producers.ids == {7, 8}, "neither those of others, nor none at all"
            for producer_id in (7, 8):
                for client in (MIRROR, ADMIN, NAMED_ADMIN):
                    assert each.producers.may_write(client, producer_id)
                assert not each.producers.may_write(OUTSIDER, producer_id)
            assert each.producers.may_write(OUTSIDER, 9)
            assert sum(each.authorizer.denials.counts.values()) == 2
    finally:
        await one.producers.stop()
        await other.producers.stop()


async def test_a_mirror_that_starts_names_its_older_id() -> None:
    server = FakeZooKeeper()
    one, other = await One(server).start(), await One(server).start()
    try:
        for client, producer_id in ((MIRROR, 7), (OUTSIDER, 8), (ADMIN, 9), (MIRROR, -1)):
            one.producers.announce(client, producer_id)
        one.producers.announce(MIRROR, 1 << 52)
        await until_known(other, 7)
        assert other.producers.ids == {7}, "before it has written"
        assert not other.producers.may_write(OUTSIDER, 7)
        assert one.authorizer.denials.counts == {}
    finally:
        await one.producers.stop()
        await other.producers.stop()


async def test_brokers_that_list_at_the_same_time_lose_no_id() -> None:
    server = FakeZooKeeper()
    one, other = await One(server).start(), await One(server).start()
    raced: list[int] = []

    def race(ops: Sequence[ZkOp]) -> None:
        """The other broker is faster, once when the list is new and once when it is not."""
        if len(raced) < 2:
            raced.append(len(raced))
            ids = b",".join(b"%d" % each for each in raced)
            server.write(MIRROR_PRODUCERS, b'{"version":1,"ids":[%b]}' % ids)

    one.coordination.before_commit = race
    assert one.producers.may_write(MIRROR, 7)
    await until_known(other, 7)
    assert other.producers.ids == {0, 1, 7}
    await one.producers.stop()
    await other.producers.stop()


async def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(10):
        while not any(text in message for message in caplog.messages):
            await asyncio.sleep(0.001)


async def test_without_zookeeper_an_older_id_is_listed_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    one = await One(FakeZooKeeper()).start()
    one.coordination.cut_off = True
    assert one.producers.may_write(MIRROR, 7), "the mirror goes on"
    await until_logged(caplog, "producer id 7 of a mirror is not protected")
    one.coordination.cut_off = False
    async with asyncio.timeout(10):
        while 7 not in one.producers.ids:
            assert one.producers.may_write(MIRROR, 7)
            await asyncio.sleep(0.001)
    await one.producers.stop()


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b'{"version":2,"ids":[]}', b'{"version":1,"ids":["7"]}']
)
async def test_an_unreadable_list_is_not_replaced(
    payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = FakeZooKeeper()
    server.write(MIRROR_PRODUCERS, payload)
    one = await One(server).start()
    assert one.producers.may_write(MIRROR, 7)
    await until_logged(caplog, "producer id 7 of a mirror is not protected")
    znode = await one.coordination.read(MIRROR_PRODUCERS)
    assert znode is not None and znode.payload == payload
    await one.producers.stop()


async def test_limits(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "IDS_MAX", 1)
    monkeypatch.setattr(module, "LISTING_MAX", 1)
    one = await One(FakeZooKeeper()).start()
    assert one.producers.may_write(MIRROR, 7)
    assert one.producers.may_write(MIRROR, 8), "it waits for its next batch"
    await until_known(one, 7)
    async with asyncio.timeout(10):
        while "producer id 8 of a mirror is not protected" not in caplog.text:
            assert one.producers.may_write(MIRROR, 8)
            await asyncio.sleep(0.001)
    assert "1 ids are listed already" in caplog.text
    assert one.producers.ids == {7}
    await one.producers.stop()


async def test_a_dry_run_only_notes_it() -> None:
    one = await One(FakeZooKeeper(), dry=True).start()
    producer_id = one.producers.new_id(MIRROR)
    assert producer_id is not None
    assert one.producers.may_write(OUTSIDER, producer_id)
    assert sum(one.authorizer.denials.counts.values()) == 1
    await one.producers.stop()
