"""`heliograph produce` and `consume` on a real broker of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import records_scenario
from tests.support.admin_scenario import Commands
from tests.support.cluster import running_broker

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def on(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands on one broker for the whole module."""
    loop = asyncio.new_event_loop()
    running = running_broker(zookeeper, tmp_path_factory.mktemp("records"))
    broker = loop.run_until_complete(running.__aenter__())
    try:
        yield Commands(broker.bootstrap)
    finally:
        loop.run_until_complete(running.__aexit__(None, None, None))
        loop.close()


def test_records(on: Commands, tmp_path: Path) -> None:
    records_scenario.records(on, tmp_path)


def test_transactions(on: Commands) -> None:
    records_scenario.transactions(on)
