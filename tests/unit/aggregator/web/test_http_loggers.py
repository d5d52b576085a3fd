"""The loggers in the HTTP API of an aggregator; each answer is held against the document."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from aiohttp.test_utils import TestClient, TestServer

from aggregator.metrics import AggregatorMetrics
from aggregator.web.app import make_app
from aggregator.web.openapi.answers import LevelName
from local_cluster.client.auth.security import Secret
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.settings import HttpSecurity
from local_cluster.log_levels import LEVELS
from tests.unit.aggregator.http_world import World

LOGGER = "aggregator.test_http_loggers"
PATH = f"/api/v1/loggers/{LOGGER}"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger(LOGGER)
    yield found
    found.setLevel(logging.NOTSET)


async def put(world: World, path: str, body: str, status: int = 200) -> Any:
    async with world.client.put(path, data=body) as response:
        document = await response.json()
        assert response.status == status, document
        return document


async def test_a_level_is_shown_and_set(
    starting: World, logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    inherited = await starting.get(PATH)
    assert (inherited["logger"], inherited["is_set"]) == (LOGGER, False)
    listed = (await starting.get("/api/v1/loggers"))["loggers"]
    assert inherited in listed
    assert {"root", "aggregator"} <= {each["logger"] for each in listed}
    expected = {"logger": LOGGER, "level": "DEBUG", "is_set": True}
    assert await put(starting, PATH, '{"level": "debug"}') == expected
    assert logger.level == logging.DEBUG
    assert await starting.get(PATH) == expected
    assert await put(starting, PATH, '{"level": null}') == inherited
    assert "-> DEBUG, set by 127.0.0.1, over HTTP" in caplog.text


async def test_refusals_name_the_nearest(world: World, logger: logging.Logger) -> None:
    wrong = await put(world, PATH, '{"level": "WARNING"}', 400)
    assert (wrong["error"], wrong["parameter"]) == ("bad_parameter", "level")
    assert wrong["did_you_mean"] == "WARN"
    assert wrong["message"].endswith("; did you mean 'WARN'?")
    no_body = await put(world, PATH, "", 400)
    assert no_body["message"].startswith('the body must be {"level": LEVEL}')
    root = await put(world, "/api/v1/loggers/root", '{"level": null}', 400)
    assert root["message"] == "the root logger needs a level"
    for unknown in (
        await put(world, PATH[:-1], '{"level": "INFO"}', 404),
        await world.get(PATH[:-1], 404),
    ):
        assert (unknown["error"], unknown["parameter"]) == ("not_found", "logger")
        assert unknown["did_you_mean"] == LOGGER
    for path in ("/api/v1/loggers?logger=root", f"{PATH}?level=DEBUG"):
        assert (await world.get(path, 400))["error"] == "bad_parameter"
    await put(world, f"{PATH}?level=DEBUG", '{"level": "DEBUG"}', 400)
    assert logger.level == logging.NOTSET


async def test_a_guarded_port_changes_levels_by_the_token_alone(
    logger: logging.Logger, tmp_path: Path
) -> None:
    token = "the-token-0123456789"
    (tmp_path / "token").write_text(token)
    world = World()
    metrics = AggregatorMetrics(world.aggregate)
    guard = HttpGuard(HttpSecurity(token=Secret(file=str(tmp_path / "token"))))
    async with TestClient(TestServer(make_app(world.aggregate, metrics, guard))) as client:
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Basic b3A6dGhlLXRva2VuLTAxMjM0NTY3ODk="}, 401),
            ({"Authorization": f"Bearer {token}"}, 200),
        ):
            assert logger.level == logging.NOTSET
            answer = await client.put(PATH, json={"level": "DEBUG"}, headers=headers)
            assert answer.status == status
    metrics.close()
    assert logger.level == logging.DEBUG


def test_the_document_has_the_levels_that_there_are() -> None:
    assert get_args(LevelName) == tuple(LEVELS)
