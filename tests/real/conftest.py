"""Fixtures of the tests that start real processes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from spark_global.session import SHORT_JOB, open_session


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Spark's processes say."""
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="session")
def spark(spark_log: Path) -> Iterator[SparkSession]:
    """One Spark session for all tests."""
    with open_session("local[2]", log_file=spark_log, settings=SHORT_JOB) as session:
        yield session


@pytest.fixture
def chroot(zookeeper: str) -> str:
    """Connect string with a chroot that does not exist yet."""
    return f"{zookeeper}/t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def outside(chroot: str) -> Iterator[KazooClient]:
    """An outside tool's client, under the same chroot."""
    client = KazooClient(chroot)
    client.start()
    client.ensure_path("/")
    yield client
    client.stop()
    client.close()
