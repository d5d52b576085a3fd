"""The Spark session and all of its settings.

The master is `local[*]` by default. To the executors of any other master the session ships this
package as an archive of plain Python. Under `spark-submit` its options come before those here. The
error streams of the JVM and of the local Python workers go to a file, so progress bars and JSON
documents stay clean.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_global.jvm.class_archive import archive_options, archive_path
from spark_global.shipping import ARCHIVE_NAME, PACKAGE_ROOT, write_archive
from spark_global.source.data_source import HeliographDataSource

LOCAL_MASTER: Final = "local[*]"
SHUFFLE_PARTITIONS_LOCAL: Final = 4
DRIVER_MEMORY: Final = "2g"
LOG_TAIL_BYTES: Final = 4_000
_ERROR_LINES_MAX: Final = 2
"""Of a Java exception; a stack follows."""
_LOG_CONFIG: Final = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_ARCHIVE_OPTIONS: Final = ("-XX:ArchiveClassesAtExit", "-XX:SharedArchiveFile")
"""A session with one of these has an archive of classes of its own."""
_EXECUTOR_JAVA_OPTIONS: Final = "spark.executor.extraJavaOptions"
_MASTER: Final = "spark.master"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Variable that `spark-submit` sets for the driver that it starts."""
_PANDAS_WARNING: Final = "PySpark does not yet fully support pandas"
"""A warning that is irrelevant here: frames of pandas are made from Arrow, and become Arrow."""
_one_at_a_time: Final = threading.Lock()


def _java_options(*options: str) -> str:
    # Where this package is an archive, the JVM could not read the file, and logs by its defaults.
    log = [f"-Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()}"] if _LOG_CONFIG.is_file() else []
    return " ".join([*log, *options])


SHORT_JOB: Final[Mapping[str, str]] = {
    _JAVA_OPTIONS: _java_options("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
}
"""Settings of a job of seconds: the JVM's optimizing compiler would cost more than it saves."""


def _quoted(options: Iterable[str]) -> str:
    return " ".join(f'"{each}"' for each in options)


def with_java_options(settings: Mapping[str, str], options: str) -> dict[str, str]:
    """Return settings whose driver's JVM has these options too."""
    return {**settings, _JAVA_OPTIONS: f"{settings.get(_JAVA_OPTIONS, '')} {options}".strip()}


def with_properties(settings: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Return settings whose JVMs, of the driver and of executors, have these system properties."""
    if not properties:
        return dict(settings)
    added = " ".join(f'"-D{name}={value}"' for name, value in properties.items())
    driver = settings.get(_JAVA_OPTIONS, _java_options())
    executor = settings.get(_EXECUTOR_JAVA_OPTIONS, "")
    return {
        **settings,
        _JAVA_OPTIONS: f"{driver} {added}".strip(),
        _EXECUTOR_JAVA_OPTIONS: f"{executor} {added}".strip(),
    }


class SparkStartError(RuntimeError):
    """The JVM did not start; the message ends with its output."""


def is_local(master: str) -> bool:
    """Return whether the tasks of a master run in the driver's process."""
    return master == "local" or master.startswith("local[")


def spark_settings(master: str = LOCAL_MASTER) -> dict[str, str]:
    """Return Spark's configuration for a master."""
    settings = {
        _MASTER: master,
        "spark.app.name": "heliograph",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        _JAVA_OPTIONS: _java_options(),
    }
    if is_local(master):
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
            active = _start_context(master, dict(settings or {}), log_file)
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


def _start_context(master: str, settings: dict[str, str], log_file: Path | None) -> SparkContext:
    is_submitted = _SUBMITTED in os.environ
    wanted = spark_settings(master) | settings
    if is_local(master) and not any(each in wanted[_JAVA_OPTIONS] for each in _ARCHIVE_OPTIONS):
        wanted = with_java_options(wanted, _quoted(archive_options(archive_path())))
    conf = SparkConf().setAll([*wanted.items()])
    _prepare_environment(may_choose_python=is_submitted or not is_local(master))
    if log_file is None:
        handle, name = tempfile.mkstemp(prefix="heliograph-spark-", suffix=".log")
        os.close(handle)
        log_file = Path(name)
    with log_file.open("ab") as log:
        try:
            # PySpark has no types for this function.
            launch: Callable[..., JavaGateway] = launch_gateway
            gateway = launch(conf, popen_kwargs={"stdout": log, "stderr": log})
            if is_submitted:
                conf = _submitted_conf(gateway, master, settings)
            context = SparkContext(conf=conf, gateway=gateway)
        except (OSError, PySparkRuntimeError, Py4JError) as error:
            tail = log_file.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
            raise SparkStartError(
                f"Spark did not start (it needs Java 17): {error}\n{tail}"
            ) from error
    if not PACKAGE_ROOT.is_dir():
        # It came by --py-files, which Spark 4.2 does not give to the driver's side of a stream.
        context.environment["PYTHONPATH"] = str(PACKAGE_ROOT)
    elif not is_local(str(context.master)):
        _ship_package(context)
    return context


def _prepare_environment(*, may_choose_python: bool) -> None:
    """Set what the JVM and local Python workers inherit."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if may_choose_python:
        # Executors on other hosts may have their Python elsewhere.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Local workers import this package by name, and in a checkout it is not installed.
    paths = [str(PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)


def _submitted_conf(gateway: JavaGateway, master: str, settings: dict[str, str]) -> SparkConf:
    """Return the settings of `spark-submit`, and of ours those that it does not set."""
    conf = SparkConf(_jvm=gateway.jvm)
    of_submit = conf.get(_MASTER) or master
    for name, value in (spark_settings(of_submit) | settings).items():
        conf.setIfMissing(name, value)
    return conf


def _ship_package(context: SparkContext) -> None:
    """Give the executors the driver's version of this package."""
    # Spark deletes this directory with the session.
    directory = Path(SparkFiles.getRootDirectory()) / "shipped"
    directory.mkdir()
    archive = directory / ARCHIVE_NAME
    write_archive(archive)
    context.addPyFile(str(archive))
