"""A Spark driver that writes and reads a topic on a secured listener by Spark's own connector.

python -m tests.support.secured_connector_job JARS TOPIC PROPERTIES

PROPERTIES is a file with Java's configs. It prints the values of a batch and of a stream as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from spark_global.connector.jars import connector_settings
from spark_global.session import SHORT_JOB, open_session

ROWS: Final = 100
WAIT_SECONDS: Final = 90


def values(frame: DataFrame) -> list[int]:
    """Return the values of the records, in order."""
    return sorted(int(row[0]) for row in frame.selectExpr("cast(value as string)").collect())


def main(jars: str, topic: str, properties: str) -> None:
    pairs = (line.split("=", 1) for line in Path(properties).read_text().splitlines())
    options = {f"kafka.{name}": value for name, value in pairs}
    with open_session("local[2]", settings={**SHORT_JOB, **connector_settings(jars)}) as session:
        numbers = session.range(ROWS).selectExpr("cast(id as string) as value")
        numbers.write.format("kafka").options(topic=topic, **options).save()
        asked = {**options, "subscribe": topic, "startingOffsets": "earliest"}
        batch = session.read.format("kafka").options(**asked).load()
        stream = session.readStream.format("kafka").options(**asked).load()
        sink = stream.writeStream.format("memory").queryName("streamed")
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination(WAIT_SECONDS)
        print(json.dumps({"batch": values(batch), "stream": values(session.table("streamed"))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
