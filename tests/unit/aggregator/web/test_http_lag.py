"""The lag that mirror workers report, in API, metrics and page, and how workers are found."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from aggregator.settings import WorkerPlace
from aggregator.watchers import MirrorWatcher
from aggregator.worker_requests import open_session
from local_cluster.client.auth.security import Secret
from local_cluster.http_security.settings import HttpClientSecurity
from mirror_maker.formats.probe import probe_topic_name
from mirror_maker.formats.workers import WorkerAddress
from mirror_maker.model import FlowState
from mirror_maker.worker.assignment import Subscription, encode_subscription
from tests.unit.aggregator.http_world import World


def worker(*flows: dict[str, Any], known: int = 2, link: str = "jfk-nyc") -> dict[str, Any]:
    """Return a mirror worker's /status of one link."""
    return {
        "target": "nyc",
        "links": [{"name": link, "partitions_known": known, "flows": list(flows)}],
    }


def copied_flow(partition: int, records: int | None, seconds: float | None) -> dict[str, Any]:
    return {
        "topic": "flights",
        "partition": partition,
        "target_topic": "jfk.flights",
        "state": "RUNNING",
        "lag_records": records,
        "lag_bytes": None if records is None else 10 * records,
        "lag_seconds": seconds,
    }


async def test_lag_is_the_same_in_api_metrics_and_page(world: World) -> None:
    world.aggregate.set_workers([worker(copied_flow(0, 3, 0.5)), worker(copied_flow(1, 4, 2.0))])
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert (jfk["records"], jfk["bytes"], jfk["seconds"]) == (7, 70, 2.0)
    assert [part["records"] for part in jfk["partitions"]] == [3, 4]
    (linked, *_) = (await world.get("/api/v1/links"))["links"]
    assert linked["lag"] == {"records": 7, "bytes": 70, "seconds": 2.0}
    async with world.client.get("/metrics") as response:
        text = await response.text()
    labels = '{datacenter="jfk",link="jfk-nyc"}'
    for line in ("records{} 7.0", "bytes{} 70.0", "seconds{} 2.0"):
        assert f"heliograph_link_lag_{line.replace('{}', labels)}\n" in text
    async with world.client.get("/") as response:
        page = await response.text()
    assert "<td class=number>7</td>" in page


@pytest.mark.parametrize(
    "workers",
    [
        [],
        [worker(copied_flow(0, 3, 0.5))],
        [worker(copied_flow(0, 3, 0.5), copied_flow(1, None, None))],
        [worker(known=0)],
    ],
    ids=["no worker", "a partition that nobody tells of", "one unknown", "nothing known"],
)
async def test_an_unknown_lag_is_null_and_has_no_sample(
    world: World, workers: list[dict[str, Any]]
) -> None:
    world.aggregate.set_workers(workers)
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert (jfk["records"], jfk["bytes"], jfk["seconds"]) == (None, None, None)
    async with world.client.get("/metrics") as response:
        assert "heliograph_link_lag" not in await response.text()


async def test_a_topic_that_is_gone_at_the_source_is_no_part_of_the_lag(world: World) -> None:
    gone = {**copied_flow(1, None, None), "state": FlowState.SOURCE_GONE.value}
    world.aggregate.set_workers([worker(copied_flow(0, 3, 0.5), gone)])
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert (jfk["records"], jfk["bytes"], jfk["seconds"]) == (3, 30, 0.5)
    world.aggregate.set_workers([worker(gone, known=1)])
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert (jfk["records"], jfk["bytes"], jfk["seconds"]) == (None, None, None)


async def test_the_probe_topic_is_no_part_of_the_lag(world: World) -> None:
    probe = {**copied_flow(0, 1, None), "topic": probe_topic_name("jfk-nyc")}
    world.aggregate.set_workers([worker(copied_flow(0, 3, 0.5), probe, known=1)])
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert (jfk["records"], jfk["seconds"], len(jfk["partitions"])) == (3, 0.5, 1)


async def test_a_partition_that_is_handed_over_counts_once(world: World) -> None:
    world.aggregate.set_workers(
        [worker(copied_flow(0, None, None), copied_flow(1, 1, 0.1)), worker(copied_flow(0, 5, 0.2))]
    )
    (jfk,) = (await world.get("/api/v1/lag?link=jfk-nyc"))["links"]
    assert jfk["records"] == 6


