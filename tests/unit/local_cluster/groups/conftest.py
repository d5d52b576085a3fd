"""A broker that coordinates every group."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.local_cluster.groups.doubles import FakeBroker


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    made = FakeBroker(partitions=2, config={"group.initial.rebalance.delay.ms": "0"})
    await made.lead()
    made.add_topic("flights", 4)
    yield made
    await made.groups.stop()
