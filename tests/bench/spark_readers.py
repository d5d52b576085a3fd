"""The readers of the bench: what they read, what that costs, how late a stream has a record."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka
from pyspark.sql import DataFrame, SparkSession

from spark_global.connector.jars import connector_settings
from spark_global.session import open_session
from spark_global.source.data_source import FORMAT
from spark_global.views import stream_records
from tests.bench.processes import cpu_seconds
from tests.bench.spark_deployment import START_SECONDS_MAX, TOPIC, deployed
from tests.bench.spark_model import TRIGGER_SECONDS, Read, Reader, What
from tests.support.kafka_from_maven import connector_jars

MASTER: Final = "local[2]"
PRODUCE_EACH_SECONDS: Final = 0.023
"""No divisor of the trigger, so that records fall everywhere between two of them."""
CONNECTOR_OPTIONS: Final = {
    "kafka.isolation.level": "read_committed",
    "includeHeaders": "true",
}

HELIOGRAPH_COLUMNS: Final[Mapping[What, str]] = {
    "count": "partition",
    "metadata": "partition,aggregate_offset,timestamp",
}
"""Option `columns`, as `heliograph sql` sets it. The connector has no such option."""


@contextmanager
def running_spark(directory: Path) -> Iterator[SparkSession]:
    """A session with both readers, as `heliograph spark materialize` has one."""
    settings = connector_settings(str(connector_jars()))
    with open_session(MASTER, log_file=directory / "spark.log", settings=settings) as session:
        yield session


def options_of(reader: Reader, bootstrap: str, topic: str) -> dict[str, str]:
    """The options of a reader, besides its defaults."""
    if reader == "heliograph":
        return {"bootstrap": bootstrap, "topics": topic}
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **CONNECTOR_OPTIONS}


def format_of(reader: Reader) -> str:
    return FORMAT if reader == "heliograph" else "kafka"


def read(session: SparkSession, reader: Reader, bootstrap: str, topic: str, what: What) -> Read:
    """Read a whole topic; count its rows, or give them to a sink that drops them."""
    gateway = session.sparkContext._gateway
    assert gateway is not None, "a session that runs has a JVM"
    jvm = gateway.proc.pid
    before, start = cpu_seconds([jvm]), time.perf_counter()
    options = options_of(reader, bootstrap, topic)
    if reader == "heliograph" and what in HELIOGRAPH_COLUMNS:
        options["columns"] = HELIOGRAPH_COLUMNS[what]
    frame = session.read.format(format_of(reader)).options(**options).load()
    rows = _consume(frame, reader, what)
    return Read(rows, time.perf_counter() - start, cpu_seconds([jvm]) - before)


def _consume(frame: DataFrame, reader: Reader, what: What) -> int:
    """Return the number of rows, or 0 if it is not counted."""
    if what == "count":
        return frame.count()
    if what == "metadata":
        offset = "aggregate_offset" if reader == "heliograph" else "offset"
        frame = frame.select("partition", offset, "timestamp")
    frame.write.format("noop").mode("overwrite").save()
    return 0


def delays(
    session: SparkSession,
    reader: Reader,
    bootstrap: str,
    topic: str,
    *,
    warm_up_seconds: float,
    seconds: float,
) -> list[float]:
    """Stream a topic while records with the time of their produce arrive; return their delays."""
    stream = session.readStream.format(format_of(reader))
    frame = stream.options(**options_of(reader, bootstrap, topic)).load()
    return _delays(frame, bootstrap, topic, warm_up_seconds, seconds)


def mirrored_delays(
    session: SparkSession,
    directory: Path,
    partitions: int,
    *,
    warm_up_seconds: float,
    seconds: float,
) -> list[float]:
    """Produce at a source and stream the aggregate that mirrors it; return the delays."""
    with deployed(directory, partitions) as running:
        frame = stream_records(session, running.aggregate, topic=TOPIC)
        return _delays(frame, running.source_bootstrap, TOPIC, warm_up_seconds, seconds)


def _delays(
    frame: DataFrame, bootstrap: str, topic: str, warm_up_seconds: float, seconds: float
) -> list[float]:
    """Produce to a topic and await its records in a stream; it warms up from the first row on.

    Raises RuntimeError if no row arrives.
    """
    found: list[tuple[float, float]] = []
    has_row = threading.Event()

    def take(batch: DataFrame, _: int) -> None:
        values = [float(row.value.decode()) for row in batch.select("value").collect()]
        now = time.time()
        found.extend((produced, now - produced) for produced in values)
        if values:
            has_row.set()

    trigger = f"{TRIGGER_SECONDS} seconds"
    query = frame.writeStream.foreachBatch(take).trigger(processingTime=trigger).start()
    stopped = threading.Event()
    producing = threading.Thread(target=_produce, args=(bootstrap, topic, stopped))
    producing.start()
    try:
        if not has_row.wait(START_SECONDS_MAX):
            raise RuntimeError(f"the stream of {topic} has no row: {query.exception()}")
        began = time.time()
        query.awaitTermination(int(warm_up_seconds + seconds))
        if query.exception() is not None:
            raise RuntimeError(f"the stream of {topic}: {query.exception()}")
    finally:
        stopped.set()
        producing.join()
        query.stop()
    return [delay for produced, delay in found if produced >= began + warm_up_seconds]


def _produce(bootstrap: str, topic: str, stopped: threading.Event) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    while not stopped.wait(PRODUCE_EACH_SECONDS):
        producer.produce(topic, value=repr(time.time()))
        producer.poll(0)
    producer.flush()
