"""Spark's own Kafka connector and format("heliograph"), each on Apache Kafka and on our broker.

    python -m tests.bench.bench_spark [--quick] [--records N] [--repeats N] [--json FILE]
        [--rows json,lz4,partitions,delay,freshness] [--output FILE]

About 40 minutes on two cores. Topics of JSON and of Avro in lz4 have ten million records, the six
others two million; `--records` sets both. Reads topics of JSON and Avro values in four codecs
whole, as `count(*)` and without content. Then topics of 10 to 1,000 partitions. Then streams with a
trigger of a second: of the broker that is produced to, and of an aggregate behind a mirror. Last,
an Iceberg table at three rates. CPU is that of Spark's JVM and its Python workers.
Prints Markdown and writes it to `--output` (docs/benchmarks/spark.md; with `--quick` only where
`--output` is given).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.bench import machine
from tests.bench.bench import progress
from tests.bench.command import common_options, kafka_version, run
from tests.bench.spark_freshness import measure_freshness
from tests.bench.spark_load import RECORDS_PER_BATCH, VALUE_BYTES, fill
from tests.bench.spark_model import (
    BROKERS,
    CODECS,
    FULL,
    KINDS,
    LARGE,
    QUICK,
    READERS,
    WHATS,
    Broker,
    Found,
    Kind,
    Side,
    SparkScale,
    What,
    curve_name,
    markdown,
    row_name,
)
from tests.bench.spark_readers import (
    CONNECTOR_OPTIONS,
    HELIOGRAPH_COLUMNS,
    MASTER,
    delays,
    mirrored_delays,
    read,
    running_spark,
)
from tests.bench.starting import running_kafka, running_ours, running_zookeeper
from tests.bench.systems import SETTINGS, System
from tests.support.kafka_from_maven import connector_jars

PAGE: Final = Path(__file__).parents[2] / "docs/benchmarks/spark.md"
CURVE_KIND: Final[Kind] = "json"
CURVE_CODEC: Final = "lz4"
DELAY: Final = "delay"
MIRRORED_DELAY: Final = "mirrored delay"
FRESHNESS: Final = "freshness"


@dataclass
class Bench:
    """The brokers, the session, and what was found so far."""

    directory: Path
    session: SparkSession
    systems: dict[Broker, System]
    scale: SparkScale
    parts: Sequence[str]
    found: Found

    def is_asked(self, name: str) -> bool:
        return not self.parts or any(part in name for part in self.parts)

    async def read_topics(self) -> None:
        """Every kind and codec, one topic at a time."""
        for kind in KINDS:
            for codec in CODECS:
                wanted = [what for what in WHATS if self.is_asked(row_name(kind, codec, what))]
                if wanted:
                    await self._read_topic(kind, codec, wanted)

    async def _read_topic(self, kind: Kind, codec: str, whats: Sequence[What]) -> None:
        for name in BROKERS:
            names = {what: row_name(kind, codec, what) for what in whats}
            size = (self.scale.records_of(kind, codec), self.scale.partitions)
            await self._measure(name, kind, codec, size, names)

    async def read_curve(self) -> None:
        """Topics of ever more partitions, with the same number of records."""
        for partitions in self.scale.curve_partitions:
            if self.is_asked(curve_name(partitions)):
                size = (self.scale.curve_records, partitions)
                names: dict[What, str] = {"all": curve_name(partitions)}
                for broker in BROKERS:
                    await self._measure(broker, CURVE_KIND, CURVE_CODEC, size, names)

    async def warm_up(self) -> None:
        """Let the JVM compile what the readers run."""
        found, self.found = self.found, Found()
        names: dict[What, str] = {what: what for what in WHATS}
        size = (self.scale.warm_up_records, self.scale.partitions)
        for broker in BROKERS:
            await self._measure(broker, CURVE_KIND, CURVE_CODEC, size, names)
        self.found = found

    async def _measure(
        self, broker: Broker, kind: Kind, codec: str, size: tuple[int, int], names: dict[What, str]
    ) -> None:
        """Fill a topic and read it by both readers in turn."""
        system = self.systems[broker]
        records, partitions = size
        async with system.topic(f"{kind}-{codec}-{partitions}", partitions) as topic:
            rows = await asyncio.to_thread(
                fill, system.port, topic, kind, codec, records=records, partitions=partitions
            )
            for _ in range(self.scale.repeats):
                for what, name in names.items():
                    for reader in READERS:
                        done = await asyncio.to_thread(
                            read, self.session, reader, system.bootstrap, topic, what
                        )
                        if what == "count" and done.rows != rows:
                            raise RuntimeError(f"{reader} counts {done.rows} of {rows} in {topic}")
                        self.found.add(name, Side(reader, broker), replace(done, rows=rows))

    async def read_delays(self) -> None:
        """How late a stream has a record."""
        if not self.is_asked(DELAY):
            return
        for broker in BROKERS:
            for reader in READERS:
                async with self.systems[broker].topic(f"{DELAY}-{reader}", 1) as topic:
                    self.found.delays[Side(reader, broker)] = await asyncio.to_thread(
                        delays,
                        self.session,
                        reader,
                        self.systems[broker].bootstrap,
                        topic,
                        warm_up_seconds=self.scale.delay_warm_up_seconds,
                        seconds=self.scale.delay_seconds,
                    )

    async def read_mirrored_delays(self) -> None:
        """How late a stream of an aggregate has a record that was produced at a source."""
        if self.is_asked(MIRRORED_DELAY):
            self.found.mirrored_delays = await asyncio.to_thread(
                mirrored_delays,
                self.session,
                self.directory / "mirrored",
                self.scale.partitions,
                warm_up_seconds=self.scale.delay_warm_up_seconds,
                seconds=self.scale.delay_seconds,
            )

    async def watch_table(self) -> None:
        """How late a reader of an Iceberg table has a record."""
        if self.is_asked(FRESHNESS):
            self.found.freshness = await asyncio.to_thread(
                measure_freshness, self.directory / FRESHNESS, self.scale
            )


async def measure(
    directory: Path, scale: SparkScale, parts: Sequence[str], command: str
) -> tuple[str, Found]:
    """Start both brokers and Spark, measure, and return the page and the figures."""
    say = progress()
    found = Found()
    settings = describe(directory, scale)
    async with AsyncExitStack() as stack:
        zookeeper = await stack.enter_async_context(running_zookeeper(directory / "zookeeper"))
        kafka, _ = await stack.enter_async_context(running_kafka(directory / "kafka"))
        ours, _ = await stack.enter_async_context(
            running_ours(directory / "ours", zookeeper, flush="page_cache")
        )
        session = stack.enter_context(running_spark(directory))
        bench = Bench(directory, session, {"Kafka": kafka, "ours": ours}, scale, parts, found)
        for name, step in (
            ("warm-up", bench.warm_up),
            ("topics", bench.read_topics),
            ("partitions", bench.read_curve),
            (DELAY, bench.read_delays),
            (MIRRORED_DELAY, bench.read_mirrored_delays),
            (FRESHNESS, bench.watch_table),
        ):
            say(name)
            await step()
    return page(settings, markdown(found), command), found


def describe(directory: Path, scale: SparkScale) -> dict[str, str]:
    """Machine, versions and settings."""
    (connector,) = connector_jars().glob("spark-sql-kafka-0-10_2.13-*.jar")
    (clients,) = connector_jars().glob("kafka-clients-*.jar")
    return {
        **machine.describe(directory),
        "Apache Kafka": kafka_version(),
        "PySpark": f"{pyspark.__version__}, {MASTER}",
        "heliograph": f"option columns, as heliograph sql sets it: {HELIOGRAPH_COLUMNS}",
        "connector": f"{connector.stem}, {clients.stem}, {CONNECTOR_OPTIONS}",
        "both brokers": str(dict(SETTINGS)),
        "records": f"{scale.records:,} per topic, {scale.large_records:,} in those of "
        f"{' and '.join(map(' '.join, LARGE))}, in {scale.partitions} partitions, values of "
        f"{VALUE_BYTES} bytes, {RECORDS_PER_BATCH} per batch",
        "partitions": f"{scale.curve_records:,} records each, {CURVE_KIND}, {CURVE_CODEC}",
        "repeats": str(scale.repeats),
    }


def page(settings: dict[str, str], tables: str, command: str) -> str:
    lines = [
        "# Spark's readers",
        "",
        'Spark\'s Kafka connector and `format("heliograph")`, each on Apache Kafka and on our',
        "broker: `make bench-spark`. CPU is that of Spark's JVM and its Python workers, not that",
        "of brokers. " + "; ".join(f"`{name}` is {text}" for name, text in WHATS.items()) + ".",
        "Avro values have the header of a schema registry. The delay of a mirrored stream is from",
        "a produce at a source, through our mirror, to a row of a stream of the aggregate.",
        "",
        f"    {command}",
        "",
        *(f"- {name}: {value}" for name, value in settings.items()),
        "",
        tables,
    ]
    return "\n".join(lines)


def main() -> int:
    """Parse the options, measure, print; return the exit code."""
    parser = common_options("tests.bench.bench_spark", __doc__)
    parser.add_argument("--records", type=int, help="of each topic")
    parser.add_argument("--output", type=Path, help="the page to write")
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else FULL
    scale = replace(
        scale,
        records=arguments.records or scale.records,
        large_records=arguments.records or scale.large_records,
        repeats=arguments.repeats or scale.repeats,
    )
    try:
        connector_jars()
    except pytest.skip.Exception as reason:
        print(f"Spark's connector is not here: {reason}", file=sys.stderr)
        return 1
    done = run(
        "tests.bench.bench_spark",
        arguments,
        lambda directory, parts, command: measure(directory, scale, parts, command),
    )
    if done is None:
        return 1
    text, found = done
    if arguments.json:
        arguments.json.write_text(json.dumps(found.json(), indent=1) + "\n")
    print(text)
    output = arguments.output or (None if arguments.quick else PAGE)
    if output is not None:
        output.write_text(text.rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
