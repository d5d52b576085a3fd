"""Fixtures of the tests that start real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_global.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests."""
    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    with open_session("local[2]", log_file=log_file) as session:
        yield session
