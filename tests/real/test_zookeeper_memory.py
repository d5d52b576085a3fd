"""The embedded ZooKeeper outlives what controllers of many partitions write."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.zookeeper_process import ZooKeeperProcess

pytestmark = pytest.mark.real

STATES_PER_COMMIT = 500
"""As a controller commits them (controller/state_writer.py)."""
STATE_BYTES = 1_000
COMMITS = 300
START_SECONDS_MAX = 60.0


async def test_large_commits_are_not_kept_in_memory(tmp_path: Path) -> None:
    """150 MB of commits: kept as long as the server's default says they are more than its heap."""
    server = ZooKeeperProcess(tmp_path / "zookeeper")
    try:
        await asyncio.to_thread(commit_states, server.server.connect)
        assert server.process.poll() is None, "it ended itself, out of memory"
    finally:
        server.kill()


def commit_states(connect: str) -> None:
    client = KazooClient(connect, timeout=START_SECONDS_MAX)
    client.start(START_SECONDS_MAX)
    try:
        paths = [f"/n{number}" for number in range(STATES_PER_COMMIT)]
        making = client.transaction()
        for path in paths:
            making.create(path)
        assert making.commit() == paths
        for number in range(COMMITS):
            writing = client.transaction()
            for path in paths:
                writing.set_data(path, number.to_bytes(2, "big") * (STATE_BYTES // 2))
            for done in writing.commit():
                assert not isinstance(done, Exception), done
    finally:
        client.stop()
        client.close()
