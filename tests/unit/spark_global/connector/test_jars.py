"""The jars of the connector: all of them, once, of the right version."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from spark_global.connector.jars import ConnectorRefusedError, connector_settings

MINOR = ".".join(pyspark.__version__.split(".")[:2])
JARS = (
    f"spark-sql-kafka-0-10_2.13-{MINOR}.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)


def test_a_directory_gives_its_jars(tmp_path: Path) -> None:
    for name in (*JARS, "other.jar"):
        (tmp_path / name).touch()
    found = connector_settings(str(tmp_path))
    assert found == {"spark.jars": ",".join(str(tmp_path / name) for name in JARS)}


def test_what_lacks_or_does_not_fit_is_named(tmp_path: Path) -> None:
    for name in JARS[:-1]:
        (tmp_path / name).touch()
    with pytest.raises(ConnectorRefusedError, match="has 0 files commons-pool2-VERSION"):
        connector_settings(str(tmp_path))
    (tmp_path / JARS[-1]).touch()
    (tmp_path / JARS[0]).rename(tmp_path / "spark-sql-kafka-0-10_2.13-3.5.1.jar")
    with pytest.raises(ConnectorRefusedError, match=f"does not fit PySpark {pyspark.__version__}"):
        connector_settings(str(tmp_path))


def test_maven_resolves_the_version_of_pyspark() -> None:
    wanted = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert connector_settings("maven") == {"spark.jars.packages": wanted}
