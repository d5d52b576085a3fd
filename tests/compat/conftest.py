"""The brokers for outside clients: ours, and Apache Kafka as a check of the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import broker_jars, running_kafka
from tests.support.quiet_ports import quiet_port


class Broker(Protocol):
    """What a scenario needs of a broker."""

    @property
    def bootstrap(self) -> str: ...

    async def start(self) -> None: ...

    async def kill(self) -> None: ...


@pytest.fixture(autouse=True)
def kafka_is_there(request: pytest.FixtureRequest) -> None:
    """Skip tests that need Kafka's classes before anything else of them runs."""
    asks = request.node.get_closest_marker
    if asks("oracle") and not asks("docker"):
        broker_jars()


@pytest.fixture(params=["heliograph", pytest.param("kafka", marks=pytest.mark.long)])
async def either_broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    """Our broker; with --long also Apache Kafka 4.4.0, which proves the test."""
    if request.param == "kafka":
        async with running_kafka(tmp_path / "kafka") as kafka:
            yield kafka
    else:
        connect = request.getfixturevalue("zookeeper")
        async with running_broker(connect, tmp_path) as broker:
            yield broker


@pytest.fixture(
    params=[
        "heliograph",
        pytest.param("kafka", marks=[pytest.mark.long, pytest.mark.oracle]),
    ]
)
async def proxied_ports(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[int, int]]:
    """Return the advertised port, and the port on which the broker listens."""
    port = quiet_port()
    async with AsyncExitStack() as stack:
        if request.param == "kafka":
            told = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
            kafka = await stack.enter_async_context(running_kafka(tmp_path / "kafka", told))
            yield port, kafka.port
        else:
            connect = request.getfixturevalue("zookeeper")
            broker = await stack.enter_async_context(
                running_broker(connect, tmp_path, advertised_port=port)
            )
            yield port, broker.port
