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
from local_cluster.wire.errors import ErrorCode, KafkaError
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
    {"super.users": "User:admin"}, (), {"heliograph-": ["User:mirror"], "heliograph-probe.": []}
)


def context(user: str) -> RequestContext:
    return RequestContext(ApiKey.PRODUCE, 13, 1, "c", f"User:{user}", "CLIENTS", "::1", 7)


MIRROR, ADMIN, OUTSIDER = context("mirror"), context("admin"), context("outsider")


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


async def test_every_broker_knows_what_any_of_them_gave_to_a_mirror() -> None:
    server = FakeZooKeeper()
    one, other = await One(server).start(), await One(server).start()
    try:
        await one.producers.claim(MIRROR, 7)
        await other.producers.claim(MIRROR, 8)
        for client in (ADMIN, OUTSIDER):
            await one.producers.claim(client, 9)
        for each in (one, other):
            await until_known(each, 7)
            await until_known(each, 8)
            assert each.producers.ids == {7, 8}, "those of others are not listed"
            for producer_id in (7, 8):
                assert each.producers.may_write(MIRROR, producer_id)
                assert each.producers.may_write(ADMIN, producer_id)
                assert not each.producers.may_write(OUTSIDER, producer_id)
            assert each.producers.may_write(OUTSIDER, 9)
            assert sum(each.authorizer.denials.counts.values()) == 2
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
    await one.producers.claim(MIRROR, 7)
    await until_known(other, 7)
    assert other.producers.ids == {0, 1, 7}
    await one.producers.stop()
    await other.producers.stop()


async def test_without_zookeeper_a_mirror_gets_no_id() -> None:
    one = await One(FakeZooKeeper()).start()
    one.coordination.cut_off = True
    with pytest.raises(KafkaError) as caught:
        await one.producers.claim(MIRROR, 7)
    assert caught.value.code == ErrorCode.coordinator_not_available
    await one.producers.claim(OUTSIDER, 8)
    await one.producers.stop()


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b'{"version":2,"ids":[]}', b'{"version":1,"ids":["7"]}']
)
async def test_an_unreadable_list_is_not_replaced(payload: bytes) -> None:
    server = FakeZooKeeper()
    server.write(MIRROR_PRODUCERS, payload)
    one = await One(server).start()
    with pytest.raises(KafkaError) as caught:
        await one.producers.claim(MIRROR, 7)
    assert caught.value.code == ErrorCode.unknown_server_error
    znode = await one.coordination.read(MIRROR_PRODUCERS)
    assert znode is not None and znode.payload == payload
    await one.producers.stop()


async def test_the_list_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "IDS_MAX", 1)
    one = await One(FakeZooKeeper()).start()
    await one.producers.claim(MIRROR, 7)
    await one.producers.claim(MIRROR, 8)
    assert one.producers.ids == {7}
    assert "producer id 8 of a mirror is not protected: the list is full" in caplog.messages
    await one.producers.stop()


async def test_a_dry_run_only_notes_it() -> None:
    one = await One(FakeZooKeeper(), dry=True).start()
    await one.producers.claim(MIRROR, 7)
    assert one.producers.may_write(OUTSIDER, 7)
    assert sum(one.authorizer.denials.counts.values()) == 1
    await one.producers.stop()
