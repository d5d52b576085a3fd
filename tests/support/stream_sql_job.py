"""A Spark driver in a process of its own that keeps SQL over streams of windows until it is killed.

python -m tests.support.stream_sql_job BOOTSTRAP TOPIC DIRECTORY FORMAT [MASTER]

Each view is kept as a table of its own: DIRECTORY/strict_windows and so on. FORMAT is `parquet` or
`delta`.
"""

from __future__ import annotations

import sys
from typing import Final

from spark_global.delta.keeping import start_keeping
from spark_global.links import MirrorLink
from spark_global.materialize import Materialization, start_materializing
from spark_global.session import SHORT_JOB, open_session
from spark_global.views import Aggregate
from tests.support.spark_cluster import SETTINGS

MASTER: Final = "local[2,4]"
"""Two slots; a task may fail three times."""
SOURCES: Final = ("jfk", "lga")
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


def main(bootstrap: str, topic: str, directory: str, to: str, master: str = MASTER) -> None:
    start = {"parquet": start_materializing, "delta": start_keeping}[to]
    settings = SHORT_JOB if master == MASTER else SETTINGS
    with open_session(master, settings=settings) as session:
        for view in VIEWS:
            start(session, aggregate_of(bootstrap), kept(topic, view, directory, once=False))
        session.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
