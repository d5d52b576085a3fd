"""How Spark's JVM starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_global.jvm.class_archive import archive_path

pytestmark = pytest.mark.real


def test_a_local_session_starts_with_the_archive_of_classes(spark: SparkSession) -> None:
    if not archive_path().is_file():
        pytest.skip("`make test` makes the archive, nobody did here")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pid = jvm.java.lang.ProcessHandle.current().pid()
    assert str(archive_path()) in Path(f"/proc/{pid}/maps").read_text()
