"""The life of the service: ready file, clean stop, failure of a follower, no aggregate."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from aggregator import service as service_module
from aggregator import watchers
from aggregator.maps import topic_follower
from aggregator.maps.topic_follower import TopicFollower
from aggregator.service import AggregatorService
from aggregator.settings import parse_settings, render_settings
from local_cluster.starting import SettingsFile
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
        "settings": None,
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


def file_of(path: Path, *sources: str) -> SettingsFile:
    """Write the settings of these links."""
    path.write_text(
        render_settings(settings_of(*sources, ready_file=str(path.with_name("ready.json"))))
    )
    return SettingsFile.read(path)


async def test_a_reload_replaces_links_and_keeps_what_is_known_of_others(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    for link in ("jfk-nyc", "ewr-nyc"):
        cluster.topics[map_topic_name(link)] = FakeTopic()
    file = file_of(tmp_path / "aggregator.json", "jfk", "lga")
    service = AggregatorService(parse_settings(file.text), file)
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(stop))
    ready_file = tmp_path / "ready.json"
    await _until(ready_file, exists=True)
    kept = service.aggregate.maps.topic("jfk-nyc")
    assert json.loads(ready_file.read_text())["settings"] == file.digest

    edited = file_of(file.path, "ewr", "jfk")
    service.reload()
    async with asyncio.timeout(10):
        while json.loads(ready_file.read_text())["settings"] != edited.digest:
            await asyncio.sleep(0.001)
        while service.aggregate.links_loading:
            await asyncio.sleep(0.001)
    assert service.aggregate.maps.topic("jfk-nyc") is kept
    assert [name for name, _ in service.aggregate.maps.topics()] == ["ewr-nyc", "jfk-nyc"]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{service.http_port}") as session:
        async with session.get("/api/v1/links") as response:
            names = [each["name"] for each in (await response.json())["links"]]
        assert names == ["ewr-nyc", "jfk-nyc"]
        async with session.get("/metrics") as response:
            assert 'heliograph_offset_map_ready{datacenter="ewr"' in await response.text()
    stop.set()
    await running


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("{}", "validation errors"),
        ("another", "more than links has changed"),
    ],
)
async def test_a_file_that_cannot_be_taken_over_stops_the_service(
    text: str | None,
    message: str,
    cluster: FakeCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = file_of(tmp_path / "aggregator.json", "jfk")
    service = AggregatorService(parse_settings(file.text), file)
    running = asyncio.create_task(service.run(asyncio.Event()))
    await _until(tmp_path / "ready.json", exists=True)
    if text is None:
        file.path.unlink()
    elif text == "another":
        another = replace(parse_settings(file.text), bootstrap="elsewhere:1")
        file.path.write_text(render_settings(another))
    else:
        file.path.write_text(text)
    service.reload()
    await asyncio.wait_for(running, 10)
    assert message in caplog.text


async def test_taken_port_is_an_error(cluster: FakeCluster, tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = settings_of(http_port=port, ready_file=str(tmp_path / "ready.json"))
    with pytest.raises(OSError, match="address already in use"):
        await AggregatorService(settings).run(asyncio.Event())
    server.close()
    await server.wait_closed()
