"""A Spark driver in a process of its own that keeps SQL over streams of windows until it is killed.

python -m tests.support.stream_sql_job BOOTSTRAP TOPIC DIRECTORY FORMAT [MASTER]

Each view is kept as a table of its own: DIRECTORY/strict_windows and so on. FORMAT is `parquet`,
`delta` or `iceberg`. Iceberg tables share the catalogue in DIRECTORY.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_global.delta.keeping import start_keeping
from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.questions.keeping import checkpoint_folder
from spark_global.iceberg.questions.keeping import start_keeping as start_iceberg
from spark_global.links import MirrorLink
from spark_global.materialize import Materialization, start_materializing
from spark_global.session import SHORT_JOB, open_session
from spark_global.sql import explain_error
from spark_global.stream_sql import topic_of_query
from spark_global.streamable import FoundView
from spark_global.views import Aggregate
from tests.support.spark_cluster import SETTINGS

MASTER: Final = "local[2,4]"
"""Two slots; a task may fail three times."""
SOURCES: Final = ("jfk", "lga")
NAMESPACE: Final = "nyc"
"""Of the Iceberg tables."""
VIEWS: Final = ("strict_windows", "fast_windows", "datacenter_windows", "top_keys")


def aggregate_of(bootstrap: str) -> Aggregate:
    """The aggregate of the job."""
    links = tuple(
        MirrorLink(name=f"{source}-nyc", source=source, datacenter=source.upper())
        for source in SOURCES
    )
    return Aggregate(name="nyc", bootstrap=bootstrap, links=links)


def kept(topic: str, view: str, directory: str, *, once: bool) -> Materialization:
    """What the job keeps."""
    return Materialization(
        view=view,
        path=f"{directory}/{view}",
        trigger_seconds=0.2,
        stops_at_end=once,
        records_max=50,
        late_seconds=0,
        query=f"SELECT * FROM stream_global_{topic}_{view}",
    )


def checkpoint_of(directory: str, view: str, to: str) -> Path:
    """Return the folder of Spark's checkpoint for a view."""
    if to == "iceberg":
        return checkpoint_folder(directory, (NAMESPACE, view), None)
    return Path(directory, view, "_checkpoint")


def start(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization, directory: str, to: str
) -> None:
    """Start the query that keeps a view."""
    match to:
        case "parquet":
            start_materializing(session, aggregate, wanted)
        case "delta":
            start_keeping(session, aggregate, wanted)
        case "iceberg":
            assert wanted.query is not None
            start_iceberg(
                session,
                aggregate,
                wanted,
                FoundView(topic_of_query(aggregate, wanted.query, None)),
                (open_catalogue(directory, create=True), (NAMESPACE, wanted.view)),
                checkpoint_of(directory, wanted.view, to),
            )


def main(bootstrap: str, topic: str, directory: str, to: str, master: str = MASTER) -> None:
    settings = SHORT_JOB if master == MASTER else SETTINGS
    aggregate = aggregate_of(bootstrap)
    with open_session(master, settings=settings) as session:
        for view in VIEWS:
            start(session, aggregate, kept(topic, view, directory, once=False), directory, to)
        try:
            session.streams.awaitAnyTermination()
        except StreamingQueryException as error:
            sys.exit(explain_error(error))  # what it says is gone with the session


if __name__ == "__main__":
    main(*sys.argv[1:])
