"""The loggers on the HTTP port of a worker."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from local_cluster.client.auth.security import Secret
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.settings import OPEN, HttpSecurity
from mirror_maker.worker.http import StatusServer

LOGGER = "mirror_maker.test_http_loggers"
TOKEN = "the-token-0123456789"
METRICS_TOKEN = "metrics-token-0123456789"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger(LOGGER)
    yield found
    found.setLevel(logging.NOTSET)


@asynccontextmanager
async def worker(security: HttpSecurity = OPEN) -> AsyncIterator[ClientSession]:
    """A client of a worker's port. Nothing but the loggers may be asked."""

    def unused(*_: Any) -> Any:
        raise AssertionError("the loggers need nothing of the worker")

    server = StatusServer(unused, unused, unused, unused, unused, HttpGuard(security))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    try:
        async with ClientSession(f"http://127.0.0.1:{listener.getsockname()[1]}") as session:
            yield session
    finally:
        await server.stop()


async def test_a_level_is_shown_and_set(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker() as session:
        listed = await (await session.get("/loggers")).json()
        inherited = next(each for each in listed["loggers"] if each["logger"] == LOGGER)
        assert not inherited["is_set"]
        assert {"root", "mirror_maker"} <= {each["logger"] for each in listed["loggers"]}
        answer = await session.put(f"/loggers/{LOGGER}", json={"level": "DEBUG"})
        expected = {"logger": LOGGER, "level": "DEBUG", "is_set": True}
        assert (answer.status, await answer.json()) == (200, expected)
        assert logger.level == logging.DEBUG
        assert await (await session.get(f"/loggers/{LOGGER}")).json() == expected
        answer = await session.put(f"/loggers/{LOGGER}", json={"level": None})
        assert await answer.json() == inherited
    assert "-> DEBUG, set by 127.0.0.1, over HTTP" in caplog.text


async def test_refusals_name_the_nearest(logger: logging.Logger) -> None:
    async with worker() as session:
        for path, body, status, words in (
            (LOGGER, '{"level": "WARNING"}', 400, "did you mean 'WARN'?"),
            (LOGGER, "DEBUG", 400, 'the body must be {"level": LEVEL}'),
            ("root", '{"level": null}', 400, "the root logger needs a level"),
            (LOGGER[:-1], '{"level": "INFO"}', 404, f"did you mean '{LOGGER}'?"),
        ):
            answer = await session.put(f"/loggers/{path}", data=body)
            said = (await answer.json())["message"]
            assert (answer.status, words in said) == (status, True), path
        answer = await session.get(f"/loggers/{LOGGER[:-1]}")
        assert (answer.status, f"'{LOGGER}'?" in await answer.text()) == (404, True)
        assert (await session.post(f"/loggers/{LOGGER}", json={"level": "INFO"})).status == 405
    assert logger.level == logging.NOTSET


async def test_a_guarded_port_changes_levels_by_the_token_alone(
    logger: logging.Logger, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "metrics").write_text(METRICS_TOKEN)
    security = HttpSecurity(
        token=Secret(file=str(tmp_path / "token")),
        metrics_token=Secret(file=str(tmp_path / "metrics")),
    )
    path, body = f"/loggers/{LOGGER}", {"level": "DEBUG"}
    async with worker(security) as session:
        for authorization, status in ((None, 401), ("forged", 401), (METRICS_TOKEN, 403)):
            headers = {"Authorization": f"Bearer {authorization}"} if authorization else {}
            assert (await session.put(path, json=body, headers=headers)).status == status
            assert (await session.get("/loggers", headers=headers)).status == status
        assert logger.level == logging.NOTSET
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert (await session.put(path, json=body, headers=headers)).status == 200
        assert logger.level == logging.DEBUG
