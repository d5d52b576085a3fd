"""The Spark session and all of its settings.

The master is `local[*]` by default. Any other master needs one option, and this package on its
executors. The error streams of the JVM and of the Python workers go to a file, so progress bars and
JSON documents stay clean.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_global.source.data_source import HeliographDataSource

LOCAL_MASTER: Final = "local[*]"
SHUFFLE_PARTITIONS_LOCAL: Final = 4
DRIVER_MEMORY: Final = "2g"
LOG_TAIL_BYTES: Final = 4_000
_LOG_CONFIG: Final = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PACKAGE_ROOT: Final = Path(__file__).parent.parent
_PANDAS_WARNING: Final = "PySpark does not yet fully support pandas"
"""A warning that is irrelevant here, because pandas is not used."""
_one_at_a_time: Final = threading.Lock()


SHORT_JOB: Final[Mapping[str, str]] = {
    _JAVA_OPTIONS: (
        f"-Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()}"
        " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    )
}
"""Settings of a job of seconds: the JVM's optimizing compiler would cost more than it saves."""


class SparkStartError(RuntimeError):
    """The JVM did not start; the message ends with its output."""


def spark_settings(master: str = LOCAL_MASTER) -> dict[str, str]:
    """Return Spark's configuration for a master."""
    settings = {
        "spark.master": master,
        "spark.app.name": "heliograph",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()}",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS_LOCAL),
            "spark.default.parallelism": str(SHUFFLE_PARTITIONS_LOCAL),
        }
    return settings


@contextlib.contextmanager
def open_session(
    master: str = LOCAL_MASTER,
    *,
    log_file: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Start a session as `start_session` does; stop it at the end unless it ran before."""
    ran_before = SparkContext._active_spark_context is not None
    session = start_session(master, log_file=log_file, settings=settings)
    try:
        yield session
    finally:
        if not ran_before:
            stop_session(session)


def start_session(
    master: str = LOCAL_MASTER,
    *,
    log_file: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session with the data source registered; the running one, if there is one.

    `log_file` takes the JVM's error stream (default: a temporary file). Raises SparkStartError.
    """
    warnings.filterwarnings("ignore", message=_PANDAS_WARNING)
    with _one_at_a_time:
        active = SparkContext._active_spark_context
        if active is None:
            conf = SparkConf().setAll([*(spark_settings(master) | dict(settings or {})).items()])
            active = _start_context(conf, log_file)
        session = SparkSession(active)
        session.dataSource.register(HeliographDataSource)
        return session


def stop_session(session: SparkSession) -> None:
    """Stop Spark and its JVM, which PySpark alone would leave running."""
    gateway = session.sparkContext._gateway
    session.stop()
    process = getattr(gateway, "proc", None)
    with _one_at_a_time:
        SparkContext._gateway = None
        SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
    if process is not None:
        process.stdin.close()  # the JVM ends when this pipe does
        process.wait()


def _start_context(conf: SparkConf, log_file: Path | None) -> SparkContext:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if conf.get("spark.master", "").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers import this package by name, and in a checkout it is not installed.
        paths = [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if log_file is None:
        handle, name = tempfile.mkstemp(prefix="heliograph-spark-", suffix=".log")
        os.close(handle)
        log_file = Path(name)
    with log_file.open("ab") as log:
        try:
            # PySpark has no types for this function.
            launch: Callable[..., JavaGateway] = launch_gateway
            gateway = launch(conf, popen_kwargs={"stdout": log, "stderr": log})
        except (OSError, PySparkRuntimeError) as error:
            tail = log_file.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
            raise SparkStartError(
                f"Spark's JVM did not start (Java 17 is needed): {error}\n{tail}"
            ) from error
    return SparkContext(conf=conf, gateway=gateway)
