"""The HTTP port of a worker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from aiohttp import ClientSession

from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.settings import OPEN
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.repair.examiner import NoRepairError
from mirror_maker.repair.plan import How
from mirror_maker.worker.http import StatusServer
from tests.unit.mirror_maker.metrics.test_exposition import flow, status


async def test_the_port_answers() -> None:
    ready = False

    def retry(link: str, topic: str | None, partition: int | None) -> list[dict[str, Any]]:
        if link != "l":
            raise LookupError(link)
        return [{"topic": topic, "partition": partition}]

    told = Controls()

    async def control(link: str, change: Callable[[Controls], Controls]) -> Controls:
        nonlocal told
        if link != "l":
            raise LookupError(link)
        told = change(told)
        return told

    asked: list[tuple[str, str, int, How | None]] = []

    async def repair(link: str, topic: str, partition: int, how: How | None) -> dict[str, Any]:
        asked.append((link, topic, partition, how))
        if link != "l":
            raise LookupError(link)
        if how is How.FRESH:
            raise NoRepairError("others may write into it")
        if how is How.SKIP:
            raise KafkaError(ErrorCode.request_timed_out, "no answer")
        return {"is_well": True}

    server = StatusServer(
        lambda: status(flow()), lambda: ready, retry, control, repair, HttpGuard(OPEN)
    )
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    port = listener.getsockname()[1]
    try:
        async with ClientSession(f"http://127.0.0.1:{port}") as session:
            assert (await session.get("/healthz")).status == 200
            assert (await session.get("/readyz")).status == 503
            ready = True
            assert (await session.get("/readyz")).status == 200
            assert (await session.post("/retry?link=other")).status == 404
            assert (await session.post("/retry?partition=1")).status == 400
            retried = await (await session.post("/retry?link=l&topic=t&partition=1")).json()
            assert retried == {"retried": [{"topic": "t", "partition": 1}]}
            part = "/repair?link=l&topic=t&partition=1"
            assert await (await session.get(part)).json() == {"is_well": True}
            assert asked == [("l", "t", 1, None)]
            assert (await session.post(f"{part}&how=recopy")).status == 200
            assert asked.pop() == ("l", "t", 1, How.RECOPY)
            for code, path in (
                (400, part),
                (400, f"{part}&how=somehow"),
                (400, "/repair?link=l&topic=t&how=skip"),
                (404, "/repair?link=other&topic=t&partition=1&how=skip"),
                (409, f"{part}&how=fresh"),
                (503, f"{part}&how=skip"),
            ):
                assert (await session.post(path)).status == code, path
            for wrong in (
                "pause",
                "pause?link=l&partition=1",
                "pause?link=l&topic=&partition=1",
                "pause?link=l&topic=t&partition=2147483648",
                f"pause?link=l&topic=t&partition={'9' * 5_000}",
                "throttle?link=l",
                "throttle?link=l&source_bytes_per_second=9223372036854775808",
                "throttle?link=l&source_bytes_per_second=%D9%A3",
                "resume?topic=t",
                "retry?link=l&topic=t&partition=-1",
                "repair?link=l&topic=t&partition=x&how=skip",
            ):
                refused = await session.post("/" + wrong)
                assert refused.status == 400, wrong
                assert isinstance((await refused.json())["message"], str), wrong
            assert (await session.post("/pause?link=other")).status == 404
            unknown = await session.get("/nowhere")
            assert (unknown.status, (await unknown.json())["error"]) == (404, "not_found")
            not_so = await session.get("/pause?link=l")
            assert (not_so.status, not_so.headers["Allow"]) == (405, "POST")
            assert (await not_so.json())["error"] == "method_not_allowed"
            assert (await session.post("/pause?link=l&topic=t")).status == 200
            assert (await session.post("/resume?link=l&topic=t&partition=1")).status == 409
            rates = "source_bytes_per_second=7&target_bytes_per_second=0"
            answered = await session.post(f"/throttle?link=l&{rates}")
            assert await answered.json() == {
                "paused": [{"topic": "t", "partition": None}],
                "source_bytes_per_second": 7,
                "target_bytes_per_second": 0,
            }
            await session.post("/throttle?link=l&target_bytes_per_second=8")
            assert told == Controls(
                paused=frozenset({PausedPart("t")}),
                source_bytes_per_second=7,
                target_bytes_per_second=8,
            )
            answer = await (await session.get("/status")).json()
            assert answer["links"][0]["flows"][0]["lag_bytes"] is None
            metrics = await session.get("/metrics")
            assert metrics.content_type == "text/plain"
            assert "heliograph_mirror_lag_records" in await metrics.text()
    finally:
        await server.stop()
