"""The life of the service: ready file, clean stop, failure of a follower, no aggregate."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import aiohttp
import pytest

from aggregator import service as service_module
from aggregator import watchers
from aggregator.maps import topic_follower
from aggregator.maps.topic_follower import TopicFollower
from aggregator.service import AggregatorService
from mirror_maker.formats import map_topic_name
from tests.unit.aggregator.fakes import FakeCluster, FakeTopic, settings_of


async def _until(path: Path, *, exists: bool) -> None:
    async with asyncio.timeout(10):
        while path.exists() is not exists:
            await asyncio.sleep(0.01)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(AggregatorService, "_open_aggregate", lambda _: fake)
    monkeypatch.setattr(service_module, "READY_POLL_SECONDS", 0.001)
    monkeypatch.setattr(topic_follower, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(watchers, "REFRESH_SECONDS", 0.001)
    return fake


async def test_ready_file_comes_with_readiness_and_goes_with_the_stop(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.topics[map_topic_name("jfk-nyc")] = FakeTopic()
    ready_file = tmp_path / "run" / "ready.json"
    service = AggregatorService(settings_of("jfk", "ewr", ready_file=str(ready_file)))
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(stop))
    await _until(ready_file, exists=True)
    content = json.loads(ready_file.read_text())
    served = {
        "http_host": "127.0.0.1",
        "http_scheme": "http",
        "http_port": service.http_port,
    }
    assert content == {"pid": os.getpid(), "state": "running", **served}
    assert list(ready_file.parent.iterdir()) == [ready_file]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{content['http_port']}/readyz") as response,
    ):
        assert response.status == 200
    stop.set()
    await running
    assert not ready_file.exists()
    assert cluster.closed


async def test_absent_aggregate_is_waited_for(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.down = True
    ready_file = tmp_path / "ready.json"
    service = AggregatorService(settings_of("jfk", ready_file=str(ready_file)))
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(stop))
    async with asyncio.timeout(10):
        while service.aggregate.maps.topic("jfk-nyc").problem is None:
            await asyncio.sleep(0.001)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{service.http_port}") as session:
        async with session.get("/healthz") as response:
            assert response.status == 200
        async with session.get("/readyz?verbose=1") as response:
            assert response.status == 503
            assert "connection refused" in (await response.json())["checks"][1]["problem"]
    assert not ready_file.exists()
    cluster.down = False
    await _until(ready_file, exists=True)
    stop.set()
    await running


async def test_failed_follower_ends_the_service(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(TopicFollower, "run", broken)
    service = AggregatorService(settings_of("jfk", ready_file=str(tmp_path / "ready.json")))
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await service.run(asyncio.Event())
    assert cluster.closed


async def test_taken_port_is_an_error(cluster: FakeCluster, tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = settings_of(http_port=port, ready_file=str(tmp_path / "ready.json"))
    with pytest.raises(OSError, match="address already in use"):
        await AggregatorService(settings).run(asyncio.Event())
    server.close()
    await server.wait_closed()
