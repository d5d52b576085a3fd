"""What `spark-submit` runs on a cluster of Spark: a read, every question, a stream. Prints JSON.

    spark-submit --py-files heliograph.zip spark_cluster_job.py BOOTSTRAP LINKS DIRECTORY

It imports nothing but what the archive has, Spark, and the standard library.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import spark_global
from mirror_maker.formats.mm2 import HEARTBEATS_TOPIC
from spark_global.catalogue.offsets import HEARTBEAT_MATRIX, OFFSET_QUESTIONS
from spark_global.catalogue.records import RECORD_QUESTIONS
from spark_global.catalogue.windows import WINDOW_QUESTIONS
from spark_global.links import decode_links
from spark_global.session import open_session
from spark_global.views import Aggregate, load_table, stream_records

TOPIC = "flights"


def place(_: int) -> tuple[str | None, str, bool]:
    """Return where this Python has our readers from, its directory, and if it has all of us."""
    found = importlib.util.find_spec("spark_global.source.reading")
    has_rest = importlib.util.find_spec("aggregator") is not None
    return (found.origin if found else None, str(Path.cwd()), has_rest)


def answers(session: SparkSession, aggregate: Aggregate) -> dict[str, int]:
    """Ask every question of the catalogue; return the number of rows by its name."""
    frames: dict[str, DataFrame] = {}

    def count(name: str, answer: DataFrame) -> DataFrame:
        return answer.agg(sql.lit(name).alias("name"), sql.count("*").alias("rows"))

    counted = []
    for question in RECORD_QUESTIONS + WINDOW_QUESTIONS + OFFSET_QUESTIONS:
        for name in question.inputs:
            if name not in frames:
                frames[name] = load_table(session, aggregate, name, topic=TOPIC).cache()
        answer = question(*(frames[name] for name in question.inputs))
        counted.append(count(question.name, answer))
    beats = load_table(session, aggregate, "records", topic=HEARTBEATS_TOPIC)
    counted.append(count(HEARTBEAT_MATRIX.name, HEARTBEAT_MATRIX(beats)))
    every = reduce(DataFrame.union, counted)
    return {row["name"]: row["rows"] for row in every.collect()}


def streamed(session: SparkSession, aggregate: Aggregate, directory: str) -> int:
    """Stream the topic into Parquet; return the number of records that arrived."""
    query = (
        stream_records(session, aggregate, topic=TOPIC)
        .writeStream.format("parquet")
        .option("path", f"{directory}/rows")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = session.read.parquet(f"{directory}/rows")
    return rows.select("datacenter", "partition", "offset").distinct().count()


def main(bootstrap: str, links: str, directory: str) -> None:
    aggregate = Aggregate(name="nyc", bootstrap=bootstrap, links=decode_links(links))
    with open_session() as session:
        context = session.sparkContext
        places = context.parallelize(range(16), 16).map(place).distinct().collect()
        records = load_table(session, aggregate, "records", topic=TOPIC, split_records_max=30)
        found: dict[str, Any] = {
            "master": context.master,
            "driver": spark_global.__file__,
            "places": places,
            "records": [
                (
                    row.datacenter,
                    row.partition,
                    row.offset,
                    row.aggregate_offset,
                    row.value.decode(),
                )
                for row in records.collect()
            ],
            "answers": answers(session, aggregate),
            "streamed": streamed(session, aggregate, directory),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
