"""A real Apache Kafka in a container, where a Docker engine is; `kafka_from_maven.py`'s twin."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import pytest

IMAGE: Final = "confluentinc/cp-kafka:7.9.0"


@dataclass(frozen=True)
class KafkaInContainer:
    """One Kafka in KRaft mode, broker and controller in one."""

    bootstrap: str


@contextlib.asynccontextmanager
async def running_kafka_container() -> AsyncIterator[KafkaInContainer]:
    """A Kafka in a container, removed at the end; skips the test where no Docker engine is."""
    import docker
    from docker.errors import DockerException
    from testcontainers.community.kafka import KafkaContainer

    try:
        docker.from_env().ping()
    except DockerException as error:
        pytest.skip(f"no Docker engine: {error}")
    container = KafkaContainer(IMAGE).with_kraft()
    await asyncio.to_thread(container.start)
    try:
        yield KafkaInContainer(container.get_bootstrap_server())
    finally:
        await asyncio.to_thread(container.stop)