async def test_workers_are_found_in_their_group_wherever_they_run(world: World) -> None:
    here, cluster = socket.gethostname(), world.cluster
    async with contextlib.AsyncExitStack() as stack:
        loopback, far, unreachable, other = [
            await stack.enter_async_context(status_server(document))
            for document in (
                worker(copied_flow(0, 3, 0.5)),
                worker(copied_flow(1, 4, 0.5)),
                worker(copied_flow(1, 50, 0.5)),
                {**worker(copied_flow(0, 60, 0.5)), "target": "another"},
            )
        ]
        cluster.worker_group_state = "Stable"
        cluster.workers = [
            ("/10.0.0.1", said(loopback, "127.0.0.1", here)),
            ("far.example/127.0.0.1", said(far, "0.0.0.0", "elsewhere")),
            ("/127.0.0.1", said(unreachable, "127.0.0.1", "elsewhere")),
            ("/127.0.0.1", said(other, "127.0.0.1", here)),
            ("/127.0.0.1", said(None)),
            ("/127.0.0.1", b"\2 another version"),
        ]
        watcher = MirrorWatcher(world.aggregate, cluster)
        session = await stack.enter_async_context(open_session())
        await watcher.discover()
        await watcher.refresh(session)
        assert world.aggregate.link_lag("jfk-nyc").records == 3 + 4

        cluster.worker_group_state, cluster.workers = "PreparingRebalance", []
        await watcher.discover()
        cluster.down = True
        await watcher.discover()
        await watcher.refresh(session)
        assert world.aggregate.link_lag("jfk-nyc").records == 3 + 4, "they are those of before"

        await far.close()
        await watcher.refresh(session)
        assert world.aggregate.link_lag("jfk-nyc").records is None, "nothing old is kept"

        cluster.down, cluster.worker_group_state = False, "Empty"
        await watcher.discover()
        await watcher.refresh(session)
        assert world.aggregate.link_lag("jfk-nyc").partitions_known is None


async def test_a_forged_worker_address_is_not_asked(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("the-token-0123456789\n")
    asked: list[tuple[str, str | None]] = []

    async def note(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, request.headers.get("Authorization")))
        raise web.HTTPFound(f"http://127.0.0.1:{forged.port}/status")

    async def flood(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, request.headers.get("Authorization")))
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 2**20)

    here = socket.gethostname()
    async with contextlib.AsyncExitStack() as stack:
        good = await stack.enter_async_context(
            status_server(worker(copied_flow(0, 3, 0.5), known=1))
        )
        moved, forged, endless = [
            await stack.enter_async_context(responding(handler)) for handler in (note, note, flood)
        ]
        world.aggregate.settings = replace(
            world.aggregate.settings,
            workers_security=HttpClientSecurity(token=Secret(file=str(token))),
            workers_allowed=tuple(
                WorkerPlace(host="127.0.0.1", port=each.port) for each in (good, moved, endless)
            ),
        )
        world.cluster.worker_group_state = "Stable"
        world.cluster.workers = [
            ("/127.0.0.1", said(each, "127.0.0.1", here)) for each in (good, moved, endless, forged)
        ]
        watcher = MirrorWatcher(world.aggregate, world.cluster)
        session = await stack.enter_async_context(open_session())
        await watcher.discover()
        await watcher.discover()
        await watcher.refresh(session)
        assert world.aggregate.link_lag("jfk-nyc").records == 3
    assert asked == [("/status", "Bearer the-token-0123456789")] * 2, "no redirect is followed"
    assert caplog.text.count("are not asked at http://127.0.0.1:") == 1


def responding(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> TestServer:
    app = web.Application()
    app.router.add_get("/status", handler)
    return TestServer(app)


def status_server(document: dict[str, Any]) -> TestServer:
    async def status(request: web.Request) -> web.Response:
        return web.json_response(document)

    app = web.Application()
    app.router.add_get("/status", status)
    return TestServer(app, host="127.0.0.1")


def said(server: BaseTestServer | None, host: str = "", machine: str = "") -> bytes:
    """Return the group metadata of a worker at this address."""
    address = None
    if server is not None:
        assert server.port is not None
        address = WorkerAddress(host, server.port, machine)
    return encode_subscription(Subscription(frozenset(), frozenset(), 1, address))
