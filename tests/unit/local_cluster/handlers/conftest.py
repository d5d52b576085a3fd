"""A started broker double for admin handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper
from tests.unit.local_cluster.handlers.admin_broker import Broker


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(FakeZooKeeper())
    await broker.control_plane.start()
    yield broker
    await broker.control_plane.stop()
