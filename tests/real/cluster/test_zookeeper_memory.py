"""The embedded ZooKeeper survives the writes of controllers with many partitions."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult

from tests.support.zookeeper_process import ZooKeeperProcess

pytestmark = [pytest.mark.real, pytest.mark.long]

STATES_PER_COMMIT = 500
COMMITS_IN_FLIGHT_MAX = 8
"""As a controller commits them (controller/active/state_writer.py)."""
STATE_BYTES = 1_900
COMMITS = 180
"""The server keeps all of them, and each state three times: 550 MB. A controller reaches 350 MB in
500 commits, with states of 100 bytes and the longest partition names."""
START_SECONDS_MAX = 60.0


async def test_the_heap_holds_every_commit_that_is_kept(tmp_path: Path) -> None:
    server = ZooKeeperProcess(tmp_path / "zookeeper")
    try:
        await asyncio.to_thread(commit_states, server.server.connect)
        assert server.process.poll() is None, "the server ended itself, out of memory"
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
        in_flight: deque[IAsyncResult] = deque()
        for number in range(COMMITS):
            writing = client.transaction()
            for path in paths:
                writing.set_data(path, number.to_bytes(2, "big") * (STATE_BYTES // 2))
            in_flight.append(writing.commit_async())
            if len(in_flight) == COMMITS_IN_FLIGHT_MAX:
                check_done(in_flight.popleft())
        for committing in in_flight:
            check_done(committing)
    finally:
        client.stop()
        client.close()


def check_done(committing: IAsyncResult) -> None:
    for done in committing.get(timeout=START_SECONDS_MAX):
        assert not isinstance(done, Exception), done
