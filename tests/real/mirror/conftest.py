"""Two clusters of our own, with a broker each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.cluster import BrokerProcess, running_broker


@pytest.fixture
async def brokers(
    zookeeper: str, tmp_path: Path
) -> AsyncIterator[tuple[BrokerProcess, BrokerProcess]]:
    """The broker of the cluster `source`, and that of `target`."""
    async with (
        running_broker(zookeeper, tmp_path / "source", cluster="source") as source,
        running_broker(zookeeper, tmp_path / "target", cluster="target") as target,
    ):
        yield source, target
