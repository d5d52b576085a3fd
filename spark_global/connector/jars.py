"""The jars of Spark's Kafka connector, as settings of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyspark

MAVEN: Final = "maven"
"""Instead of a directory: Spark resolves the connector of its own version."""
_ARTIFACT: Final = "spark-sql-kafka-0-10_2.13"
_JARS: Final = (_ARTIFACT, "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
"""What PySpark does not have already."""


class ConnectorRefusedError(ValueError):
    """The connector cannot answer here; the message says why."""


def connector_settings(jars: str) -> dict[str, str]:
    """Return the settings for a directory of jars, or for MAVEN. Raises ConnectorRefusedError."""
    version = pyspark.__version__
    if jars == MAVEN:
        return {"spark.jars.packages": f"org.apache.spark:{_ARTIFACT}:{version}"}
    directory = Path(jars).absolute()
    found: list[Path] = []
    for name in _JARS:
        fitting = sorted(directory.glob(f"{name}-*.jar"))
        if len(fitting) != 1:
            raise ConnectorRefusedError(
                f"{directory} has {len(fitting)} files {name}-VERSION.jar; one is needed, and one "
                f"of each of {', '.join(_JARS)}"
            )
        found += fitting
    minor = ".".join(version.split(".")[:2])
    if not found[0].name.startswith(f"{_ARTIFACT}-{minor}."):
        raise ConnectorRefusedError(f"{found[0]} does not fit PySpark {version}; take a {minor}")
    return {"spark.jars": ",".join(map(str, found))}
