"""The aggregator's HTTP API, before and after it knows topics and maps."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from aggregator.metrics import AggregatorMetrics
from aggregator.web.app import make_app
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.settings import OPEN
from tests.unit.aggregator.documented_answers import DocumentedAnswers
from tests.unit.aggregator.http_world import World


@pytest.fixture
async def starting() -> AsyncIterator[World]:
    """Nothing is known yet."""
    world = World()
    metrics = AggregatorMetrics(world.aggregate)
    app, answers = make_app(world.aggregate, metrics, HttpGuard(OPEN)), DocumentedAnswers()
    app.on_response_prepare.append(answers.note)
    async with TestClient(TestServer(app)) as client:
        world.client = client
        yield world
    metrics.close()
    answers.check()


@pytest.fixture
async def world(starting: World) -> World:
    """Topics are known; jfk's map is read, ewr's is empty, lga has not started."""
    await starting.load()
    return starting
