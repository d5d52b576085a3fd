"""The HTTP port: readiness with its checks, and an error before the first byte."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator

import pytest

from local_cluster.controller.model.cluster_image import PartitionState, TopicState
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.settings import OPEN
from local_cluster.monitoring.confluent_names import Names
from local_cluster.monitoring.http import MonitoringServer
from local_cluster.monitoring.service import is_in_sync
from local_cluster.server.listeners import bind
from tests.support.scraping import get_json


async def metrics(names: Names) -> AsyncIterator[bytes]:
    yield f"{names} 1\n".encode()
    yield b""
    yield b"two 2\n"


async def broken(_: Names) -> AsyncIterator[bytes]:
    chunks: tuple[bytes, ...] = ()
    for chunk in chunks:
        yield chunk
    raise RuntimeError("a defect")


async def test_readiness_is_all_checks_and_liveness_none() -> None:
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    checks = {"one": True, "two": False}
    server = MonitoringServer(
        lambda in_sync: {**checks, "three": False} if in_sync else checks,
        metrics,
        HttpGuard(OPEN),
    )
    await server.start(listener)
    try:
        for path in ("livez", "healthz"):
            assert (await asyncio.to_thread(get_json, f"{url}/{path}"))[0] == 200
        assert await asyncio.to_thread(get_json, f"{url}/readyz?verbose=1") == (
            503,
            {
                "ready": False,
                "checks": [{"check": "one", "passed": True}, {"check": "two", "passed": False}],
            },
        )
        checks["two"] = True
        assert await asyncio.to_thread(get_json, f"{url}/readyz") == (200, {"ready": True})
        in_sync = await asyncio.to_thread(get_json, f"{url}/readyz?in_sync=1")
        assert in_sync == (503, {"ready": False})
        found = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/metrics").read())
        assert found == b"usual 1\ntwo 2\n"
        confluent = f"{url}/metrics?names=confluent"
        found = await asyncio.to_thread(lambda: urllib.request.urlopen(confluent).read())
        assert found == b"confluent 1\ntwo 2\n"
        status, said = await asyncio.to_thread(get_json, f"{url}/metrics?names=datadog")
        assert (status, "only usual, confluent" in json.dumps(said)) == (400, True)
    finally:
        await server.stop()


async def test_a_failed_scrape_is_an_error_and_not_half_a_response() -> None:
    listener = bind("127.0.0.1", 0)
    server = MonitoringServer(lambda _: {}, broken, HttpGuard(OPEN))
    await server.start(listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
    try:
        with pytest.raises(urllib.error.HTTPError) as raised:
            await asyncio.to_thread(urllib.request.urlopen, url)
        assert raised.value.code == 500
    finally:
        await server.stop()


def test_a_broker_is_in_sync_in_every_isr_of_its_replicas() -> None:
    def topic(*isrs: tuple[int, ...]) -> TopicState:
        states = {
            number: PartitionState(number, (1, 2), 1, 0, isr, 0) for number, isr in enumerate(isrs)
        }
        return TopicState("t", uuid.uuid4(), states, {})

    assert is_in_sync([], 1)
    assert is_in_sync([topic((1, 2), (1,))], 1)
    assert not is_in_sync([topic((1, 2), (1,))], 2)
    assert is_in_sync([topic((1,))], 3)
