"""A Spark driver that streams a topic by the connector, until a batch fails.

python -m tests.support.connector_joining_job BOOTSTRAP LINKS JARS TOPIC OUT

OUT gets a file per batch with its rows, and `refusal` with what the failed one says.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark_global.connector.jars import connector_settings
from spark_global.connector.streams import ConnectorStream
from spark_global.links import decode_links
from spark_global.session import SHORT_JOB, open_session
from spark_global.views import Aggregate, read_options
from tests.support.connector_job import rows


def main(bootstrap: str, links: str, jars: str, topic: str, directory: str) -> None:
    out = Path(directory)
    out.mkdir(exist_ok=True)
    aggregate = Aggregate(name="nyc", bootstrap=bootstrap, links=decode_links(links))
    options = replace(read_options(aggregate), topic=topic)
    checkpoint = str(out / "checkpoint")
    with open_session("local[2]", settings={**SHORT_JOB, **connector_settings(jars)}) as session:
        reading = ConnectorStream(session, options, checkpoint)

        def keep(read: DataFrame, batch: int) -> None:
            partial = out / f"{batch}.partial"
            partial.write_text(json.dumps(rows(reading.records(read, batch))))
            partial.rename(out / f"{batch}")

        writer = reading.frame.writeStream.foreachBatch(keep).trigger(processingTime="1 second")
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            (out / "refusal").write_text(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
