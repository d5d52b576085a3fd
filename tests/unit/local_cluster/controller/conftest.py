"""A ZooKeeper in memory, and one broker, which is therefore the controller."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.local_cluster.controller.member.control_plane_member import Member
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


@pytest.fixture
def server() -> FakeZooKeeper:
    return FakeZooKeeper()


@pytest.fixture
async def member(server: FakeZooKeeper) -> AsyncIterator[Member]:
    member = Member(server)
    await member.plane.start()
    yield member
    await member.plane.stop()
