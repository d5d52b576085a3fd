"""A Spark driver that streams a topic by the connector, ten offsets at a time, until its end.

python -m tests.support.connector_stream_job BOOTSTRAP LINKS JARS TOPIC OUT [SECURITY [MASTER]]

OUT gets a file per batch with its rows, `again` with those of the last batch when it runs again,
`ours` with those of the other reader, `read` with those of the connector without a stream, `plan`
with what Spark shows of both, and `refusal`.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_global.addresses import decode_security
from spark_global.connector.jars import ConnectorRefusedError, connector_settings
from spark_global.connector.logins import login_properties
from spark_global.connector.records import connector_records
from spark_global.connector.streams import ConnectorStream
from spark_global.links import decode_links
from spark_global.session import SHORT_JOB, open_session, with_properties
from spark_global.source.options import ReadOptions
from spark_global.views import Aggregate, load_table, read_options
from tests.support.connector_job import rows
from tests.support.spark_cluster import SETTINGS

MASTER: Final = "local[2]"


def settings_of(master: str) -> dict[str, str]:
    """Return the settings of a session; executors of a cluster get the driver's `KRB5_CONFIG`."""
    if master == MASTER:
        return dict(SHORT_JOB)
    config = os.environ.get("KRB5_CONFIG")
    return {**SETTINGS, **({} if config is None else {"spark.executorEnv.KRB5_CONFIG": config})}


def stream(session: SparkSession, options: ReadOptions, out: Path, *, is_again: bool) -> None:
    """Write the rows of each batch to a file, until there is nothing to read."""
    checkpoint = out / "checkpoint"
    reading = ConnectorStream(session, options, str(checkpoint))
    note_plan(reading.frame, out)

    def keep(read: DataFrame, batch: int) -> None:
        name = "again" if is_again else str(batch)
        partial = out / f"{name}.partial"
        partial.write_text(json.dumps(rows(reading.records(read, batch))))
        partial.rename(out / name)

    writer = reading.frame.writeStream.foreachBatch(keep).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def note_plan(frame: DataFrame, out: Path) -> None:
    """Add what Spark shows of a frame."""
    java: Any = frame._jdf
    with (out / "plan").open("a") as file:
        file.write(java.queryExecution().toString())


def main(
    bootstrap: str,
    links: str,
    jars: str,
    topic: str,
    directory: str,
    security: str = "{}",
    master: str = MASTER,
) -> None:
    out = Path(directory)
    out.mkdir()
    aggregate = Aggregate(
        name="nyc",
        bootstrap=bootstrap,
        links=decode_links(links),
        security=decode_security(security),
    )
    options = replace(read_options(aggregate), topic=topic, max_records_per_trigger=10)
    settings = with_properties(
        {**settings_of(master), **connector_settings(jars)}, login_properties(aggregate.security)
    )
    with open_session(master, settings=settings) as session:
        stream(session, options, out, is_again=False)
        commits = out / "checkpoint" / "commits"
        last = max(int(each.name) for each in commits.glob("[0-9]*"))
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink()
        stream(session, options, out, is_again=True)
        ours = load_table(session, aggregate, "records", topic=topic)
        (out / "ours").write_text(json.dumps(rows(ours)))
        read = connector_records(session, options)
        note_plan(read, out)
        (out / "read").write_text(json.dumps(rows(read)))
        try:
            named = replace(options, starting_offsets={})
            ConnectorStream(session, named, str(out / "refused"))
        except ConnectorRefusedError as error:
            (out / "refusal").write_text(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
